"""A queue whose order the learner chooses: which of the waiting calls is next."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from kvstore.course import my_code
from kvstore.course.exercises import Verdict, expect, judges, passed

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
            "`choose` needs the list of the calls that wait, each as (arrival, work), got"
            f" {waiting!r:.60}.",
        )
        expect(
            waiting == sorted(waiting, key=lambda call: call[0]),
            f"`choose` got {waiting!r:.80}: the calls stand in the order of their arrival.",
        )
        return self._order(waiting)


@judges("08.response_times_by")
def _judge(answer: Any) -> Verdict:
    expect(answer([], [], ORDERS["the oldest"]) == [], "Without calls, return an empty list.")
    for arrivals_s, work_s in (*CASES, *map(_drawn, (10, 40))):
        for name, order in ORDERS.items():
            _look_at(answer, arrivals_s, work_s, name, order)
    return passed(
        "The worker never stops a call that it has begun, never waits while a call waits, and asks"
        " who is next each time that it is free."
    )


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
        f"Return a list with the response time of each of the {len(expected_s)} calls, got"
        f" {times_s!r:.60}.",
    )
    for number, (time_s, right_s) in enumerate(zip(times_s, expected_s, strict=True)):
        expect(
            abs(time_s - right_s) < 1e-6,
            f"{where}: call {number} takes {right_s:g} s, and you returned {time_s:g}."
            + _why(times_s, expected_s, arrivals_s, work_s, number),
        )
    expect(
        watched.asked == len(expected_s),
        f"{where}: `choose` was asked {watched.asked} times for {len(expected_s)} calls. Ask once"
        " for each call that begins.",
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
