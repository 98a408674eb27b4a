"""Replies as they finish, and what a protocol that answers in order would have made of them."""

from typing import Final

import pandas as pd

from kvstore.client.workload import Workload
from kvstore.measure import Run

SLOW_FIRST: Final = Workload(
    mix={"retrieve": 15, "update": 1},
    seed=137,  # of all seeds tried, the first whose one update comes at the very beginning
    preload=8,
    key_bytes_mean=16,
    value_bytes_mean=64,
    sizes="fixed",
)
"""One write, then reads only, for 48 operations: a slow request at the head of the line."""

SLOW_FIRST_CALLS: Final = 48


def in_order_done_s(calls: pd.DataFrame) -> pd.Series:
    """When each reply would have left a server that answers in the order of asking.

    `calls` stand in the order of sending. A reply cannot leave before all earlier ones
    have: the running maximum of the times at which they were ready.
    """
    return calls["done_s"].cummax()


def both_orders(run: Run, *, most: int = 60) -> pd.DataFrame:
    """The first `most` calls: done as they were, and done had replies been kept in order.

    The same trace serves for both, so this is kind to the protocol in order: with a
    window it would also have *sent* later, because its replies came later.
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
    """How many calls were answered after one that was sent later."""
    done_s = run.calls["done_s"]
    earliest_later = done_s[::-1].cummin()[::-1].shift(-1)
    return int((earliest_later < done_s).sum())


def answered_as(run: Run, number: int) -> int:
    """As which reply the call that was sent as `number` (from 1) came back."""
    return int(run.calls["done_s"].rank(method="first").iloc[number - 1])
