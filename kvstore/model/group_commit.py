"""Throughput of durable writes, which are acknowledged after an fsync: one by one, or in groups.

A commit of k writes takes f + b k seconds of the log: f for the fsync, b for each write. The log
makes one commit at a time. With N writes in flight and Z seconds of a call outside the log:

    one by one   X = min(N / (Z + f + b), 1 / (f + b))
    in groups    X = N / (T + max(T, Z)), with T = f + b N / 2

In groups, the writes that arrive during a commit form the next group. So the N writes in flight
are two groups of N / 2 on average: one is being committed, one is gathering. The groups need not
be equal: after a commit, the first write to return may find the log free and be committed alone,
and the other N - 1 form the next group. The mean is N / 2 all the same.

Source of group commit: D. DeWitt et al., "Implementation Techniques for Main Memory Database
Systems" (1984). The formulas for a closed loop follow from Little's law.
"""

import math

from kvstore.model.bounds import closed_loop
from kvstore.model.prediction import Prediction, Station

LOG = "log"
"""The name of the station."""


def one_by_one(
    in_flight: int,
    *,
    fsync_s: float,
    per_write_s: float = 0.0,
    way_s: float = 0.0,
    processor_s: float = 0.0,
) -> Prediction:
    """Return X in writes per second if each write has its own fsync.

    `fsync_s` is f, `per_write_s` is b, and `way_s` is Z: the time of a call outside the log. All
    times are in seconds. `processor_s` is the CPU time of a write in the busier of client and
    server; throughput is at most 1 / `processor_s`. Raises `ValueError` for `in_flight` below 1,
    a negative time, or a commit that takes no time.
    """
    _check(in_flight, fsync_s, per_write_s, way_s, processor_s)
    elsewhere = Station("outside the log", way_s, math.inf)
    found = closed_loop(in_flight, [Station(LOG, fsync_s + per_write_s), elsewhere])
    return _at_most(found, processor_s)


def in_groups(
    in_flight: int,
    *,
    fsync_s: float,
    per_write_s: float = 0.0,
    way_s: float = 0.0,
    processor_s: float = 0.0,
) -> Prediction:
    """Return X in writes per second if all waiting writes share one fsync.

    Arguments and errors are those of `one_by_one`.
    """
    _check(in_flight, fsync_s, per_write_s, way_s, processor_s)
    if in_flight == 1:  # no other group can be in the log
        return one_by_one(
            1, fsync_s=fsync_s, per_write_s=per_write_s, way_s=way_s, processor_s=processor_s
        )
    group_s = fsync_s + per_write_s * in_flight / 2
    found = Prediction(
        in_flight / (group_s + max(group_s, way_s)),
        "calls/s",
        f"a write waits for the group before it and for its own, {1e3 * group_s:,.4g} ms each:"
        f" N / 2f with {in_flight} in flight"
        if group_s >= way_s
        else f"a call takes {1e3 * way_s:,.4g} ms outside the log and {1e3 * group_s:,.4g} ms for"
        " its group",
        LOG if group_s >= way_s else "calls in flight",
    )
    return _at_most(found, processor_s)


def _at_most(found: Prediction, processor_s: float) -> Prediction:
    if not processor_s or found.value <= 1 / processor_s:
        return found
    return Prediction(
        1 / processor_s,
        "calls/s",
        f"a write takes {1e6 * processor_s:,.4g} µs of CPU time in the busier process; the disk"
        f" alone would allow {found.value:,.0f} writes/s",
        "cpu",
    )


def _check(
    in_flight: int, fsync_s: float, per_write_s: float, way_s: float, processor_s: float
) -> None:
    if not in_flight >= 1:
        raise ValueError(f"in_flight must be 1 or more, got {in_flight}")
    times = {
        "fsync_s": fsync_s,
        "per_write_s": per_write_s,
        "way_s": way_s,
        "processor_s": processor_s,
    }
    for name, value in times.items():
        if not value >= 0:
            raise ValueError(f"{name} must be 0 or more seconds, got {value}")
    if not fsync_s + per_write_s > 0:
        raise ValueError("fsync_s or per_write_s must be above 0 seconds, got 0 for both")
