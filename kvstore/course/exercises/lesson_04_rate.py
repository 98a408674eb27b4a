"""Lesson 04: the rate of a server with a thread pool and perhaps a lock."""

import math
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


def rate_per_s(in_flight: int, threads: int, disk_s: float, locking: str) -> float:
    """As many calls at once as the narrowest of the three lets through, each for `disk_s`."""
    lock_places = 1 if locking == "global" else math.inf
    return min(in_flight, threads, lock_places) / disk_s


def _judge(answer: Any) -> Verdict:
    if not near(found := float(answer(32, 8, 0.020, "per_key")), 400.0):
        return not_yet(_why_not_400(found))
    if not near(found := float(answer(4, 8, 0.020, "per_key")), 200.0):
        return not_yet(
            f"4 in flight, 8 threads, 20 ms gave {found:.4g} calls/s: half of the threads have "
            "nothing to do."
        )
    if not near(found := float(answer(32, 8, 0.020, "global")), 50.0):
        return not_yet(
            f"with the global lock you promise {found:.4g} calls/s: 7 of the 8 threads stand in "
            "front of the lock."
        )
    return passed("X = min(N, c)/S, and 1/S behind a lock: the narrowest place sets the pace.")


def _why_not_400(found: float) -> str:
    if near(found, 1600.0):
        return "32 calls in flight, but only 8 threads: the others wait in the pool's queue."
    if near(found, 12_800.0):
        return "callers times threads: but a thread works for one caller at a time."
    if near(found, 50.0):
        return "that is one call at a time: `per_key` lets all threads use the disk at once."
    return (
        f"32 in flight, 8 threads, 20 ms, no global lock gave {found:.4g} calls/s: how many "
        "calls are on the disk at any moment?"
    )


RATE = Exercise(
    id="04.rate",
    title="The narrowest place",
    statement=(
        "Write `rate_per_s(in_flight, threads, disk_s, locking)`: the calls per second to expect. "
        'Every call takes `disk_s` on the disk; `locking` is "global" (one lock, held through '
        'the disk) or "per_key" (nobody waits for a lock).'
    ),
    hints=(
        "How many calls can be on the disk at once? Three things limit that.",
        "The callers, the threads, and the lock: the least of the three counts.",
        'X = (calls at once) / `disk_s`; a global lock lets 1 through, "per_key" `math.inf`.',
    ),
    reference=rate_per_s,
    wrong=(
        WrongAnswer(lambda n, c, s, locking: n / s, "only 8 threads"),
        WrongAnswer(lambda n, c, s, locking: c / s, "nothing to do"),
        WrongAnswer(lambda n, c, s, locking: min(n, c) / s, "in front of the lock"),
        WrongAnswer(lambda n, c, s, locking: n * c / s, "callers times threads"),
        WrongAnswer(lambda n, c, s, locking: 1 / s, "one call at a time"),
    ),
    judge=_judge,
)
