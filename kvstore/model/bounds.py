"""Predictions, the operational laws, bounds and exact mean values of a closed loop."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

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


# ---- laws ---------------------------------------------------------------------------------------
# Little's law, the mean service time of a mix of operations, and the mix that a workload gives.
#
# Little's law, L = X * R, holds for any distribution of arrivals and service times (J. D. C.
# Little, Operations Research 9, 1961). A workload may only use keys that it has created, so its
# first calls contain more creates than its weights say; `expected_mix` computes how many more.


def in_flight(throughput_per_s: float, residence_s: float) -> float:
    """Return L = X * R, the mean number of calls in flight.

    X is the throughput in calls per second, R the mean residence time of a call in seconds.
    """
    return throughput_per_s * residence_s


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


A_QUARTER_EACH: Final[Mapping[str, float]] = MappingProxyType(
    {"create": 1.0, "retrieve": 1.0, "update": 1.0, "delete": 1.0}
)


def expected_mix(calls: float, weights: Mapping[str, float] = A_QUARTER_EACH) -> dict[str, float]:
    """Return the expected share of each kind of operation among the first `calls` calls.

    The calls are made one after the other. While no key exists, the client can only create one,
    whatever kind it has drawn. The number of keys is a random walk on 0, 1, 2, ... that is
    reflected at 0; its distribution is computed exactly, call by call. Raises `ValueError` for
    fewer than one call.
    """
    count = round(calls)
    if count < 1:
        raise ValueError(f"calls must be 1 or more, got {calls}")
    total = sum(weights.values())
    shares = {kind: weight / total for kind, weight in weights.items()}
    up, down = shares.get("create", 0.0), shares.get("delete", 0.0)
    chance = np.zeros(count + 2)  # chance[k]: the probability that k keys exist
    chance[0] = 1.0
    forced = 0.0
    for _ in range(count):
        none = chance[0]
        forced += none
        chance[0] = 0.0
        after = (1.0 - up - down) * chance
        after[1:] += up * chance[:-1]
        after[:-1] += down * chance[1:]
        after[1] += none
        chance = after
    forced_share = float(forced / count)
    mix = {kind: (1.0 - forced_share) * share for kind, share in shares.items()}
    mix["create"] = mix.get("create", 0.0) + forced_share
    return mix


# ---- bounds -------------------------------------------------------------------------------------
# The asymptotic bounds of a closed loop, and its bottleneck.
#
#     X <= min(N / (D + Z), min over stations of servers / D_i)
#
# N is the number of calls in flight, D_i the service demand at station i, D the sum of all D_i,
# and Z the think time. Source: E. D. Lazowska et al., "Quantitative System Performance" (1984),
# chapter 5. With constant service times and without think time, throughput almost reaches the
# bounds.


def closed_loop(in_flight: int, stations: Sequence[Station], think_s: float = 0.0) -> Prediction:
    """Return the upper bound on X in calls per second, with N = `in_flight` callers.

    Each caller waits for a reply, then `think_s` seconds (Z), then makes the next call. Below the
    knee N* the bound is N / (D + Z). Above N* it is servers / D_i of the bottleneck. Raises
    `ValueError` for `in_flight` below 1, or if all demands and the think time are 0.
    """
    if not in_flight >= 1:
        raise ValueError(f"in_flight must be 1 or more, got {in_flight}")
    round_s = _round_s(stations, think_s)
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
            f"{in_flight} in flight, each takes {seconds(round_s)}:"
            f" {'N / (D + Z)' if think_s else 'N / D'}",
            "calls in flight",
        )
    named = slowest.name.startswith(("a ", "the ")) or slowest.name[-1:].isdigit()
    name = slowest.name if named else f"the {slowest.name}"
    at_once = "" if slowest.servers == 1 else f", and it serves {number(slowest.servers)} at once"
    return Prediction(
        slowest.most_per_s,
        "calls/s",
        f"a call needs {name} for {seconds(slowest.demand_s)} on average{at_once}:"
        f" {number(slowest.servers)} / {seconds(slowest.demand_s)}",
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
        f"{in_flight} in flight at {number(bound.value)} calls/s:"
        f" R = N / X{' - Z' if think_s else ''}",
        bound.binds,
    )


def knee(stations: Sequence[Station], think_s: float = 0.0) -> float:
    """Return N*, the number of calls in flight at which the two bounds meet (the knee).

    N* = (D + Z) * min(servers / D_i). If every station has one server, N* = (D + Z) / D_max.
    Beyond N* calls in flight the bound no longer grows. Infinite if every station is a delay.
    """
    most_per_s = min((station.most_per_s for station in stations), default=math.inf)
    return _round_s(stations, think_s) * most_per_s


def _round_s(stations: Sequence[Station], think_s: float) -> float:
    return sum(station.demand_s for station in stations) + think_s


# ---- ramp up ------------------------------------------------------------------------------------
# A closed loop that users join one after the other: throughput and residence time over time.
#
# N(t) is the number of users at time t. The bound of `bounds.closed_loop` is applied to N(t),
# with a delay: D + Z is the duration of one round of a user. A user gets its first reply after a
# whole round, so on average the number of replies is half a round behind. The residence time of a
# call that ends now depends on the queue that it found one round ago. `joins_s` are the seconds
# at which users join, in order.


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
    return closed_loop(in_flight, stations, think_s).value if in_flight else 0.0


def residence_s(
    joins_s: Sequence[float], stations: Sequence[Station], at_s: float, think_s: float = 0.0
) -> float:
    """Return R(t) = N / X - Z in seconds, for the N of one round ago; 0 before the first reply.

    `think_s` is Z, in seconds. Raises the errors of `bounds.closed_loop`.
    """
    in_flight = users(joins_s, at_s - _round_s(stations, think_s))
    return residence(in_flight, stations, think_s).value if in_flight else 0.0


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
        rate = closed_loop(in_flight, stations, think_s).value
        total += rate * (end_s - begin_s)
    last = closed_loop(len(joins_s), stations, think_s)
    return Prediction(
        total,
        "calls",
        f"the area under X(t), with up to {len(joins_s)} users in {seconds(until_s)}",
        last.binds,
    )


# ---- mean value analysis ------------------------------------------------------------------------
# Mean value analysis (MVA): the exact throughput of a closed loop with several queues.
#
# Source: M. Reiser and S. S. Lavenberg, Journal of the ACM 27 (1980). An arriving call finds at
# each station, on average, the calls of the same loop with one caller fewer. MVA is exact for
# exponential service times. With constant ones calls queue less: use `simulate`.
#
# MVA differs from the bounds around the knee, if calls queue at stations with similar demands: by a
# quarter for two equal stations and four callers. Far from the knee, or with one queue, both agree.


def exact_closed_loop(
    in_flight: int, stations: Sequence[Station], think_s: float = 0.0
) -> Prediction:
    """Return X in calls per second with N = `in_flight` callers, queueing included.

    The recursion for n = 1 .. N: R_i = D_i (1 + N_i(n - 1)) at a station with one server, R_i = D_i
    at a delay station (`servers=math.inf`); X = n / (Z + sum of R_i); N_i = X R_i. `think_s` is Z,
    in seconds. Raises `ValueError` for other numbers of servers, a part of a caller, a negative
    think time, and the errors of `closed_loop`.
    """
    if in_flight != int(in_flight):
        raise ValueError(f"in_flight must be a whole number of 1 or more, got {in_flight}")
    if not think_s >= 0:
        raise ValueError(f"think_s must be 0 or more seconds, got {think_s}")
    for station in stations:
        if station.servers not in (1, math.inf):
            raise ValueError(
                f"servers must be 1 or math.inf for MVA, got {station.servers:g} for"
                f" {station.name}: use simulate"
            )
    bound = closed_loop(in_flight, stations, think_s)
    residence_s, per_s, queued = 0.0, 0.0, [0.0] * len(stations)
    for callers in range(1, int(in_flight) + 1):
        stays_s = [
            station.demand_s * (1 if math.isinf(station.servers) else 1 + before)
            for station, before in zip(stations, queued, strict=True)
        ]
        residence_s = sum(stays_s)
        per_s = callers / (think_s + residence_s)
        queued = [per_s * stay_s for stay_s in stays_s]
    return Prediction(
        per_s,
        "calls/s",
        f"{in_flight} in flight, R = {seconds(residence_s)} with queueing:"
        f" {percent(per_s / bound.value)} of the bound",
        bound.binds,
    )
