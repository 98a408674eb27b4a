"""Lesson 06: which connection the next call takes, so that all have an even share."""

import random
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed

CONNECTIONS, STREAMS, STEPS = 4, 3, 400


def connection_for(open_calls: list[int]) -> int:
    """The connection with the fewest calls in flight."""
    return open_calls.index(min(open_calls))


def _judge(answer: Any) -> Verdict:
    first = [answer([0]), answer([0, 0])]
    if any(isinstance(place, bool) or not isinstance(place, int) for place in first):
        return not_yet(f"a connection is told by its place, a whole number; you gave {first[0]!r}.")
    if first[0] != 0 or first[1] not in (0, 1):
        return not_yet(f"places begin at 0; of one connection you chose number {first[0]}.")
    uneven = ([0, 9, 1], [9, 1, 0], [0, 9, 1], [1, 0, 9], [9, 0, 1])
    if all(answer(list(each)) == each.index(9) for each in uneven):
        return not_yet("you choose the busiest connection: the one that has the most calls open.")
    if answer([7, 5]) == 5:
        return not_yet("5 is how many calls are open there; asked for is which connection it is.")
    rng = random.Random(6)
    open_calls = [0] * CONNECTIONS
    for step in range(STEPS):
        before = list(open_calls)
        if sum(open_calls) < CONNECTIONS * STREAMS:
            place = answer(list(open_calls))
            if place not in range(CONNECTIONS):
                return not_yet(f"there are {CONNECTIONS} connections, and you chose {place!r}.")
            open_calls[place] += 1
        if max(open_calls) > STREAMS:
            return not_yet(_why_uneven(before, open_calls, step))
        if sum(open_calls) >= CONNECTIONS * STREAMS:
            # One answer comes back: from any connection, as answers do.
            busy = [place for place, count in enumerate(open_calls) if count]
            open_calls[rng.choice(busy)] -= 1
    return passed(
        f"{STEPS} calls, {CONNECTIONS} connections, and never more than {STREAMS} calls on one: in "
        "a closed loop the next call takes the place of the one that was answered."
    )


def _why_uneven(before: list[int], after: list[int], step: int) -> str:
    place = next(n for n in range(CONNECTIONS) if after[n] != before[n])
    if step == STREAMS and place == 0:
        return (
            f"the open calls were {before}, and you took connection 0 again: the others carry "
            "nothing at all."
        )
    return (
        f"after {step} calls the open calls were {before}, and you took connection {place}: it has "
        f"its {STREAMS} already, and another has room. Answers do not come back in turn."
    )


class _InTurn:
    """Round robin, blind to what is open."""

    def __init__(self) -> None:
        self._next = -1

    def __call__(self, open_calls: list[int]) -> int:
        self._next = (self._next + 1) % len(open_calls)
        return self._next


def _by_chance(open_calls: list[int]) -> int:
    return random.Random(sum(open_calls) * 7919 + open_calls[0]).randrange(len(open_calls))


EVEN_SHARE = Exercise(
    id="06.even_share",
    title="An even share",
    statement=(
        "`open_calls[k]` is how many calls connection k has in flight. Write "
        "`connection_for(open_calls)`: the connection that the next call takes, so that with N "
        "calls over c connections none ever has more than N / c (rounded up)."
    ),
    hints=(
        "Round robin looks fair. But answers come back in any order: after a while one connection "
        "has many calls open, and another few.",
        "Which connection surely has fewer than N / c, whenever fewer than N calls are open?",
        "The one with the fewest: `min(open_calls)`, and its place in the list.",
    ),
    reference=connection_for,
    wrong=(
        WrongAnswer(lambda open_calls: 0, "the others carry nothing"),
        WrongAnswer(_InTurn(), "do not come back in turn"),
        WrongAnswer(_by_chance, "another has room"),
        WrongAnswer(lambda open_calls: open_calls.index(max(open_calls)), "the busiest"),
        WrongAnswer(min, "how many calls are open"),
        WrongAnswer(lambda open_calls: len(open_calls), "places begin at 0"),
    ),
    judge=_judge,
)
