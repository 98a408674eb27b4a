"""Overload: goodput, bursts, load shedding and retries; the memory of a growing backlog.

Fluid approximations: calls are treated as a flow with an arrival rate lambda and a capacity X,
both in calls per second. The formulas follow from counting what enters and leaves the queue, and
from Little's law.
"""

import math
from dataclasses import replace

from kvstore.model.bounds import Prediction, Station
from kvstore.numbers import number, seconds, size


def goodput(
    offered_per_s: float,
    pool: Station,
    *,
    deadline_s: float,
    offered_for_s: float,
    limit: float = math.inf,
    from_s: float = 0.0,
) -> Prediction:
    """Return the goodput: calls per second answered within the deadline.

    Only the calls that arrive from `from_s` seconds on count, in calls per second of that time.

    lambda = `offered_per_s` for `offered_for_s` seconds, X the capacity of the pool, S its service
    time. With a limit below the number of servers, X is limit / S. If λ ≤ X, every call is in
    time. Otherwise the queue grows at lambda - X and is served in order of arrival. A call is in
    time as long as the wait before it is at most deadline - S: for the first
    (deadline - S) X / (lambda - X) seconds, and not afterwards. With at most `limit` calls in the
    server, waiting or in service, mean residence time is about limit / X. If this is within the
    deadline, every accepted call is taken to be in time. Raises `ValueError`
    for a rate or duration that is not above 0 and finite, for a `from_s` outside the duration, and
    for a deadline that is shorter than the service time, because then no call can meet it.
    """
    for name, value in {"offered_per_s": offered_per_s, "offered_for_s": offered_for_s}.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be above 0 and finite, got {value}")
    if not 0 <= from_s < offered_for_s:
        raise ValueError(f"from_s must be from 0 to below {offered_for_s} s, got {from_s}")
    if not deadline_s >= pool.demand_s:
        raise ValueError(
            f"deadline_s must be at least the service time of {pool.demand_s:g} s, got {deadline_s}"
        )
    served_per_s = replace(pool, servers=min(pool.servers, limit)).most_per_s
    if offered_per_s <= served_per_s:
        return _of(offered_per_s, "λ ≤ X: every call is in time", "callers")
    growth_per_s = offered_per_s - served_per_s
    if limit <= pool.most_per_s * deadline_s:  # Little's law: N = X R with R = deadline
        at_first_per_s = 0.0 if from_s else limit / offered_for_s  # the queue was empty
        accepted_per_s = min(offered_per_s, served_per_s + at_first_per_s)
        reason = (
            f"at most {number(limit)} calls are in the server, so each ends in time: X, and the "
            f"last {number(limit)} end after the sending"
        )
        return _of(accepted_per_s, reason, pool.name)
    in_time_s = max(0.0, deadline_s - pool.demand_s) * served_per_s / growth_per_s
    reason = (
        f"the queue grows by {number(growth_per_s)} calls per second: calls are in time for the"
        f" first {seconds(in_time_s)} of {seconds(offered_for_s)}, and late afterwards"
    )
    counted_s = max(0.0, min(in_time_s, offered_for_s) - from_s)
    return _of(offered_per_s * counted_s / (offered_for_s - from_s), reason, "queue")


def _of(in_time_per_s: float, reason: str, binds: str) -> Prediction:
    return Prediction(in_time_per_s, "calls/s", reason, binds)


def drain_burst(calls: int, station: Station) -> Prediction:
    """Return the seconds until a burst of N = `calls` calls is answered: N / X.

    X is the capacity of the station.
    """
    return Prediction(
        calls / station.most_per_s,
        "s",
        f"{calls:,} calls, and the {station.name} serves {number(station.most_per_s)} per second:"
        " N / X",
        station.name,
    )


def retries_in_lockstep(operations: int, limit: int) -> Prediction:
    """Return the number of attempts if n operations start together and retry together.

    In each round the server accepts L = `limit` operations and refuses the others, which retry
    after the same pause. The sum n + (n - L) + (n - 2L) + ... grows with the square of n. This
    holds if the pause is longer than the service time.
    """
    rounds = math.ceil(operations / limit)
    return Prediction(
        sum(range(operations, 0, -limit)),
        "attempts",
        f"{operations} at once, {limit} of them accepted in each round: {rounds} rounds",
        "concurrency limit",
    )


# The memory of a client without a concurrency limit: its backlog grows at lambda - X.
#
# lambda is the rate of calls sent, X the rate of calls answered, both in calls per second. The
# growth of the number in flight follows from counting the calls that enter and leave.


def time_until(
    ceiling_bytes: float,
    *,
    base_bytes: float,
    bytes_per_call: float,
    sent_per_s: float,
    answered_per_s: float,
) -> Prediction:
    """Return the seconds until the memory of a process grows from `base_bytes` to the ceiling.

    t = (ceiling - base) / (bytes per call * (lambda - X)). Infinite if the backlog does not grow.
    Raises `ValueError` unless `ceiling_bytes` is above `base_bytes`.
    """
    if not ceiling_bytes > base_bytes:
        raise ValueError(
            f"ceiling_bytes must be above base_bytes, got {size(ceiling_bytes)} and"
            f" {size(base_bytes)}"
        )
    bytes_per_s = bytes_per_call * (sent_per_s - answered_per_s)
    if not bytes_per_s > 0:
        return Prediction(
            math.inf,
            "s",
            "calls are answered at the rate at which they are sent: the backlog does not grow",
        )
    room_bytes = ceiling_bytes - base_bytes
    return Prediction(
        room_bytes / bytes_per_s,
        "s",
        f"{size(room_bytes)} free, {size(bytes_per_call)} a call,"
        f" {number(sent_per_s)} sent minus {number(answered_per_s)} answered per second",
        "memory",
    )
