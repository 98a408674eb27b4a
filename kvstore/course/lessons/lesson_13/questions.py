"""What lesson 13 asks."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kvstore.course.questions import Answer
from kvstore.measure import Run, during
from kvstore.measure.audit import in_flight_between
from kvstore.model import Prediction
from kvstore.numbers import seconds

SERVICE_S: Final = (0.020, 0.020, 0.060)
"""How long each server of rounds 1 and 2 holds its lock for a call, S."""
RATE_PER_S: Final = 280.0
"""So many calls arrive at the eight equal servers of rounds 3 and 4."""
AGE_S: Final = 0.4
"""The time from one report to the next, T, of the herd in round 3."""


def in_equal_shares(service_s: Sequence[float] = SERVICE_S) -> Prediction:
    """Return the bound on X in calls/s where each server gets the same share of the calls."""
    share, slowest_s = 1 / len(service_s), max(service_s)
    reason = f"w = 1/{len(service_s)} of the calls at {seconds(slowest_s)} each: 1 / (w S)"
    return Prediction(1 / (share * slowest_s), "calls/s", reason, "the slowest server")


def all_busy(service_s: Sequence[float] = SERVICE_S) -> Prediction:
    """Return X in calls/s where no server is ever without a call."""
    rates = " + ".join(f"{1 / each_s:.3g}" for each_s in service_s)
    total = sum(1 / each_s for each_s in service_s)
    return Prediction(total, "calls/s", f"each server works all the time: {rates}")


def herd_s(age_s: float) -> float:
    """Return about how long the last call of a herd takes: T(λ S - 1) + S, in seconds.

    Between two reports, one server gets all calls, evenly spaced. No bound: random arrivals make
    some herds larger.
    """
    service_s = SERVICE_S[0]
    return age_s * (RATE_PER_S * service_s - 1) + service_s


def settled(run: Run) -> float:
    """Return the calls/s of a run without its first quarter and its end."""
    for_s = float(run.settings["duration_s"])
    return during(run, for_s / 4, for_s).answered_per_s


def open_at(run: Run, servers: int) -> list[float]:
    """Return the mean number of calls open at each server in the second half of the sending."""
    ends_s = float(run.settings["duration_s"])
    means = []
    for number in range(servers):
        calls = run.records[run.records["connection"] == number]
        half = np.array([ends_s / 2, ends_s])
        (mean,) = in_flight_between(calls["sent_s"], calls["done_s"], half)
        means.append(float(mean))
    return means


def coin_wins_ms(drawn: Mapping[float, Sequence[float]], tossed: Sequence[float]) -> float:
    """Return the T in ms from which on the coin's median p99 is the lower one; infinite for none.

    `drawn` has the p99 of simulated runs by T in ms, in rising order, and `tossed` those of the
    coin. Between two T a straight line is taken.
    """
    coin = float(np.median(tossed))
    before: tuple[float, float] | None = None
    for age_ms, values in drawn.items():
        middle = float(np.median(values))
        if middle > coin:
            if before is None:
                return age_ms
            share = (coin - before[1]) / (middle - before[1])
            return before[0] + share * (age_ms - before[0])
        before = age_ms, middle
    return math.inf


ANSWERS: Final = {
    "13.round_robin": Answer(lambda run: run.answered_per_s, lambda run: in_equal_shares()),
    "13.least_open": Answer(settled, lambda run: all_busy()),
    "13.herd": Answer(
        lambda run: run.latency_s(0.99),
        lambda run: Prediction(herd_s(AGE_S), "s", "about T(λS - 1) + S, for T ≫ S"),
    ),
    "13.coin": Answer(coin_wins_ms),
}
