"""A part of a run, looked at by itself: what was answered between two moments."""

from typing import NamedTuple

import numpy as np

from kvstore.measure.audit import in_flight_between
from kvstore.measure.run import Run


class During(NamedTuple):
    """The figures of a part of a run."""

    answered_per_s: float
    """Calls that were answered in it, whatever the answer, for each second."""
    residence_mean_s: float
    """Mean seconds that these calls took; NaN when there are none."""
    in_flight_mean: float
    """Calls in flight, averaged over the time of the part."""


def during(run: Run, from_s: float, until_s: float) -> During:
    """What happened from `from_s` to `until_s`, both in seconds from the start of the run.

    A part begins and ends in the middle of calls, so Little's law holds in it only nearly.
    Raises `ValueError` for a part without any length.
    """
    if not 0 <= from_s < until_s:
        raise ValueError(f"a part of a run begins before it ends, got {from_s} to {until_s} s")
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
