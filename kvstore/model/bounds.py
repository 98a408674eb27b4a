"""The asymptotic bounds of a closed loop, and the station that sets them.

X <= min(N / (D + Z), min over stations of servers / demand): E. D. Lazowska et al.,
"Quantitative System Performance" (1984), chapter 5. With constant service times and no
thinking they are reached almost exactly.
"""

import math
from collections.abc import Sequence

from kvstore.model.prediction import Prediction, Station


def closed_loop(in_flight: int, stations: Sequence[Station], think_s: float = 0.0) -> Prediction:
    """Calls per second of `in_flight` callers who each wait for an answer before the next.

    Below N* the callers bind (N / (D + Z)), beyond it the slowest station does.
    Raises `ValueError` when there is no caller, or nothing takes any time.
    """
    if not in_flight >= 1:
        raise ValueError(f"in_flight must be 1 or more, got {in_flight}")
    round_s = sum(station.demand_s for station in stations) + think_s
    if not round_s > 0:
        raise ValueError("stations and think time add up to 0 s: nothing limits the rate")
    by_callers = in_flight / round_s
    slowest = min(stations, key=lambda station: station.most_per_s, default=None)
    if slowest is None or by_callers <= slowest.most_per_s:
        return Prediction(
            by_callers,
            "calls/s",
            f"{in_flight} in flight, each {_ms(round_s)} a round: N / (D + Z)",
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
    """Seconds from sending a call to its answer: R = N / X - Z, from the bound on X."""
    bound = closed_loop(in_flight, stations, think_s)
    return Prediction(
        in_flight / bound.value - think_s,
        "s",
        f"{in_flight} in flight at {bound.value:,.4g} calls/s: R = N / X - Z",
        bound.binds,
    )


def knee(stations: Sequence[Station], think_s: float = 0.0) -> float:
    """N*: calls in flight from which on the slowest station binds; infinite if none ever does.

    N* = (D + Z) * min(servers / demand); for single servers the familiar (D + Z) / D_max.
    """
    most_per_s = min((station.most_per_s for station in stations), default=math.inf)
    return (sum(station.demand_s for station in stations) + think_s) * most_per_s


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.4g} ms"
