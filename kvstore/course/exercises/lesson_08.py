"""Lesson 08: how long answers come in time, how many are answered, and backoff."""

import math
import random
from collections.abc import Callable
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


def answered_of(calls: int, places: int, served_per_s: float, sent_per_s: float) -> float:
    """The places, and what is served while the burst is still being sent; never more than all."""
    return min(calls, places + served_per_s * calls / sent_per_s)


def _judge(answer: Any) -> Verdict:
    if not near(found := float(answer(10_000, 500, 1_000.0, 5_000.0)), 2_500.0):
        return not_yet(_why_not_2500(found))
    if not near(found := float(answer(10_000, 500, 8_000.0, 5_000.0)), 10_000.0):
        return not_yet(
            f"a server faster than its sender answers {found:,.0f} of 10,000 calls in your words: "
            "no more can be answered than were sent."
        )
    if not near(found := float(answer(300, 500, 1_000.0, 5_000.0)), 300.0):
        return not_yet(
            f"300 calls and 500 places gave {found:,.0f} answers: there is a place for each."
        )
    return passed("L + X·N/λ, at most N: the longer the burst is sent, the fewer are refused.")


def _why_not_2500(found: float) -> str:
    if near(found, 500.0):
        return (
            "500 is what fits at once. But the burst is not sent in an instant: how many places "
            "become free meanwhile?"
        )
    if near(found, 2_000.0):
        return "2,000 are answered while the burst is sent. And who has a place then: is he lost?"
    if near(found, 9_500.0):
        return "that is how many would be refused, if no place ever became free."
    if near(found, 10_000.0):
        return "that is all of them: the server refuses who finds no place."
    return (
        f"10,000 calls at 5,000/s, 500 places, 1,000/s served gave {found:,.4g}: for how long is "
        "the burst sent, and how many places become free in that time?"
    )


ANSWERED_OF = Exercise(
    id="08.answered_of",
    title="What shedding leaves",
    hints=(
        "The burst is sent for `calls / sent_per_s` seconds. What does the server do meanwhile?",
        "Each answer frees a place, and the next call that comes takes it.",
        "Places plus what is served while the burst is sent, but at most all: `min(calls, ...)`.",
    ),
    reference=answered_of,
    wrong=(
        WrongAnswer(lambda n, places, x, sent: places, "what fits at once"),
        WrongAnswer(lambda n, places, x, sent: x * n / sent, "is he lost"),
        WrongAnswer(lambda n, places, x, sent: n - places, "would be refused"),
        WrongAnswer(lambda n, places, x, sent: n, "that is all of them"),
        WrongAnswer(lambda n, places, x, sent: places + x * n / sent, "no more can be answered"),
        WrongAnswer(
            lambda n, places, x, sent: (
                max(places + 2_000, n) if x > sent else places + x * n / sent
            ),
            "there is a place for each",
        ),
    ),
    judge=_judge,
)


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


def in_time_for_s(offered_per_s: float, threads: int, disk_s: float, deadline_s: float) -> float:
    """The queue grows at lambda - X, and may grow until a wait leaves no time for the disk."""
    served_per_s = threads / disk_s
    if offered_per_s <= served_per_s:
        return math.inf
    longest_wait_s = deadline_s - disk_s
    return longest_wait_s * served_per_s / (offered_per_s - served_per_s)


def _judge_in_time_for(answer: Any) -> Verdict:
    # 8 threads of 50 ms serve 160/s. At 320/s the queue grows by 160/s; 200 ms of it are 32 calls.
    found = float(answer(320.0, 8, 0.050, 0.250))
    if not near(found, 0.2):
        return not_yet(_why_not_200_ms(found))
    for offered_per_s in (100.0, 160.0):
        found = float(answer(offered_per_s, 8, 0.050, 0.250))
        if found != math.inf:
            return not_yet(
                f"at {offered_per_s:g} of 160 calls/s no queue grows at all, and you say {found:g} "
                "s: then it goes on for ever, `math.inf`."
            )
    # 2 threads of 100 ms serve 20/s; 30/s offered; 900 ms of queue are 18 calls, at 10/s.
    found = float(answer(30.0, 2, 0.100, 1.0))
    if not near(found, 1.8):
        return not_yet(
            f"30 calls/s for 2 threads of 100 ms, a deadline of 1 s, gave {found:g}: how many "
            "calls wait when the last one in time joins them, and how fast did they gather?"
        )
    return passed(
        "Only a queue shorter than (deadline - disk)·X is a queue worth joining, and it fills at "
        "λ - X. After that a server that serves all in turn serves nobody in time."
    )


def _why_not_200_ms(found: float) -> str:
    asked = "320 calls/s for 8 threads of 50 ms and a deadline of 250 ms"
    if near(found, 0.25):
        return (
            f"{asked}: a call that waits for all of its 250 ms has no time left for its own disk."
        )
    if near(found, 0.2 * 160 / 320):
        return (
            f"{asked}: you fill the queue at λ, as though nobody were served meanwhile: it grows "
            "at λ - X."
        )
    if near(found, 0.2 / 160):
        return (
            f"{asked}: you divide seconds by a rate. How many *calls* may wait, when the last of "
            "them is to get its thread after 200 ms?"
        )
    served_by_one = 1 / 0.050
    if near(found, 0.2 * served_by_one / (320 - served_by_one)):
        return f"{asked}: you count on one thread, and 8 of them serve at once."
    return f"{asked} gave {found:g} s: how many calls may wait, and how fast do they gather?"


IN_TIME_FOR = Exercise(
    id="08.in_time_for",
    title="How long does it go well?",
    hints=(
        "At which rate is the queue emptied, and at which does it grow?",
        "The last call that is in time may wait for deadline - disk. How many are before it then?",
        "Calls that may wait, (deadline - disk)·X, divided by the growth, λ - X.",
    ),
    reference=in_time_for_s,
    wrong=(
        WrongAnswer(
            lambda offered, c, disk, deadline: deadline * c / disk / (offered - c / disk),
            "no time left for its own disk",
        ),
        WrongAnswer(
            lambda offered, c, disk, deadline: (deadline - disk) * c / disk / offered,
            "as though nobody were served",
        ),
        WrongAnswer(
            lambda offered, c, disk, deadline: (deadline - disk) / (offered - c / disk),
            "divide seconds by a rate",
        ),
        WrongAnswer(
            lambda offered, c, disk, deadline: (deadline - disk) / disk / (offered - 1 / disk),
            "count on one thread",
        ),
        WrongAnswer(
            lambda offered, c, disk, deadline: (
                abs((deadline - disk) * c / disk / (offered - c / disk))
                if offered != c / disk
                else 0.0
            ),
            "no queue grows at all",
        ),
    ),
    judge=_judge_in_time_for,
)
