"""More calls than a server can answer: what is still answered in time, as flows.

A fluid model: calls flow in at lambda, out at X = threads / service time, and the difference
piles up. L. Kleinrock, "Queueing Systems" vol. 2 (1976), chapter 2, has the method. It knows no
chance; `open_loop` plays the same through call by call.
"""

import math

from kvstore.model.prediction import Prediction, Station


def goodput(
    offered_per_s: float,
    pool: Station,
    *,
    deadline_s: float,
    offered_for_s: float,
    limit: float = math.inf,
) -> Prediction:
    """Calls answered within the deadline, for each of the `offered_for_s` seconds.

    Up to the pool's rate X all of them. Beyond it the queue grows at lambda - X, and served
    first come, first served, a call is in time while its wait leaves it its service time: that is
    so for the first (deadline - service) X / (lambda - X) seconds, and then never again. A server
    that has at most `limit` calls in its hands, and refuses the others, keeps every wait below
    limit / X; where that is within the deadline all it accepted are in time.
    Raises `ValueError` where a rate or time makes no sense.
    """
    for name, value in {"offered_per_s": offered_per_s, "offered_for_s": offered_for_s}.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be above 0 and finite, got {value}")
    served_per_s, most = pool.most_per_s, within(deadline_s, pool)
    if offered_per_s <= served_per_s:
        return _of(offered_per_s, "offered no more than it can serve: all are in time", "callers")
    growth_per_s = offered_per_s - served_per_s
    if limit <= most.value:
        accepted_per_s = min(offered_per_s, served_per_s + limit / offered_for_s)
        reason = f"never more than {limit:g} calls wait, each less than the deadline: X"
        return _of(accepted_per_s, reason, pool.name)
    in_time_s = max(0.0, deadline_s - pool.demand_s) * served_per_s / growth_per_s
    reason = (
        f"the queue grows by {growth_per_s:,.0f} calls a second: in time for the first"
        f" {in_time_s:.2g} s of {offered_for_s:g} s, then never again"
    )
    return _of(offered_per_s * min(1.0, in_time_s / offered_for_s), reason, "queue")


def within(deadline_s: float, pool: Station) -> Prediction:
    """The most calls a server may have in its hands when each is to end within the deadline.

    Little's law read from the right: N = X W with W = deadline. Raises `ValueError` when the
    deadline is shorter than the service time, and no call can be in time at all.
    """
    if not deadline_s >= pool.demand_s:
        raise ValueError(
            f"deadline_s must be the service time of {pool.demand_s:g} s or more, got {deadline_s}"
        )
    return Prediction(
        pool.most_per_s * deadline_s,
        "calls",
        f"{pool.most_per_s:,.4g} calls/s, each {deadline_s:g} s in the server: N = X W",
        pool.name,
    )


def _of(in_time_per_s: float, reason: str, binds: str) -> Prediction:
    return Prediction(in_time_per_s, "calls/s", reason, binds)
