"""What the page draws: histograms of votes, and X, R and L of the votes themselves."""

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kvstore.axis import Axis

LOG_FROM: Final = 6.0
"""From this ratio of the largest to the smallest number on, a step of the axis is a factor."""
BINS: Final = 16
FACTORS: Final = 1e6
"""An axis shows no more than this ratio about its middle; what is beyond is in its end bins."""


def axis_of(values: Sequence[float], measured: float | None = None) -> Axis:
    """Return the axis that has the votes and the measured number; far outliers are at its ends."""
    every = sorted(values)
    shown = [*every, *([measured] if measured and measured > 0 else [])] or [1.0]
    middle = every[len(every) // 2] if every else shown[0]
    shown = [x for x in shown if 1 / FACTORS <= x / middle <= FACTORS] or [middle]
    low, high = min(shown), max(shown)
    if high > LOG_FROM * low:
        return Axis(low / 1.5, high * 1.5, log=True)
    return Axis(0.0, 1.2 * high, log=False)


def histogram(values: Sequence[float], axis: Axis) -> list[int]:
    """Return how many values are in each of the `BINS` bins of the axis."""
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int(axis.place(value) * BINS))] += 1
    return counts


def camps(values: Sequence[float], known: Iterable[float]) -> list[int]:
    """Return how many votes are nearest to each camp's number, in the order of the numbers.

    A vote that is a factor of 2 or more from every camp is in none.
    """
    counts = dict.fromkeys(sorted(known), 0)
    for value in values:
        nearest = min(counts, key=lambda camp: abs(math.log(value / camp)), default=None)
        if nearest is not None and abs(math.log(value / nearest)) < math.log(2):
            counts[nearest] += 1
    return list(counts.values())


class Law(NamedTuple):
    """Throughput, mean residence time and mean concurrency of what came and went."""

    votes: int
    x_per_s: float
    r_s: float
    l: float  # noqa: E741 - the letter of the law


def law(stays: Sequence[tuple[float, float]]) -> Law:
    """Return X, R and L of stays from arrival to departure, in seconds.

    L is counted apart from the others: step by step, how many are there and for how long.
    """
    if not stays:
        return Law(0, math.nan, math.nan, math.nan)
    begin, end = min(a for a, _ in stays), max(d for _, d in stays)
    steps = sorted([*((a, 1) for a, _ in stays), *((d, -1) for _, d in stays)])
    there, area, before = 0, 0.0, begin
    for at, change in steps:
        area += there * (at - before)
        there, before = there + change, at
    wide = max(end - begin, 1e-9)
    return Law(
        len(stays), len(stays) / wide, sum(d - a for a, d in stays) / len(stays), area / wide
    )
