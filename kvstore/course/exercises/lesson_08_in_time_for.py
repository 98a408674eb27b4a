"""Lesson 08: how long an overloaded server goes on answering in time."""

import math
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


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
    statement=(
        "Write `in_time_for_s(offered_per_s, threads, disk_s, deadline_s)`: for how many seconds "
        "from the beginning are calls answered within the deadline, when they come at this rate, "
        "wait in one queue without a limit, and each holds a thread for `disk_s`? `math.inf` when "
        "that never ends."
    ),
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
