"""Writes that are answered when the disk has them: one by one, or in groups.

A commit of k writes takes f + b * k seconds of the log: one fsync, and a little for each. One
log commits one thing at a time. What it takes at once makes all the difference:

    one by one   X = min(N / (Z + f + b), 1 / (f + b))
    in groups    what gathers while one group is on its way to the disk is the next. So the N
                 writes in flight are two groups of N / 2: one on the disk, one that gathers.
                 T = f + b * N / 2, and X = N / (T + max(T, Z))

That is so although the log may well take 1 and N - 1 in turn: of those who come back from a
commit the first finds the log free and has it to himself, and the others just miss it. Only if
all came back in the same instant would there be one group.

Z is the way: all that a call spends elsewhere, there and back. The idea of committing what
waits together: D. DeWitt et al., "Implementation Techniques for Main Memory Database Systems"
(1984). The formula for a closed loop follows from Little's law.
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
    """Writes per second when each has an fsync of its own.

    `fsync_s` is f, `per_write_s` b, `way_s` Z, and `processor_s` what a write costs the busier of
    client and server: no more than 1 / `processor_s` a second. Raises `ValueError` for less
    than one in flight, a negative time, or no time at all.
    """
    _check(in_flight, fsync_s, per_write_s, way_s, processor_s)
    way = Station("way", way_s, math.inf)
    found = closed_loop(in_flight, [Station(LOG, fsync_s + per_write_s), way])
    return _at_most(found, processor_s)


def in_groups(
    in_flight: int,
    *,
    fsync_s: float,
    per_write_s: float = 0.0,
    way_s: float = 0.0,
    processor_s: float = 0.0,
) -> Prediction:
    """Writes per second when whatever waits is committed with one fsync.

    Arguments and errors are those of `one_by_one`.
    """
    _check(in_flight, fsync_s, per_write_s, way_s, processor_s)
    if in_flight == 1:  # nobody else's group is ever in the way
        return one_by_one(
            1, fsync_s=fsync_s, per_write_s=per_write_s, way_s=way_s, processor_s=processor_s
        )
    group_s = fsync_s + per_write_s * in_flight / 2
    found = Prediction(
        in_flight / (group_s + max(group_s, way_s)),
        "calls/s",
        f"each waits for the group before it and for its own, {1e3 * group_s:,.4g} ms each:"
        f" {in_flight} in flight / 2T"
        if group_s >= way_s
        else f"a round is a way of {1e3 * way_s:,.4g} ms and a group of {1e3 * group_s:,.4g} ms",
        LOG if group_s >= way_s else "calls in flight",
    )
    return _at_most(found, processor_s)


def _at_most(found: Prediction, processor_s: float) -> Prediction:
    if not processor_s or found.value <= 1 / processor_s:
        return found
    return Prediction(
        1 / processor_s,
        "calls/s",
        f"a write costs {1e6 * processor_s:,.4g} us of the busier processor: the disk could do"
        f" {found.value:,.4g}",
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
        raise ValueError("a commit takes 0 s: nothing limits the rate")
