"""Users who join a closed loop one after the other: what is answered at each moment.

The bound of `bounds.closed_loop` holds for any number in flight, so also for the one of now;
`joins_s` are the seconds at which users begin, in order, as a run is given them. A user gives an
answer at the end of each round and none before, so by any moment the answers are half a round
behind on average; and a call of now found the queue as it was a whole round ago.
"""

from bisect import bisect_right
from collections.abc import Sequence

from kvstore.model import bounds
from kvstore.model.prediction import Prediction, Station


def users(joins_s: Sequence[float], at_s: float) -> int:
    """N(t): how many have joined by then."""
    return bisect_right(joins_s, at_s)


def throughput_per_s(
    joins_s: Sequence[float], stations: Sequence[Station], at_s: float, think_s: float = 0.0
) -> float:
    """X(t): calls answered per second, from the bound for the N of half a round ago."""
    in_flight = users(joins_s, at_s - _round_s(stations, think_s) / 2)
    return bounds.closed_loop(in_flight, stations, think_s).value if in_flight else 0.0


def residence_s(
    joins_s: Sequence[float], stations: Sequence[Station], at_s: float, think_s: float = 0.0
) -> float:
    """R(t) = N / X - Z, in seconds, for the N of a round ago; 0 before the first answer."""
    in_flight = users(joins_s, at_s - _round_s(stations, think_s))
    return bounds.residence(in_flight, stations, think_s).value if in_flight else 0.0


def threads(joins_s: Sequence[float], limit: float, at_s: float, own: float = 0.0) -> float:
    """Threads of a pool that makes one for each call that finds none idle: min(N, limit).

    `own` are those that the process has besides.
    """
    return own + min(users(joins_s, at_s), limit)


def calls(
    joins_s: Sequence[float], stations: Sequence[Station], until_s: float, think_s: float = 0.0
) -> Prediction:
    """How many calls are answered by then: the area under X(t), step by step.

    Raises `ValueError` when nobody joins, or nothing takes any time.
    """
    if not joins_s:
        raise ValueError("nobody joins: joins_s is empty")
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
