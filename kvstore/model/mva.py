"""Mean value analysis (MVA): the exact throughput of a closed loop with several queues.

Source: M. Reiser and S. S. Lavenberg, Journal of the ACM 27 (1980). An arriving call finds at each
station, on average, the calls of the same loop with one caller fewer. So the solution for N
follows from the solution for N - 1.

MVA is exact for exponential service times (and for processor sharing), not for any other
distribution. With constant service times calls queue less, and the true throughput lies
between MVA and the bound. Use `simulate` for constant times.

MVA differs from `bounds` if calls queue at two or more stations with similar demands. Around the
knee calls then wait at both stations, and min(N / (D + Z), 1 / D_max) is too high: by a quarter
for two equal stations and four callers. Far from the knee, or with one queue only, both agree.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvstore.model import bounds
from kvstore.model.bounds import Prediction, Station


@dataclass(frozen=True, slots=True)
class Solution:
    """The mean values of a closed loop."""

    throughput_per_s: float
    """X, in calls per second."""
    residence_s: Mapping[str, float]
    """R_i: seconds that a call spends at each station, queueing included."""
    in_flight: Mapping[str, float]
    """N_i: mean number of calls at each station, in service or queueing."""

    @property
    def total_residence_s(self) -> float:
        """R: seconds from sending a call to its reply."""
        return sum(self.residence_s.values())


def solve(in_flight: int, stations: Sequence[Station], think_s: float = 0.0) -> Solution:
    """Return the mean values of a closed loop with N = `in_flight` callers.

    The recursion for n = 1 .. N: R_i = D_i (1 + N_i(n - 1)) at a station with one server, R_i = D_i
    at a delay station (`servers=math.inf`); X = n / (Z + sum of R_i); N_i = X R_i. `think_s` is Z,
    in seconds. Raises `ValueError` for other numbers of servers, two stations of the same name,
    fewer than one caller, a negative think time, or if all demands and the think time are 0.
    """
    if in_flight != int(in_flight) or not in_flight >= 1:
        raise ValueError(f"in_flight must be a whole number of 1 or more, got {in_flight}")
    if not think_s >= 0:
        raise ValueError(f"think_s must be 0 or more seconds, got {think_s}")
    for station in stations:
        if station.servers not in (1, math.inf):
            raise ValueError(
                f"servers must be 1 or math.inf for MVA, got {station.servers:g} for"
                f" {station.name}: use simulate"
            )
    if len({station.name for station in stations}) < len(stations):
        raise ValueError(f"station names must be different, got {[s.name for s in stations]}")
    if not sum(station.demand_s for station in stations) + think_s > 0:
        raise ValueError(
            "demands and think time add up to 0 s, so throughput has no bound: give a station with"
            " a demand above 0"
        )
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
    """Return X in calls per second, queueing included. Raises the errors of `solve`."""
    solution = solve(in_flight, stations, think_s)
    bound = bounds.closed_loop(in_flight, stations, think_s)
    return Prediction(
        solution.throughput_per_s,
        "calls/s",
        f"{in_flight} in flight, R = {1e3 * solution.total_residence_s:,.4g} ms with queueing:"
        f" {solution.throughput_per_s / bound.value:.1%} of the bound",
        bound.binds,
    )
