"""Lesson 10: of all designs the cheapest that promises enough."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed


class Promise(NamedTuple):
    """A design, as a model sees it."""

    name: str
    cost_days: int
    per_s: float
    p99_s: float


def cheapest(
    promises: Sequence[Promise], needed_per_s: float, p99_s: float, margin: float
) -> Promise | None:
    """What keeps a margin to both sides of the target, and costs least; None if nothing does."""
    enough = [
        each
        for each in promises
        if each.per_s >= margin * needed_per_s and margin * each.p99_s <= p99_s
    ]
    return min(enough, key=lambda each: each.cost_days, default=None)


_FREE = Promise("as it is", 0, 60.0, 0.6)
_TIGHT = Promise("just enough", 2, 310.0, 0.05)
_SLOW_TAIL = Promise("large batches", 3, 2_000.0, 0.9)
_NEAR_TAIL = Promise("a queue", 4, 900.0, 0.28)
_RIGHT = Promise("a lock per key", 5, 800.0, 0.04)
_FAST = Promise("everything", 11, 5_000.0, 0.03)
_ALL = (_FAST, _NEAR_TAIL, _FREE, _RIGHT, _SLOW_TAIL, _TIGHT)

_WHY = {
    _FREE: "it costs nothing, and does not give what is needed.",
    _TIGHT: "310/s where 300/s are needed: a model that is 10 % off fails. Where is the margin?",
    _SLOW_TAIL: "it is fast, and its tail three times what is allowed: the target has two sides.",
    _NEAR_TAIL: "its tail keeps no margin: 0.28 s times 1.5 is more than 0.3 s.",
    _FAST: "it gives most, and costs most: asked for was the cheapest that gives enough.",
}


def _judge(answer: Any) -> Verdict:
    found = answer(list(_ALL), 300.0, 0.3, 1.5)
    if found is None:
        return not_yet("there is a design that promises enough, and you found None.")
    if found not in _ALL:
        return not_yet(f"return one of the promises as it stands, or None; got {found!r}.")
    if found != _RIGHT:
        return not_yet(f"you chose `{found.name}`: {_WHY[found]}")
    dearer = _RIGHT._replace(name="the same for more", cost_days=7)
    if answer([dearer, _RIGHT], 300.0, 0.3, 1.5) != _RIGHT:
        return not_yet("of two that give the same you took the dearer one.")
    none = answer([_FREE, _SLOW_TAIL], 300.0, 0.3, 1.5)
    if none is not None:
        return not_yet(f"no design promised enough, and you took `{none.name}` all the same.")
    return passed("Rate and tail with a margin first, the price last: an order, not a sum.")


CHEAPEST = Exercise(
    id="10.cheapest",
    title="The cheapest that gives enough",
    statement=(
        "Write `cheapest(promises, needed_per_s, p99_s, margin)`. Each promise has `name`, "
        "`cost_days`, `per_s` and `p99_s`. Return the one that costs least of those that promise "
        "`margin` times the rate, and whose tail, `margin` times, is still within `p99_s`. None "
        "if there is no such design."
    ),
    hints=(
        "First throw away what does not promise enough; only then look at the price.",
        "Two conditions: `per_s >= margin * needed_per_s` and `margin * each.p99_s <= p99_s`.",
        "`min(enough, key=lambda each: each.cost_days, default=None)` knows an empty list.",
    ),
    reference=cheapest,
    wrong=(
        WrongAnswer(
            lambda promises, needed, tail, margin: min(promises, key=lambda p: p.cost_days),
            "does not give what is needed",
        ),
        WrongAnswer(
            lambda promises, needed, tail, margin: cheapest(promises, needed, tail, 1.0),
            "Where is the margin",
        ),
        WrongAnswer(
            lambda promises, needed, tail, margin: cheapest(promises, needed, 1e9, margin),
            "the target has two sides",
        ),
        WrongAnswer(
            lambda promises, needed, tail, margin: (
                cheapest(promises, margin * needed, margin * tail, 1.0) and _NEAR_TAIL
            ),
            "its tail keeps no margin",
        ),
        WrongAnswer(
            lambda promises, needed, tail, margin: max(promises, key=lambda p: p.per_s),
            "costs most",
        ),
        WrongAnswer(
            lambda promises, needed, tail, margin: (
                cheapest(promises, needed, tail, margin) or promises[0]
            ),
            "all the same",
        ),
    ),
    judge=_judge,
    may_return_none=True,
)
