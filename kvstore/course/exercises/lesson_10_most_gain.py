"""Lesson 10: how much a cure can bring, before anybody pays for it."""

from collections.abc import Mapping
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


def most_gain(most_per_s: Mapping[str, float], cured: str) -> float:
    """The next narrowest place over the narrowest one; 1 where the cure is of another place."""
    now_per_s = min(most_per_s.values())
    then_per_s = min(per_s for name, per_s in most_per_s.items() if name != cured)
    return max(1.0, then_per_s / now_per_s)


_SERVICE = {"calls in flight": 800.0, "pool": 200.0, "global lock": 50.0, "processor": 2_000.0}


def _judge(answer: Any) -> Verdict:
    found = float(answer(dict(_SERVICE), "global lock"))
    if not near(found, 4.0):
        return not_yet(_why_not_4(found))
    found = float(answer(dict(_SERVICE), "pool"))
    if not near(found, 1.0):
        return not_yet(
            f"you promise {found:.4g} times as much from a wider pool, while the lock lets 50/s "
            "through: where nothing binds, a cure brings nothing, a factor of 1."
        )
    found = float(answer({"pool": 100.0, "global lock": 100.0, "processor": 300.0}, "pool"))
    if not near(found, 1.0):
        return not_yet(
            f"pool and lock both let 100/s through, one of them is widened, and you say {found:.4g}"
            " times: the other one still stands there."
        )
    return passed("The narrowest of the others over the narrowest of all: that is all a cure buys.")


def _why_not_4(found: float) -> str:
    if near(found, 16.0):
        return "800/50: but on the way from the lock to the calls in flight stands the pool."
    if near(found, 40.0):
        return "2,000/50: the widest place never binds. Which is the narrowest that is left?"
    if near(found, 200.0):
        return "that is the rate after the cure; asked for is how many times the one before it."
    if near(found, 0.25):
        return "before over after: upside down."
    return (
        f"without the lock the places let through 800, 200 and 2,000 a second, with it 50, and you "
        f"say {found:.4g} times: which place binds next?"
    )


MOST_GAIN = Exercise(
    id="10.most_gain",
    title="What a cure can bring",
    statement=(
        "Write `most_gain(most_per_s, cured)`: how many times the throughput at most, once the "
        "station `cured` is as wide as you like. `most_per_s` gives for each station the most "
        "that it lets through."
    ),
    hints=(
        "The throughput now is the smallest of all numbers.",
        "After the cure it is the smallest of the numbers that are left.",
        "The second over the first; and a cure of a place that does not bind must come out as 1.",
    ),
    reference=most_gain,
    wrong=(
        WrongAnswer(
            lambda most, cured: most["calls in flight"] / min(most.values()), "stands the pool"
        ),
        WrongAnswer(
            lambda most, cured: max(most.values()) / min(most.values()), "the widest place"
        ),
        WrongAnswer(
            lambda most, cured: min(v for k, v in most.items() if k != cured),
            "that is the rate after",
        ),
        WrongAnswer(
            lambda most, cured: min(most.values()) / min(v for k, v in most.items() if k != cured),
            "upside down",
        ),
        WrongAnswer(
            lambda most, cured: sorted(most.values())[1] / sorted(most.values())[0],
            "where nothing binds",
        ),
    ),
    judge=_judge,
)
