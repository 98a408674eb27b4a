"""Waiting below saturation: the mean residence time of an open loop.

Calls arrive at a rate of lambda calls per second, whether or not earlier ones have ended. One
station serves them in order of arrival. As long as its utilisation is below 1, it answers all of
them, so its throughput X is lambda. The variability of a time is its squared coefficient of
variation, c² = variance / mean²: 0 for a constant time, 1 for an exponential one.

Sources: L. Kleinrock, "Queueing Systems, Volume 1" (1975), for M/M/1, M/M/c and the formula of
Pollaczek and Khinchine; J. F. C. Kingman, "The single server queue in heavy traffic", Mathematical
Proceedings of the Cambridge Philosophical Society 57 (1961); A. O. Allen, "Probability,
Statistics, and Queueing Theory" (1990), for several servers.
"""

import math
from typing import Final

from kvstore.model.bounds import Prediction, Station
from kvstore.numbers import number, percent, rate, seconds

RANDOM: Final = 1.0
"""c² of Poisson arrivals and of exponential times."""
EVEN: Final = 0.0
"""c² of evenly spaced arrivals and of constant times."""


def residence(
    arrivals_per_s: float,
    station: Station,
    *,
    service_c2: float = RANDOM,
    arrival_c2: float = RANDOM,
) -> Prediction:
    """Return R, the mean seconds from the arrival of a call to its end: its wait plus D.

    The wait is (c_a² + c_s²) / 2 times the wait of random arrivals and exponential service times.
    With one server, this is U / (1 - U) D (c_a² + c_s²) / 2, Kingman's approximation. For random
    arrivals (c_a² = 1) and one server it is exact, for any service times: Pollaczek and Khinchine.
    For several servers, the wait of random arrivals and exponential times is Erlang's (M/M/c,
    exact), and the factor is the approximation of Allen and Cunneen. Infinite from U = 1 on. Raises
    `ValueError` for a rate that is not above 0 and finite, a variability below 0, or a station
    without a demand or with an infinite number of servers.
    """
    if not 0 < arrivals_per_s < math.inf:
        raise ValueError(f"arrivals_per_s must be above 0 and finite, got {arrivals_per_s}")
    for name, c2 in {"service_c2": service_c2, "arrival_c2": arrival_c2}.items():
        if not 0 <= c2 < math.inf:
            raise ValueError(f"{name} must be 0 or more and finite, got {c2}")
    if not station.demand_s > 0 or not station.servers < math.inf:
        raise ValueError(
            f"the {station.name} must have a demand above 0 s and a finite number of servers,"
            f" got {station.demand_s} s and {station.servers}: else no call waits"
        )
    busy = arrivals_per_s / station.most_per_s
    if busy >= 1:
        reason = (
            f"{rate(arrivals_per_s, 'calls')} arrive, and {rate(station.most_per_s)} are served:"
            " the queue grows without end"
        )
        return Prediction(math.inf, "s", reason, station.name)
    waits = _waiting_share(station.servers, busy)
    random_s = waits * station.demand_s / station.servers / (1 - busy)
    factor = (arrival_c2 + service_c2) / 2
    reason = (
        f"{percent(busy)} busy: {seconds(random_s)} with random arrivals and exponential service"
        f" times, times (c_a² + c_s²)/2 = {number(factor)}, plus {seconds(station.demand_s)} of"
        " service"
    )
    return Prediction(random_s * factor + station.demand_s, "s", reason, station.name)


def _waiting_share(servers: float, busy: float) -> float:
    """Return the share of the calls that wait in M/M/c: Erlang's C formula."""
    load = servers * busy
    blocked = 1.0  # Erlang's B formula, by its recursion: it never leaves the range of a float
    for count in range(1, int(servers) + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - busy * (1 - blocked))
