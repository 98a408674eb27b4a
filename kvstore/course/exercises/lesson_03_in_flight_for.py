"""Lesson 03: how large a limit on calls in flight has to be."""

import math
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed


def in_flight_for(
    target_per_s: float, disk_s: float, round_trip_s: float, most_per_s: float
) -> float:
    """Calls in flight that reach the target: Little's law, unless a station binds before."""
    if target_per_s > most_per_s:
        return math.inf
    return math.ceil(target_per_s * (disk_s + round_trip_s))


def _judge_in_flight_for(answer: Any) -> Verdict:
    if (found := answer(1000.0, 0.040, 0.010, math.inf)) != 50:
        return not_yet(_why_not_50(float(found)))
    if (found := answer(510.0, 0.040, 0.0, math.inf)) != 21:
        return not_yet(
            f"510 calls/s of 40 ms each keep 20.4 in flight on average, and you give {found}: "
            "there are no parts of a call, and 20 starve the target."
        )
    if (found := answer(100.0, 0.040, 0.0, 25.0)) != math.inf:
        return not_yet(
            f"behind a lock that serves 25 calls/s you promise 100/s with {found} in flight: "
            "they would only wait. No number is enough: say `math.inf`."
        )
    if (found := answer(20.0, 0.040, 0.0, 25.0)) != 1:
        return not_yet(f"20 calls/s of 40 ms keep 0.8 in flight: one is enough, got {found}.")
    return passed(
        "N = X·W, rounded up, and only below the rate of the slowest station: a semaphore can "
        "fill a server, and it cannot widen it."
    )


def _why_not_50(found: float) -> str:
    if found == 40:
        return "a call is in flight on its way too: 40 cover the disk, and not the round trip."
    if math.isclose(found, 1000.0 / 0.050):
        return "you divide by W. When each call takes longer, are more of them in flight or fewer?"
    return (
        f"1,000 calls/s, each 40 ms on the disk and 10 ms under way, gave {found:g}: "
        "how many are there at any moment?"
    )


IN_FLIGHT_FOR = Exercise(
    id="03.in_flight_for",
    title="How large should the semaphore be?",
    statement=(
        "Write `in_flight_for(target_per_s, disk_s, round_trip_s, most_per_s)`: the smallest "
        "whole number of calls in flight that can reach the target, or `math.inf` when none can. "
        "`most_per_s` is what the slowest station serves, 1/D_max."
    ),
    hints=(
        "Little's law, L = λ·W: which two of the three do you know?",
        "W is all the time a call is in flight: on the disk, and on its way there and back.",
        "Round up with `math.ceil`. And first: is the target below `most_per_s` at all?",
    ),
    reference=in_flight_for,
    wrong=(
        WrongAnswer(lambda x, disk, trip, most: math.ceil(x * disk), "on its way too"),
        WrongAnswer(lambda x, disk, trip, most: round(x * (disk + trip)), "no parts of a call"),
        WrongAnswer(lambda x, disk, trip, most: math.ceil(x * (disk + trip)), "only wait"),
        WrongAnswer(lambda x, disk, trip, most: x / (disk + trip), "divide by W"),
    ),
    judge=_judge_in_flight_for,
)
