"""Predictions, the operational laws, bounds and exact mean values of a closed loop."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kvstore.numbers import number, percent, seconds


@dataclass(frozen=True, slots=True)
class Prediction:
    """The result of a model, computed before the run."""

    value: float
    unit: str
    reason: str
    """The calculation in words, so that a wrong prediction can be traced to its step."""
    binds: str = ""
    """The bottleneck: the station that sets the limit; empty if no station does."""
    interval: tuple[float, float] | None = None
    """90 % of runs are meant to lie in it; None where the machine's spread is all that varies."""

    def ratio_of(self, measured: float) -> float:
        """Return measured / predicted; NaN if the prediction is 0."""
        return measured / self.value if self.value else math.nan

    def __str__(self) -> str:
        binds = f" [{self.binds} binds]" if self.binds else ""
        digits = ",.0f" if 1e4 <= abs(self.value) < math.inf else ",.4g"  # never 1.2e+04
        return f"{self.value:{digits}} {self.unit}: {self.reason}{binds}"


@dataclass(frozen=True, slots=True)
class Station:
    """A resource at which a call is served, and may queue.

    `demand_s` is D, the service demand of one call in seconds. `servers` is the number of calls
    served at the same time; `math.inf` means that no call ever queues (a delay station). Raises
    `ValueError` for a negative demand, or for fewer than one server.
    """

    name: str
    demand_s: float
    servers: float = 1

    def __post_init__(self) -> None:
        if not self.demand_s >= 0:
            raise ValueError(f"demand_s must be 0 or more seconds, got {self.demand_s}")
        if not self.servers >= 1:
            raise ValueError(f"servers must be 1 or more, got {self.servers}")

    @property
    def most_per_s(self) -> float:
        """The maximum throughput in calls per second: servers / D."""
        return self.servers / self.demand_s if self.demand_s else math.inf


# The mean service time of a mix of operations, and the share of creates that a workload gives.


def service_time_s(mix: Mapping[str, float], *, read_delay_s: float, write_delay_s: float) -> float:
    """Return S, the mean disk time of one operation in seconds: the sum of share times delay.

    `mix` gives a share or a count for each kind of operation ("create", "retrieve", "update",
    "delete"). Only the proportions matter. A retrieve takes `read_delay_s`, every other kind
    `write_delay_s`. Raises `ValueError` for a mix that is empty or names another kind.
    """
    known = {"create", "retrieve", "update", "delete"}
    if set(mix) - known:
        raise ValueError(f"the kinds in mix must be among {sorted(known)}, got {sorted(mix)}")
    total = sum(mix.values())
    if not total > 0:
        raise ValueError(f"mix must have a share above 0, got {dict(mix)}")
    reads = mix.get("retrieve", 0.0) / total
    return reads * read_delay_s + (1 - reads) * write_delay_s


def expected_creates(calls: float) -> float:
    """Return the expected share of creates among the first `calls` calls of a workload.

    The four kinds of operations are equally likely, and the calls are made one after the other.
    While no key exists, the client can only create one, whatever kind it has drawn. The number of
    keys is a random walk on 0, 1, 2, ... that is reflected at 0; its distribution is computed
    exactly, call by call. Raises `ValueError` for fewer than one call.
    """
    count = round(calls)
    if count < 1:
        raise ValueError(f"calls must be 1 or more, got {calls}")
    chance = np.zeros(count + 2)  # chance[k]: the probability that k keys exist
    chance[0] = 1.0
    forced = 0.0
    for _ in range(count):
        none = chance[0]
        forced += none
        chance[0] = 0.0
        after = chance / 2
        after[1:] += chance[:-1] / 4
        after[:-1] += chance[1:] / 4
        after[1] += none
        chance = after
    return float(1 + 3 * forced / count) / 4


# The asymptotic bounds of a closed loop, and its bottleneck.
#
#     X <= min(N / D, min over stations of servers / D_i)
#
# N is the number of calls in flight, D_i the service demand at station i, and D the sum of all
# D_i. Source: E. D. Lazowska et al., "Quantitative System Performance" (1984), chapter 5. With
# constant service times, throughput almost reaches the bounds.


def closed_loop(in_flight: int, stations: Sequence[Station]) -> Prediction:
    """Return the upper bound on X in calls per second, with N = `in_flight` callers.

    Each caller waits for a reply, then makes the next call. Below the knee N* the bound is N / D.
    Above N* it is servers / D_i of the bottleneck. Raises `ValueError` for `in_flight` below 1,
    or if all demands are 0.
    """
    if not in_flight >= 1:
        raise ValueError(f"in_flight must be 1 or more, got {in_flight}")
    round_s = _round_s(stations)
    if not round_s > 0:
        raise ValueError(
            "the demands add up to 0 s, so throughput has no bound: give a station with a demand"
            " above 0"
        )
    by_callers = in_flight / round_s
    slowest = min(stations, key=lambda station: station.most_per_s, default=None)
    if slowest is None or by_callers <= slowest.most_per_s:
        return Prediction(
            by_callers,
            "calls/s",
            f"{in_flight} in flight, each takes {seconds(round_s)}: N / D",
            "calls in flight",
        )
    named = slowest.name.startswith(("a ", "one ", "the ")) or slowest.name[-1:].isdigit()
    name = slowest.name if named else f"the {slowest.name}"
    at_once = "" if slowest.servers == 1 else f", {number(slowest.servers)} calls at once"
    return Prediction(
        slowest.most_per_s,
        "calls/s",
        f"a call needs {name} for {seconds(slowest.demand_s)} on average{at_once}:"
        f" {number(slowest.servers)} / {seconds(slowest.demand_s)}",
        slowest.name,
    )


def residence(in_flight: int, stations: Sequence[Station]) -> Prediction:
    """Return the lower bound on R, the residence time of a call in seconds: R = N / X.

    X is the upper bound of `closed_loop`, and the errors are the same.
    """
    bound = closed_loop(in_flight, stations)
    reason = f"{in_flight} in flight at {number(bound.value)} calls/s: R = N / X"
    return Prediction(in_flight / bound.value, "s", reason, bound.binds)


def knee(stations: Sequence[Station]) -> float:
    """Return N*, the number of calls in flight at which the two bounds meet (the knee).

    N* = D * min(servers / D_i). If every station has one server, N* = D / D_max. Beyond N* calls
    in flight the bound no longer grows. Infinite if every station is a delay.
    """
    most_per_s = min((station.most_per_s for station in stations), default=math.inf)
    return _round_s(stations) * most_per_s


def _round_s(stations: Sequence[Station]) -> float:
    return sum(station.demand_s for station in stations)


# A closed loop that users join one after the other: throughput and residence time over time.
#
# N(t) is the number of users that have joined at t seconds. The bound of `closed_loop` is applied
# to N(t), with a delay: D is the duration of one round of a user. A user gets its first reply after
# a whole round, so on average the number of replies is half a round behind. The residence time of a
# call that ends now depends on the queue that it found one round ago. `joins_s` are the seconds at
# which users join, in order.


def throughput_per_s(joins_s: Sequence[float], stations: Sequence[Station], at_s: float) -> float:
    """Return X(t) in calls per second: the bound for the N of half a round ago.

    Raises the errors of `closed_loop`.
    """
    users = bisect_right(joins_s, at_s - _round_s(stations) / 2)
    return closed_loop(users, stations).value if users else 0.0


def residence_s(joins_s: Sequence[float], stations: Sequence[Station], at_s: float) -> float:
    """Return R(t) = N / X in seconds, for the N of one round ago; 0 before the first reply.

    Raises the errors of `closed_loop`.
    """
    users = bisect_right(joins_s, at_s - _round_s(stations))
    return residence(users, stations).value if users else 0.0


def threads(
    joins_s: Sequence[float], limit: float, at_s: float, outside_pool: float = 0.0
) -> float:
    """Return the threads of a process whose pool grows on demand: outside_pool + min(N(t), limit).

    The pool starts a thread for each call that finds no idle thread, up to `limit`. `outside_pool`
    is the number of threads outside the pool.
    """
    return outside_pool + min(bisect_right(joins_s, at_s), limit)


def calls(joins_s: Sequence[float], stations: Sequence[Station], until_s: float) -> Prediction:
    """Return the number of calls answered until `until_s` seconds: the area under X(t).

    Raises the errors of `closed_loop`, also if `joins_s` is empty.
    """
    last = closed_loop(len(joins_s), stations)
    behind_s = _round_s(stations) / 2
    edges_s = np.minimum([*(at_s + behind_s for at_s in joins_s), until_s], until_s)
    rates = [closed_loop(users, stations).value for users in range(1, len(joins_s) + 1)]
    return Prediction(
        float(np.dot(rates, np.diff(edges_s))),
        "calls",
        f"the area under X(t), with up to {len(joins_s)} users in {seconds(until_s)}",
        last.binds,
    )


# Mean value analysis (MVA): the exact throughput of a closed loop with several queues.
#
# Source: M. Reiser and S. S. Lavenberg, Journal of the ACM 27 (1980). An arriving call finds at
# each station, on average, the calls of the same loop with one caller fewer. MVA is exact for
# exponential service times. With constant ones calls queue less.
#
# MVA differs from the bounds around the knee, if calls queue at stations with similar demands: by a
# quarter for two equal stations and four callers. Far from the knee, or with one queue, both agree.


def exact_closed_loop(in_flight: int, stations: Sequence[Station]) -> Prediction:
    """Return X in calls per second with N = `in_flight` callers, queueing included.

    Each station has one server, or is a delay station (`servers=math.inf`). The recursion for
    n = 1 .. N: R_i = D_i (1 + N_i(n - 1)) with one server, R_i = D_i at a delay station;
    X = n / sum of R_i; N_i = X R_i. Raises the errors of `closed_loop`.
    """
    bound = closed_loop(in_flight, stations)
    demands_s = np.array([station.demand_s for station in stations])
    queues = np.array([station.servers == 1 for station in stations])
    waiting = np.zeros(len(stations))
    for callers in range(1, in_flight + 1):
        stays_s = demands_s * (1 + queues * waiting)
        per_s = callers / float(stays_s.sum())
        waiting = per_s * stays_s
    return Prediction(
        per_s,
        "calls/s",
        f"{in_flight} in flight, R = {seconds(in_flight / per_s)} with queueing:"
        f" {percent(per_s / bound.value)} of the bound",
        bound.binds,
    )
