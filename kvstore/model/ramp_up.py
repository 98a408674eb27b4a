"""A closed loop that users join one after the other: throughput and residence time over time.

N(t) is the number of users at time t. The bound of `bounds.closed_loop` is applied to N(t), with a
delay: D + Z is the duration of one round of a user. A user gets its first reply after a whole
round, so on average the number of replies is half a round behind. The residence time of a call
that ends now depends on the queue that it found one round ago. `joins_s` are the seconds at which
users join, in order.
"""

from bisect import bisect_right
from collections.abc import Sequence

from kvstore.model import bounds
from kvstore.model.prediction import Prediction, Station


def users(joins_s: Sequence[float], at_s: float) -> int:
    """Return N(t), the number of users that have joined at `at_s` seconds."""
    return bisect_right(joins_s, at_s)


def throughput_per_s(
    joins_s: Sequence[float], stations: Sequence[Station], at_s: float, think_s: float = 0.0
) -> float:
    """Return X(t) in calls per second: the bound for the N of half a round ago.

    `think_s` is Z, in seconds. Raises the errors of `bounds.closed_loop`.
    """
    in_flight = users(joins_s, at_s - _round_s(stations, think_s) / 2)
    return bounds.closed_loop(in_flight, stations, think_s).value if in_flight else 0.0


def residence_s(
    joins_s: Sequence[float], stations: Sequence[Station], at_s: float, think_s: float = 0.0
) -> float:
    """Return R(t) = N / X - Z in seconds, for the N of one round ago; 0 before the first reply.

    `think_s` is Z, in seconds. Raises the errors of `bounds.closed_loop`.
    """
    in_flight = users(joins_s, at_s - _round_s(stations, think_s))
    return bounds.residence(in_flight, stations, think_s).value if in_flight else 0.0


def threads(joins_s: Sequence[float], limit: float, at_s: float, own: float = 0.0) -> float:
    """Return the threads of a process with a pool that grows on demand: own + min(N(t), limit).

    The pool starts a thread for each call that finds no idle thread, up to `limit`. `own` is the
    number of threads outside the pool.
    """
    return own + min(users(joins_s, at_s), limit)


def calls(
    joins_s: Sequence[float], stations: Sequence[Station], until_s: float, think_s: float = 0.0
) -> Prediction:
    """Return the number of calls answered until `until_s` seconds: the area under X(t).

    Raises `ValueError` if `joins_s` is empty, and the errors of `bounds.closed_loop`.
    """
    if not joins_s:
        raise ValueError("joins_s must have one time or more, got none")
    behind_s = _round_s(stations, think_s) / 2
    begins_s = [at_s + behind_s for at_s in joins_s if at_s + behind_s < until_s]
    total = 0.0
    for in_flight, begin_s in enumerate(begins_s, start=1):
        end_s = begins_s[in_flight] if in_flight < len(begins_s) else until_s
        rate = bounds.closed_loop(in_flight, stations, think_s).value
        total += rate * (end_s - begin_s)
    last = bounds.closed_loop(len(joins_s), stations, think_s)
    return Prediction(
        total,
        "calls",
        f"the area under X(t), with up to {len(joins_s)} users in {until_s:g} s",
        last.binds,
    )


def _round_s(stations: Sequence[Station], think_s: float) -> float:
    return sum(station.demand_s for station in stations) + think_s
