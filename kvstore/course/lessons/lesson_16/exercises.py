"""Lesson 16: the knee from a few measured levels, and a search for the highest rate."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from kvstore.course.exercises import Exercise
from kvstore.course.exercises.grading import Drawn

Levels = Sequence[tuple[int, float, float]]
"""Calls in flight, throughput in calls/s, mean residence time in seconds; one row for each run."""

# 16.knee --------------------------------------------------------------------------------------


def knee(levels: Levels) -> float:
    """Return N*: the residence time without a queue times the highest throughput."""
    return min(row[2] for row in levels) * max(row[1] for row in levels)


LEVELS = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(1, 20_000).map(float)),
    min_size=1,
    max_size=30,
    unique_by=lambda row: row[0],
).map(lambda rows: [(n, per_s, n / per_s) for n, per_s in rows])
"""Levels as a closed loop without think time has them: N = X·R."""
KNEE = Exercise(
    id="16.knee",
    title="The knee of an unknown service",
    hints=(
        "The two bounds meet at N*: N / (D + Z) = 1/D_max. Solve for N.",
        "1/D_max is the highest throughput that you saw. D + Z is the time of a call without a"
        " queue.",
        "`min(R for N, X, R in levels)` times `max(X for N, X, R in levels)`.",
    ),
    reference=knee,
    judge=Drawn(
        knee,
        LEVELS.map(lambda levels: (levels,)),
        mistakes=(
            (
                "That is the ceiling, in calls/s. N* is a number of calls: multiply by a time.",
                lambda levels: max(row[1] for row in levels),
            ),
            (
                "That is the level with the highest throughput. The knee may lie far below it.",
                lambda levels: float(max(levels, key=lambda row: row[1])[0]),
            ),
            (
                "The longest residence time includes a queue. Take the time of a call that does "
                "not wait.",
                lambda levels: max(row[2] for row in levels) * max(row[1] for row in levels),
            ),
            (
                "The rows come in any order, and the first one need not be the fastest. Take the "
                "minimum.",
                lambda levels: levels[0][2] * max(row[1] for row in levels),
            ),
            (
                "The rows come in any order. Take the minimum of R and the maximum of X.",
                lambda levels: levels[0][2] * levels[-1][1],
            ),
            (
                "Do not round: the two bounds meet between whole numbers.",
                lambda levels: float(
                    math.ceil(min(row[2] for row in levels) * max(row[1] for row in levels))
                ),
            ),
            (
                "X times R of one row is the number of calls in flight in that run: Little's law.",
                lambda levels: max(row[1] * row[2] for row in levels),
            ),
            (
                "You divide by the time. N* = (D + Z) times the ceiling.",
                lambda levels: max(row[1] for row in levels) / min(row[2] for row in levels),
            ),
        ),
        right="N* = (D + Z)·X_max. D + Z is the shortest R, and X_max the highest X.",
    ),
)

# 16.highest_rate ------------------------------------------------------------------------------


def highest_rate(meets: Callable[[int], bool], low: int, high: int) -> int:
    """Return the highest rate that meets the objective, by bisection: `low` does, `high` not."""
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            low = middle
        else:
            high = middle
    return low


class TooManySteps(RuntimeError):
    """Many more runs were made than a bisection needs."""


class Service:
    """A service that meets its objective up to a rate, and counts the runs against it."""

    def __init__(self, limit: int, low: int, high: int) -> None:
        self.limit, self.low, self.high = limit, low, high
        self.budget = 10 + 3 * math.ceil(math.log2(max(2, high - low)))
        self.runs = 0

    def __call__(self, rate_per_s: int) -> bool:
        """Return whether a run at this rate meets the objective. Raises `TooManySteps`."""
        if self.runs == self.budget:
            raise TooManySteps(
                f"more than {self.budget} runs from {self.low} to {self.high}: each run takes"
                " seconds, so halve the interval with each of them"
            )
        if not self.low <= rate_per_s <= self.high:
            raise ValueError(
                f"a run at {rate_per_s} calls/s lies outside {self.low} to {self.high}"
            )
        self.runs += 1
        return rate_per_s <= self.limit

    def __repr__(self) -> str:
        return f"a service that meets it up to {self.limit}"


SERVICES = (
    st.tuples(st.integers(1, 500), st.integers(1, 500), st.integers(0, 500))
    .map(lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[0] + drawn[2] % drawn[1]))
    .map(lambda drawn: (Service(drawn[2], drawn[0], drawn[1]), drawn[0], drawn[1]))
)


def _bisect(
    meets: Callable[[int], bool], low: int, high: int, *, gap: int = 1, answer: str = "low"
) -> Any:
    while high - low > gap:
        middle = (low + high) // 2
        if meets(middle):
            low = middle
        else:
            high = middle
    return {"low": low, "high": high, "middle": (low + high) / 2}[answer]


def _skipping(meets: Callable[[int], bool], low: int, high: int) -> int:
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            low = middle + 1
        else:
            high = middle - 1
    return low


def _once(meets: Callable[[int], bool], low: int, high: int) -> int:
    middle = (low + high) // 2
    return middle if meets(middle) else low


HIGHEST_RATE = Exercise(
    id="16.highest_rate",
    title="The highest rate that meets an objective",
    hints=(
        "What does one run in the middle of the interval say about all other rates?",
        "If the middle meets the objective, it becomes the new `low`, else the new `high`.",
        "Loop while `high - low > 1`. Then return `low`.",
    ),
    reference=highest_rate,
    judge=Drawn(
        highest_rate,
        SERVICES,
        mistakes=(
            (
                "That is the lowest rate that fails. Return the highest one that meets the "
                "objective.",
                lambda meets, low, high: _bisect(meets, low, high, answer="high"),
            ),
            (
                "That is the mean of the last two rates, and no run was made at it. Return the "
                "lower of the"
                " two: it met the objective.",
                lambda meets, low, high: _bisect(meets, low, high, answer="middle"),
            ),
            (
                "You stop while a rate between the two is untried: go on until they differ by 1.",
                lambda meets, low, high: _bisect(meets, low, high, gap=2),
            ),
            (
                "After a run at `middle` that met the objective, `middle` itself is the best rate "
                "so far:"
                " keep it in the interval.",
                _skipping,
            ),
            ("One run leaves half of the interval unknown: repeat it in a loop.", _once),
            ("You made no run. Call `meets(rate)`.", lambda meets, low, high: low),
            (
                "That is the rate below `high`, whatever the service does. Call `meets(rate)`.",
                lambda meets, low, high: high - 1,
            ),
        ),
        right="Each run halves the interval, so 10 runs find one rate in 1,000.",
    ),
)
