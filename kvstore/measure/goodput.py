"""Goodput: the answers that came while somebody was still waiting for them."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kvstore.codes import DEADLINE_EXCEEDED, OK
from kvstore.measure.run import Run


class Goodput(NamedTuple):
    """What became of the calls of an open loop; rates are for each second in which calls fell due.

    Calls sent are those in time, those late and those refused, and no others.
    """

    offered_per_s: float
    """Calls that were due."""
    in_time_per_s: float
    """Calls answered OK within the deadline, counted from when they were due: the goodput."""
    late: int
    """Calls that ran out of time: the deadline passed, or the answer came after it."""
    refused: int
    """Calls that ended in any other way; most often RESOURCE_EXHAUSTED, and at once."""
    wasted: float
    """Operations that the server did, and whose caller had gone; NaN where it did not tell."""


def goodput(run: Run, deadline_s: float | None = None) -> Goodput:
    """The goodput of a run whose calls had due times.

    The deadline is that of the run unless given, in seconds. Raises `ValueError` for a closed
    loop: a caller who waits for an answer before asking again offers no rate of its own.
    """
    records = run.records
    if np.isnan(records["due_s"]).any():
        raise ValueError("this run was a closed loop: goodput needs due times, see pacing")
    limit_s = float(run.settings["deadline_s"]) if deadline_s is None else deadline_s
    offered_s = run.settings.get("duration_s") or run.window_s or math.nan
    ok = records["status"] == OK
    in_time = ok & (records["done_s"] - records["due_s"] <= limit_s)
    out_of_time = records["status"] == DEADLINE_EXCEEDED
    late = int(np.count_nonzero(ok & ~in_time) + np.count_nonzero(out_of_time))
    counted = run.server.get("operations")
    done = math.nan if counted is None else _done(counted)
    return Goodput(
        offered_per_s=run.issued / offered_s,
        in_time_per_s=int(np.count_nonzero(in_time)) / offered_s,
        late=late,
        refused=run.issued - int(np.count_nonzero(in_time)) - late,
        wasted=done - int(np.count_nonzero(in_time)),
    )


def _done(counted: Mapping[str, int]) -> float:
    return sum(count for name, count in counted.items() if name.endswith("/OK"))
