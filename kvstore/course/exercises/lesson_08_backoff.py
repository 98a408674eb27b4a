"""Lesson 08: how long to wait before asking again."""

import random
from collections.abc import Callable
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed

FIRST_S, MOST_S = 0.1, 1.0


def backoff_s(failures: int, first_s: float, most_s: float, draw: Callable[[], float]) -> float:
    """Full jitter: anything between nothing and a pause that doubles up to the longest."""
    return draw() * min(most_s, first_s * 2.0 ** (failures - 1))


def _judge_backoff(answer: Any) -> Verdict:
    def asked(failures: int, drawn: float) -> float:
        return float(answer(failures, FIRST_S, MOST_S, lambda: drawn))

    if answer(1, FIRST_S, MOST_S, random.Random(8).random) is None:
        return not_yet("it returns nothing: `return` the seconds.")
    halves = [asked(failures, 0.5) for failures in (1, 2, 3)]
    if len({asked(2, drawn) for drawn in (0.0, 0.5, 1.0)}) == 1:
        return not_yet(
            "all callers wait equally long, whatever they draw: they were refused together, and "
            "they will come back together."
        )
    if asked(2, 0.0) > 0:
        return not_yet(
            f"who draws 0 still waits {asked(2, 0.0):g} s: full jitter spreads callers over the "
            "whole pause, from nothing on, and you leave a part of it empty."
        )
    if near(halves[0], FIRST_S) and near(halves[1], 2 * FIRST_S):
        return not_yet(
            f"after the first failure the longest pause should be first_s = {FIRST_S:g} s, and "
            f"yours is {asked(1, 1.0):g} s: with which power of 2 does it begin?"
        )
    if near(halves[0], halves[1]):
        return not_yet("the pause does not grow with the failures: a server in trouble needs more.")
    if near(halves[2], 3 * halves[0]):
        return not_yet(
            "the pause grows by the same amount each time: it is to double, so that the crowd "
            "thins out however large it is."
        )
    if asked(50, 1.0) > MOST_S + 1e-9:
        return not_yet(
            f"after 50 failures somebody may wait {asked(50, 1.0):.3g} s: no pause may be longer "
            f"than most_s = {MOST_S:g} s."
        )
    wanted = [backoff_s(n, FIRST_S, MOST_S, lambda: 0.5) for n in (1, 2, 3, 4, 5, 9)]
    found = [asked(n, 0.5) for n in (1, 2, 3, 4, 5, 9)]
    for failures, want, got in zip((1, 2, 3, 4, 5, 9), wanted, found, strict=True):
        if not near(got, want):
            return not_yet(
                f"after {failures} failures, having drawn 0.5, it should be {want:g} s, got {got:g}"
            )
    return passed(
        "It doubles, it ends at a longest pause, and each caller takes any part of it: a crowd "
        "that was refused together comes back one by one."
    )


def _lasts(failures: int, first_s: float, most_s: float) -> float:
    return min(most_s, first_s * 2.0 ** (failures - 1))


BACKOFF = Exercise(
    id="08.backoff",
    title="Come back, but not together",
    statement=(
        "Write `backoff_s(failures, first_s, most_s, draw)`: seconds until the next attempt with "
        "full jitter. After failure number 1 the longest pause is `first_s`; it doubles with each "
        "failure and is never longer than `most_s`. `draw()` gives a number from 0 to 1."
    ),
    hints=(
        "Begin without jitter: which pause follows failure 1, 2, 3? Mind the power of 2.",
        "`min` holds the pause at `most_s`. Apply it before you draw.",
        "Full jitter: any pause between 0 and that one is as likely as any other. Multiply.",
    ),
    reference=backoff_s,
    wrong=(
        WrongAnswer(lambda n, first, most, draw: _lasts(n, first, most), "come back together"),
        WrongAnswer(
            lambda n, first, most, draw: _lasts(n, first, most) * (1 + draw()) / 2,
            "leave a part of it empty",
        ),
        WrongAnswer(
            lambda n, first, most, draw: draw() * min(most, first * 2**n), "with which power of 2"
        ),
        WrongAnswer(lambda n, first, most, draw: draw() * first, "does not grow"),
        WrongAnswer(
            lambda n, first, most, draw: draw() * min(most, first * n), "the same amount each time"
        ),
        WrongAnswer(
            lambda n, first, most, draw: draw() * first * 2 ** (n - 1), "no pause may be longer"
        ),
    ),
    judge=_judge_backoff,
)
