"""Lesson 12: how much a change can bring, and the cheapest design that promises enough."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


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


def _judge_cheapest(answer: Any) -> Verdict:
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
    id="12.cheapest",
    title="The cheapest that gives enough",
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
    judge=_judge_cheapest,
    may_return_none=True,
)


def most_gain(most_per_s: Mapping[str, float], cured: str) -> float:
    """The next narrowest place over the narrowest one; 1 where the cure is of another place."""
    now_per_s = min(most_per_s.values())
    then_per_s = min(per_s for name, per_s in most_per_s.items() if name != cured)
    return max(1.0, then_per_s / now_per_s)


_SERVICE = {"calls in flight": 800.0, "pool": 200.0, "global lock": 50.0, "processor": 2_000.0}


def _judge_most_gain(answer: Any) -> Verdict:
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
    id="12.most_gain",
    title="What a cure can bring",
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
    judge=_judge_most_gain,
)
