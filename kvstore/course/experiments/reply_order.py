"""Replies in the order in which they finish, beside a protocol that replies in order."""

from typing import Final

import pandas as pd

from kvstore.client.workload import Workload
from kvstore.measure import Run

SLOW_FIRST: Final = Workload(
    mix={"retrieve": 15, "update": 1},
    seed=137,  # the first seed whose only update is the first operation
    preload=8,
    key_bytes_mean=16,
    value_bytes_mean=64,
    sizes="fixed",
)
"""One write, then only reads, for 48 operations: a slow request that heads the line."""

SLOW_FIRST_CALLS: Final = 48


def in_order_done_s(calls: pd.DataFrame) -> pd.Series:
    """Return the time of each reply if the server replied in the order of requests.

    `calls` are in the order of sending. A reply cannot leave before all earlier ones, so its time
    is the running maximum of the times at which they were ready.
    """
    return calls["done_s"].cummax()


def both_orders(run: Run, *, most: int = 60) -> pd.DataFrame:
    """Return the times of the first `most` calls as measured, and with replies in order.

    Both use the same trace, which favours replies in order: with a window, that protocol would
    also *send* later, because its replies come later.
    """
    calls = run.calls.head(most)
    in_order_s = in_order_done_s(calls)
    return pd.DataFrame(
        {
            "operation": calls["operation"].astype(str).to_numpy(),
            "sent (ms)": 1e3 * calls["sent_s"].to_numpy(),
            "done as finished (ms)": 1e3 * calls["done_s"].to_numpy(),
            "done in order (ms)": 1e3 * in_order_s.to_numpy(),
            "held back (ms)": 1e3 * (in_order_s - calls["done_s"]).to_numpy(),
        },
        index=pd.RangeIndex(1, len(calls) + 1, name="sent as number"),
    ).round(2)


def overtaken(run: Run) -> int:
    """Return the number of calls that were answered after a call that was sent later."""
    done_s = run.calls["done_s"]
    earliest_later = done_s[::-1].cummin()[::-1].shift(-1)
    return int((earliest_later < done_s).sum())


def answered_as(run: Run, number: int) -> int:
    """Return the position among the replies of the call that was sent as `number` (from 1)."""
    return int(run.calls["done_s"].rank(method="first").iloc[number - 1])
