"""Throughput with several operations in a message, or several writes in an fsync.

A message of k operations takes a + b k seconds of the bottleneck: a for the message, b for each
operation. Throughput X first grows in proportion to k and finally approaches 1 / b. This is the
bound X <= 1 / D_max, with D_max = (a + b k) / k for each operation.
"""

import math
from collections.abc import Mapping

import numpy as np

from kvstore.model.bounds import Prediction, Station, closed_loop
from kvstore.numbers import seconds


def throughput(size: int, *, per_message_s: float, per_operation_s: float) -> Prediction:
    """Return X = k / (a + b k) in operations per second, for k = `size` operations in a message.

    `per_message_s` is a and `per_operation_s` is b, in seconds. Raises `ValueError` for a size
    below 1.
    """
    if not size >= 1:
        raise ValueError(f"size must be 1 or more operations, got {size}")
    return Prediction(
        size / (per_message_s + per_operation_s * size),
        "operations/s",
        f"{size} operations share {seconds(per_message_s)} and take"
        f" {seconds(per_operation_s)} each: X = k / (a + b k)",
        "message" if per_message_s > per_operation_s * size else "operations",
    )


def fit(message_s: Mapping[int, float]) -> tuple[float, float]:
    """Return (a, b), the seconds per message and per operation, fitted to measured messages.

    `message_s` maps the number of operations in a message to the seconds that such a message
    took. Two sizes are enough. With more sizes the sum of the squared relative errors is
    minimised, so that a message of 1 operation has the same weight as one of 512. Raises
    `ValueError` for fewer than two sizes, or a time that is not above 0.
    """
    if len(message_s) < 2:
        raise ValueError(f"message_s must have two sizes or more, got {sorted(message_s)}")
    if not all(seconds > 0 for seconds in message_s.values()):
        raise ValueError(f"every time in message_s must be above 0 s, got {dict(message_s)}")
    sizes, seconds = np.array(list(message_s)), np.array(list(message_s.values()))
    columns = np.stack([1 / seconds, sizes / seconds], axis=1)
    (per_message_s, per_operation_s), *_ = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)
    return float(per_message_s), float(per_operation_s)


def enough(*, per_message_s: float, per_operation_s: float, share: float) -> float:
    """Return the message size k that reaches `share` of the maximum throughput 1 / b.

    k = share / (1 - share) * a / b, and at least 1. Each further operation delays every reply of
    the message by b seconds and adds little throughput. Infinite if b is 0.
    """
    if per_operation_s <= 0:
        return math.inf
    return max(1.0, share / (1 - share) * per_message_s / per_operation_s)


# Throughput of durable writes, which are acknowledged after an fsync: one by one, or in groups.
#
# A commit takes f seconds of the log, the fsync, however many writes are in it. The log makes one
# commit at a time. With N writes in flight and r seconds of a call outside the log:
#
#     one by one   X = min(N / (r + f), 1 / f)
#     in groups    X = N / (f + max(f, r))
#
# In groups, the writes that arrive during a commit form the next group. So the N writes in flight
# are two groups of N / 2 on average: one is being committed, one is gathering. The groups need
# not be equal: after a commit, the first write to return may find the log free and be committed
# alone, and the other N - 1 form the next group. The mean is N / 2 all the same.
#
# Source of group commit: D. DeWitt et al., "Implementation Techniques for Main Memory Database
# Systems" (1984). The formulas for a closed loop follow from Little's law.


LOG = "log"
"""The name of the station."""


def one_by_one(
    in_flight: int,
    *,
    fsync_s: float,
    way_s: float = 0.0,
) -> Prediction:
    """Return X in writes per second if each write has its own fsync.

    `fsync_s` is f, and `way_s` is r: the time of a call outside the log, both in seconds. Raises
    `ValueError` for `in_flight` below 1, a negative time, or if both times are 0.
    """
    elsewhere = Station("outside the log", way_s, math.inf)
    return closed_loop(in_flight, [Station(LOG, fsync_s), elsewhere])


def in_groups(
    in_flight: int,
    *,
    fsync_s: float,
    way_s: float = 0.0,
) -> Prediction:
    """Return X in writes per second if all waiting writes share one fsync.

    Arguments and errors are those of `one_by_one`.
    """
    if in_flight == 1:  # no other group can be in the log
        return one_by_one(in_flight, fsync_s=fsync_s, way_s=way_s)
    return Prediction(
        in_flight / (fsync_s + max(fsync_s, way_s)),
        "calls/s",
        f"a write waits for the group before it and for its own, {seconds(fsync_s)} each:"
        f" N / 2f with {in_flight} in flight"
        if fsync_s >= way_s
        else f"a call takes {seconds(way_s)} outside the log and {seconds(fsync_s)} for its group",
        LOG if fsync_s >= way_s else "calls in flight",
    )
