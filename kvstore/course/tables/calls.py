"""Single calls: when each was sent and done, and in which order they came back."""

import math
from collections.abc import Iterable

import pandas as pd

from kvstore.course.tables.layout import rounded
from kvstore.measure import Run


def calls_over_time(
    run: Run,
    *,
    most: int = 120,
    from_s: float = 0.0,
    until_s: float = math.inf,
    lanes: bool = False,
) -> pd.DataFrame:
    """The first `most` calls sent between `from_s` and `until_s`: when sent, when done.

    With `lanes` also the lane of each: the lowest that was free when it was sent.
    """
    calls = run.calls
    chosen = calls[(calls["sent_s"] >= from_s) & (calls["sent_s"] < until_s)].head(most)
    table = pd.DataFrame(
        {
            "operation": chosen["operation"].astype(str).to_numpy(),
            "status": chosen["status"].astype(str).to_numpy(),
            "sent (s)": chosen["sent_s"].to_numpy(),
            "done (s)": chosen["done_s"].to_numpy(),
            "residence (ms)": 1e3 * chosen["residence_s"].to_numpy(),
        },
        index=pd.RangeIndex(1, len(chosen) + 1, name="sent as number"),
    )
    if lanes:
        table.insert(0, "lane", _lanes(chosen["sent_s"], chosen["done_s"]))
    return table


def _lanes(sent_s: Iterable[float], done_s: Iterable[float]) -> list[int]:
    """For each call, sent in this order, the lowest lane from 1 that is free."""
    free_at_s: list[float] = []
    lanes = []
    for sent, done in zip(sent_s, done_s, strict=True):
        lane = next((n for n, at_s in enumerate(free_at_s) if at_s <= sent), len(free_at_s))
        free_at_s[lane : lane + 1] = [done]
        lanes.append(lane + 1)
    return lanes


def reply_order(run: Run, *, most: int = 60) -> pd.DataFrame:
    """The first `most` calls: as which they were sent, and as which they were answered."""
    calls = run.calls.head(most)
    table = pd.DataFrame(
        {
            "operation": calls["operation"].astype(str).to_numpy(),
            "answered as number": calls["done_s"].rank(method="first").astype(int).to_numpy(),
            "residence (ms)": 1e3 * calls["residence_s"].to_numpy(),
        },
        index=pd.RangeIndex(1, len(calls) + 1, name="sent as number"),
    )
    return rounded(table)
