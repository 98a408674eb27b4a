"""A queue whose order the learner chooses: which of the waiting calls is next."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from kvstore.course import my_code
from kvstore.course.exercises import Verdict, expect, judges, passed
from kvstore.course.lessons import words

say = words("08")

Order = Callable[[list[tuple[float, float]]], int]
"""From the waiting calls, each with its arrival and its work in seconds, to the place of one."""


ORDERS: Final[dict[str, Order]] = {
    "the oldest": lambda waiting: 0,
    "the newest": lambda waiting: len(waiting) - 1,
    "the shortest": lambda waiting: min(range(len(waiting)), key=lambda n: waiting[n][1]),
    "the longest": lambda waiting: max(range(len(waiting)), key=lambda n: waiting[n][1]),
}
CASES: Final = (
    ([0.0], [1.0]),
    ([0.0, 5.0], [1.0, 1.0]),
    ([0.0, 0.5, 1.0, 1.25], [2.0, 4.0, 1.0, 0.5]),
    ([0.0, 0.0, 0.0], [1.0, 3.0, 2.0]),
    ([1.0, 1.5, 9.0], [3.0, 0.5, 1.0]),
)
"""Arrivals and work: alone, one after the other, while one is served, at once, an idle worker."""


def _drawn(calls: int) -> tuple[list[float], list[float]]:
    rng = random.Random(calls)
    at_s, arrivals_s = 0.0, list[float]()
    for _ in range(calls):
        at_s += rng.randrange(9) / 4
        arrivals_s.append(at_s)
    return arrivals_s, [(1 + rng.randrange(8)) / 4 for _ in range(calls)]


class _Watched:
    """An order that looks at what it gets, and counts how often it is asked."""

    def __init__(self, order: Order, calls: set[tuple[float, float]]) -> None:
        self._order, self._calls, self.asked = order, calls, 0

    def __call__(self, waiting: Any) -> int:
        self.asked += 1
        expect(
            isinstance(waiting, list) and set(waiting) <= self._calls and waiting,
            say("choose_needs_the_waiting", waiting=waiting),
        )
        expect(
            waiting == sorted(waiting, key=lambda call: call[0]),
            say("choose_out_of_order", waiting=waiting),
        )
        return self._order(waiting)


@judges("08.response_times_by")
def _judge(answer: Any) -> Verdict:
    expect(answer([], [], ORDERS["the oldest"]) == [], say("without_calls"))
    for arrivals_s, work_s in (*CASES, *map(_drawn, (10, 40))):
        for name, order in ORDERS.items():
            _look_at(answer, arrivals_s, work_s, name, order)
    return passed(say("passed_order"))


def _look_at(
    answer: Any, arrivals_s: Sequence[float], work_s: Sequence[float], name: str, order: Order
) -> None:
    where = f"arrivals_s = {list(arrivals_s)}, work_s = {list(work_s)}, next is {name}"
    where = where if len(arrivals_s) < 6 else f"{len(arrivals_s)} calls, next is {name}"
    watched = _Watched(order, set(zip(arrivals_s, work_s, strict=True)))
    expected_s = my_code.course_version("laws.response_times_by")(arrivals_s, work_s, order)
    times_s = answer(list(arrivals_s), list(work_s), watched)
    expect(
        isinstance(times_s, list) and len(times_s) == len(expected_s),
        say("no_times", expected_s=len(expected_s), times_s=times_s),
    )
    for number, (time_s, right_s) in enumerate(zip(times_s, expected_s, strict=True)):
        expect(
            abs(time_s - right_s) < 1e-6,
            say("another_response_time", where=where, number=number, right_s=right_s, time_s=time_s)
            + _why(times_s, expected_s, arrivals_s, work_s, number),
        )
    expect(
        watched.asked == len(expected_s),
        say("asked_too_often", where=where, asked=watched.asked, expected_s=len(expected_s)),
    )


def _why(
    times_s: Sequence[float],
    expected_s: Sequence[float],
    arrivals_s: Sequence[float],
    work_s: Sequence[float],
    number: int,
) -> str:
    ends_s = [at_s + each_s for at_s, each_s in zip(arrivals_s, expected_s, strict=True)]
    if abs(times_s[number] - ends_s[number]) < 1e-6:
        return " That is when it ends: take its arrival off."
    if sorted(times_s) == sorted(expected_s):
        return " The times are right, and in another order: the first is that of the first arrival."
    if times_s[number] < work_s[number]:
        return " That is less than its own work."
    if times_s[number] < expected_s[number]:
        return " One worker serves one call at a time, and no call is stopped for another one."
    return (
        " When the worker is free, `choose` gets all that have arrived by then, and no others; an"
        " idle worker takes the next call at its arrival."
    )
