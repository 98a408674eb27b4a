"""The asymptotic bounds of a closed loop, and its bottleneck.

    X <= min(N / (D + Z), min over stations of servers / D_i)

N is the number of calls in flight, D_i the service demand at station i, D the sum of all D_i, and
Z the think time. Source: E. D. Lazowska et al., "Quantitative System Performance" (1984), chapter
5. With constant service times and without think time, throughput almost reaches the bounds.
"""

import math
from collections.abc import Sequence

from kvstore.model.prediction import Prediction, Station


def closed_loop(in_flight: int, stations: Sequence[Station], think_s: float = 0.0) -> Prediction:
    """Return the upper bound on X in calls per second, with N = `in_flight` callers.

    Each caller waits for a reply, then `think_s` seconds (Z), then makes the next call. Below the
    knee N* the bound is N / (D + Z). Above N* it is servers / D_i of the bottleneck. Raises
    `ValueError` for `in_flight` below 1, or if all demands and the think time are 0.
    """
    if not in_flight >= 1:
        raise ValueError(f"in_flight must be 1 or more, got {in_flight}")
    round_s = sum(station.demand_s for station in stations) + think_s
    if not round_s > 0:
        raise ValueError(
            "demands and think time add up to 0 s, so throughput has no bound: give a station with"
            " a demand above 0"
        )
    by_callers = in_flight / round_s
    slowest = min(stations, key=lambda station: station.most_per_s, default=None)
    if slowest is None or by_callers <= slowest.most_per_s:
        return Prediction(
            by_callers,
            "calls/s",
            f"{in_flight} in flight, each takes {_ms(round_s)}: N / (D + Z)",
            "calls in flight",
        )
    served = "one call" if slowest.servers == 1 else f"{slowest.servers:g} calls at once, each"
    return Prediction(
        slowest.most_per_s,
        "calls/s",
        f"{slowest.name} serves {served} in {_ms(slowest.demand_s)}: servers / demand",
        slowest.name,
    )


def residence(in_flight: int, stations: Sequence[Station], think_s: float = 0.0) -> Prediction:
    """Return the lower bound on R, the residence time of a call in seconds: R = N / X - Z.

    X is the upper bound of `closed_loop`, and the errors are the same.
    """
    bound = closed_loop(in_flight, stations, think_s)
    return Prediction(
        in_flight / bound.value - think_s,
        "s",
        f"{in_flight} in flight at {bound.value:,.4g} calls/s: R = N / X - Z",
        bound.binds,
    )


def knee(stations: Sequence[Station], think_s: float = 0.0) -> float:
    """Return N*, the number of calls in flight at which the two bounds meet (the knee).

    N* = (D + Z) * min(servers / D_i). If every station has one server, N* = (D + Z) / D_max.
    Beyond N* calls in flight the bound no longer grows. Infinite if every station is a delay.
    """
    most_per_s = min((station.most_per_s for station in stations), default=math.inf)
    return (sum(station.demand_s for station in stations) + think_s) * most_per_s


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.4g} ms"
