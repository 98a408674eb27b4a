"""Parts of a run: calls of one kind, calls in an interval, and the turns of a burst."""

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvstore.measure.audit import in_flight_between, in_flight_steps
from kvstore.measure.run import Run
from kvstore.protocol import BATCH, KINDS, OK

if TYPE_CHECKING:  # see run.py
    import pandas as pd


def only(run: Run, operation: str) -> Run:
    """Return the run restricted to one kind of operation.

    `operation` is one of the run's kinds, such as "create". CPU time and samples remain those of
    the whole run. Raises `ValueError` for another kind, and for batches, which mix several kinds.
    """
    known = [kind for kind in run.kinds if kind != KINDS[BATCH]]
    if operation not in known:
        raise ValueError(f"operation must be one of {', '.join(known)}, got {operation!r}")
    records = run.records[run.records["kind"] == run.kinds.index(operation)]
    sent = int(records["operations"].sum())
    return dataclasses.replace(run, records=records, issued=len(records), operations_sent=sent)


class During(NamedTuple):
    """The figures of an interval of a run."""

    answered_per_s: float
    """Calls that ended in the interval with any status, per second."""
    residence_mean_s: float
    """R: mean residence time of these calls in seconds; NaN if there are none."""
    in_flight_mean: float
    """L: mean number of calls in flight during the interval."""


def during(run: Run, from_s: float, until_s: float) -> During:
    """Return the figures from `from_s` to `until_s`, both in seconds from the start of the run.

    Calls are in flight at both ends of the interval, so Little's law holds only approximately.
    Raises `ValueError` unless 0 <= from_s < until_s.
    """
    if not 0 <= from_s < until_s:
        raise ValueError(
            f"from_s must be 0 or more and until_s above it, got {from_s} and {until_s}"
        )
    records = run.records
    done = records[(records["done_s"] >= from_s) & (records["done_s"] < until_s)]
    took_s = done["done_s"] - done["sent_s"]
    (in_flight,) = in_flight_between(
        records["sent_s"], records["done_s"], np.array([from_s, until_s])
    )
    return During(
        len(done) / (until_s - from_s),
        float(np.mean(took_s)) if len(done) else float("nan"),
        float(in_flight),
    )


def turns(run: Run) -> "pd.DataFrame":
    """Return one row for each turn of `run.in_flight` calls, in the order of sending.

    The last turn may be shorter. `sending_s` is the time from the first to the last send,
    `answered_s` the time from the first send to the last end, and `last_s` the residence time of
    the call that was sent last. `most_in_flight` is exact. Memory is the maximum of the samples
    during the turn, NaN without a sample.
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
