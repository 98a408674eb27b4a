"""What lesson 12 asks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvstore.course import calibration
from kvstore.course.questions import Answer
from kvstore.measure import Run, during
from kvstore.model import Prediction, scaling

SERVICE_S: Final = 0.020
"""The time for which a call holds the lock of its server, S."""
SERVERS: Final = 4
HOTTEST: Final = 0.4
"""Share of the calls that go to the hot key of round 2, q."""
ARRIVING_PER_S: Final = 159.0
"""Calls that arrive in the open loop, λ."""
NINETY: Final = 1.645
"""90 % of a normal distribution lie within so many standard deviations."""


def closed_loop(servers: int, hottest: float, in_flight: int) -> Prediction:
    """Return min(N/S, 1/(w·S)) in calls/s, with w = q + (1 - q)/s."""
    share = scaling.busiest_share(servers, hottest)
    callers, busiest = in_flight / SERVICE_S, 1 / (share * SERVICE_S)
    if callers < busiest:
        return Prediction(callers, "calls/s", "N/S: too few callers", "callers")
    return Prediction(busiest, "calls/s", "1/(w·S): the server of the hot key", "busiest server")


def hot_key(run: Run) -> Prediction:
    """Return that rate for round 2, with the spread of so many drawn keys in half of the run."""
    model = closed_loop(SERVERS, HOTTEST, run.in_flight)
    share = scaling.busiest_share(SERVERS, HOTTEST)
    half = NINETY * math.sqrt((1 - share) / share / max(1, run.issued / 2))
    low, high = calibration.interval(model.value, run, cpu=False, unit=model.unit)
    return replace(model, interval=(low / (1 + half), high * (1 + half)))


def answered_share(servers: int, hottest: float, arriving_per_s: float) -> float:
    """Return the share of the calls that an open loop gets answered: 1 - w + 1/(λ·S), at most 1.

    Only the server of the hot key is full; it refuses what it cannot answer in time.
    """
    share = scaling.busiest_share(servers, hottest)
    return min(1.0, 1 - share + 1 / (arriving_per_s * SERVICE_S))


def answered_percent(calls: int) -> Prediction:
    """Return that share for the open loop of round 2, with the spread of so many drawn keys."""
    value = 100 * answered_share(SERVERS, HOTTEST, ARRIVING_PER_S)
    share = scaling.busiest_share(SERVERS, HOTTEST)
    half = 100 * NINETY * math.sqrt(share * (1 - share) / calls)
    return Prediction(value, "%", "1 - w + 1/(λ·S)", interval=(value - half, value + half))


def settled(run: Run) -> float:
    """Return the calls/s of the second half of the sending: the queue has filled by then."""
    for_s = float(run.settings["duration_s"])
    return during(run, for_s / 2, for_s).answered_per_s


def moved_share(before: Sequence[int], after: Sequence[int]) -> float:
    """Return the share of keys that are on another server afterwards."""
    return sum(a != b for a, b in zip(before, after, strict=True)) / len(before)


ANSWERS: Final = {
    "12.one_channel": Answer(
        lambda per_s: per_s,
        lambda per_s: Prediction(
            1 / SERVICE_S, "calls/s", "one connection, so one server: 1/S", "server"
        ),
    ),
    "12.hot_key": Answer(settled, hot_key),
    "12.open": Answer(
        lambda run: 100 * run.operations_ok / run.issued, lambda run: answered_percent(run.issued)
    ),
    "12.moved": Answer(
        moved_share,
        lambda before, after: Prediction(
            4 / 5, "of the keys", "a key stays if hash % 4 = hash % 5: 4 of 20 remainders"
        ),
    ),
}
