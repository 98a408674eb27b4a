"""Exercise of lesson 12: how much a change can bring."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer
from kvstore.course.exercises.drawn import in_order_of, judge_drawn


def most_gain(most_per_s: Mapping[str, float], widened: str) -> float:
    """How many times the throughput at most, once this station is as wide as you like."""
    before_per_s = min(most_per_s.values())
    after_per_s = min(per_s for name, per_s in most_per_s.items() if name != widened)
    return after_per_s / before_per_s


def _drawn(rates: list[int], place: int) -> dict[str, Any]:
    names = ("calls in flight", "pool", "lock", "disk", "processor")
    most_per_s = {name: float(10 * rate) for name, rate in zip(names, rates, strict=False)}
    return {"most_per_s": most_per_s, "widened": list(most_per_s)[place % len(most_per_s)]}


INPUTS = st.builds(_drawn, st.lists(st.integers(1, 40), min_size=2, max_size=5), st.integers(0, 4))
"""Two to five stations, and any of them is widened: also one that does not bind."""

MISTAKES = (
    WrongAnswer(
        lambda most_per_s, widened: max(most_per_s.values()) / min(most_per_s.values()),
        "The widest station never limits anything: which one binds next?",
    ),
    WrongAnswer(
        lambda most_per_s, widened: min(v for k, v in most_per_s.items() if k != widened),
        "That is the throughput afterwards. How many times the one before is it?",
    ),
    WrongAnswer(
        lambda most_per_s, widened: (
            min(most_per_s.values()) / min(v for k, v in most_per_s.items() if k != widened)
        ),
        "Upside down: divide the throughput afterwards by the one before.",
    ),
    WrongAnswer(
        lambda most_per_s, widened: sorted(most_per_s.values())[1] / sorted(most_per_s.values())[0],
        "You widen the bottleneck. But the station that is widened may be another one.",
    ),
)


def _judge(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        most_gain,
        INPUTS.map(in_order_of(most_gain)),
        mistakes=MISTAKES,
        right="The bound of the next station over the bound of the bottleneck: more than this no "
        "change of one station can bring.",
    )


MOST_GAIN = Exercise(
    id="12.most_gain",
    title="What one change can bring",
    hints=(
        "The throughput now is the smallest of all bounds.",
        "After the change it is the smallest bound of the other stations.",
        "Divide the second by the first. A station that does not bind gives 1 without any `if`.",
    ),
    reference=most_gain,
    wrong=MISTAKES,
    judge=_judge,
)
