"""Mean value analysis: the exact throughput of a closed loop with several queues.

M. Reiser and S. S. Lavenberg, Journal of the ACM 27 (1980): a call that arrives finds what
it would find on average with one call fewer in the loop, so the answer for N follows from
that for N - 1.

It earns its place when calls may queue at two or more stations, or when one of them is
nearly as slow as the slowest: around the knee calls then wait at both, and the bound
min(N / (D + Z), 1 / D_max) promises too much (a quarter too much for two equal stations
and four callers). Far from the knee, and where there is one queue and nothing else,
`bounds` says the same for less. It is exact for service times that are exponential (or
for processor sharing); with constant ones, as our disk's, calls get in each other's way
less and the truth lies between MVA and the bound. Who wants it there asks `simulate`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvstore.model import bounds
from kvstore.model.prediction import Prediction, Station


@dataclass(frozen=True, slots=True)
class Solution:
    """A closed loop, solved: what goes through it, and where its calls are."""

    throughput_per_s: float
    residence_s: Mapping[str, float]
    """Seconds that a call spends at each station, waiting included."""
    in_flight: Mapping[str, float]
    """Mean number of calls at each station."""

    @property
    def total_residence_s(self) -> float:
        """Seconds from sending a call to its answer."""
        return sum(self.residence_s.values())


def solve(in_flight: int, stations: Sequence[Station], think_s: float = 0.0) -> Solution:
    """The mean values of a loop with `in_flight` callers.

    Each station serves one call at a time, or any number (`servers=math.inf`). Raises
    `ValueError` for other numbers of servers, two stations of one name, less than one
    caller, or when nothing takes any time.
    """
    if in_flight != int(in_flight) or not in_flight >= 1:
        raise ValueError(f"in_flight must be a whole number of 1 or more, got {in_flight}")
    if not think_s >= 0:
        raise ValueError(f"think_s must be 0 or more seconds, got {think_s}")
    for station in stations:
        if station.servers not in (1, math.inf):
            raise ValueError(
                f"MVA knows stations of 1 server and of math.inf, got {station.servers:g}"
                f" for {station.name}: use simulate"
            )
    if len({station.name for station in stations}) < len(stations):
        raise ValueError(f"each station needs a name of its own, got {[s.name for s in stations]}")
    if not sum(station.demand_s for station in stations) + think_s > 0:
        raise ValueError("stations and think time add up to 0 s: nothing limits the rate")
    queued = dict.fromkeys((station.name for station in stations), 0.0)
    residence_s, throughput_per_s = dict(queued), 0.0
    for callers in range(1, int(in_flight) + 1):
        residence_s = {
            station.name: station.demand_s
            * (1 if math.isinf(station.servers) else 1 + queued[station.name])
            for station in stations
        }
        throughput_per_s = callers / (think_s + sum(residence_s.values()))
        queued = {name: throughput_per_s * stay_s for name, stay_s in residence_s.items()}
    return Solution(throughput_per_s, residence_s, queued)


def closed_loop(in_flight: int, stations: Sequence[Station], think_s: float = 0.0) -> Prediction:
    """Calls per second of `in_flight` callers, with what queueing costs; raises as `solve` does."""
    solution = solve(in_flight, stations, think_s)
    bound = bounds.closed_loop(in_flight, stations, think_s)
    return Prediction(
        solution.throughput_per_s,
        "calls/s",
        f"{in_flight} in flight who wait {1e3 * solution.total_residence_s:,.4g} ms a call, queues"
        f" included: {solution.throughput_per_s / bound.value:.1%} of the bound",
        bound.binds,
    )
