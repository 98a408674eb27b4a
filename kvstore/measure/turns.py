"""A run of turns, turn by turn: how long each took, how its calls ended, what it held."""

from typing import TYPE_CHECKING

import numpy as np

from kvstore.codes import OK
from kvstore.measure.audit import in_flight_steps
from kvstore.measure.run import Run

if TYPE_CHECKING:  # see run.py
    import pandas as pd


def turns(run: Run) -> "pd.DataFrame":
    """One row for each turn of `run.in_flight` calls, in the order of sending.

    The last may be shorter. `sending_s` is from its first call sent to its last, `answered_s`
    from its first call sent to its last answer, `last_s` the residence of the call that was
    sent last. `most_in_flight` is exact; the memory is the most that a sample saw, NaN where
    none fell into the turn.
    """
    import pandas as pd

    records = run.records[np.argsort(run.records["sent_s"], kind="stable")]
    size = run.in_flight or len(records)
    rows = [_row(run, records[at : at + size]) for at in range(0, len(records), size)]
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="turn"))


def _row(run: Run, calls: "np.ndarray[tuple[int], np.dtype[np.void]]") -> dict[str, float]:
    sent_s, done_s = calls["sent_s"], calls["done_s"]
    begins_s, ends_s = float(sent_s[0]), float(done_s.max())
    within = run.samples[run.samples["elapsed_s"].between(begins_s, ends_s)]
    return {
        "begins_s": begins_s,
        "sending_s": float(sent_s[-1]) - begins_s,
        "answered_s": ends_s - begins_s,
        "last_s": float(done_s[-1] - sent_s[-1]),
        "calls": len(calls),
        "ok": int(np.count_nonzero(calls["status"] == OK)),
        "most_in_flight": int(in_flight_steps(sent_s, done_s)[1].max()),
        "client_bytes": float(within["client_rss_bytes"].max()),
        "server_bytes": float(within["server_rss_bytes"].max()),
    }
