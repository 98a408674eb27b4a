"""Throughput with several operations in a message, or several writes in an fsync.

A message of k operations takes a + b k seconds of the bottleneck: a for the message, b for each
operation. Throughput X first grows in proportion to k and finally approaches 1 / b. This is the
bound X <= 1 / D_max, with D_max = (a + b k) / k for each operation.
"""

import math
from collections.abc import Mapping

import numpy as np

from kvstore.model.bounds import Prediction, Station, closed_loop
from kvstore.numbers import number, seconds


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
# A commit of k writes takes f + b k seconds of the log: f for the fsync, b for each write. The
# log makes one commit at a time. With N writes in flight and r seconds of a call outside the log:
#
#     one by one   X = min(N / (r + f + b), 1 / (f + b))
#     in groups    X = N / (T + max(T, r)), with T = f + b N / 2
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
    per_write_s: float = 0.0,
    way_s: float = 0.0,
    processor_s: float = 0.0,
) -> Prediction:
    """Return X in writes per second if each write has its own fsync.

    `fsync_s` is f, `per_write_s` is b, and `way_s` is r: the time of a call outside the log. All
    times are in seconds. `processor_s` is the CPU time of a write in the busier of client and
    server; throughput is at most 1 / `processor_s`. Raises `ValueError` for `in_flight` below 1, a
    negative time, or if all times are 0.
    """
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
    alone = one_by_one(
        in_flight,
        fsync_s=fsync_s,
        per_write_s=per_write_s,
        way_s=way_s,
        processor_s=processor_s,
    )
    if in_flight == 1:  # no other group can be in the log
        return alone
    group_s = fsync_s + per_write_s * in_flight / 2
    found = Prediction(
        in_flight / (group_s + max(group_s, way_s)),
        "calls/s",
        f"a write waits for the group before it and for its own, {seconds(group_s)} each:"
        f" N / 2f with {in_flight} in flight"
        if group_s >= way_s
        else f"a call takes {seconds(way_s)} outside the log and {seconds(group_s)} for its group",
        LOG if group_s >= way_s else "calls in flight",
    )
    return _at_most(found, processor_s)


def _at_most(found: Prediction, processor_s: float) -> Prediction:
    if not processor_s or found.value <= 1 / processor_s:
        return found
    return Prediction(
        1 / processor_s,
        "calls/s",
        f"a write takes {seconds(processor_s)} of CPU time in the busier process; the disk"
        f" alone would allow {number(found.value)} writes/s",
        "cpu",
    )
