"""Due times: when calls ought to be sent, in seconds from the start of the run.

Each pace is a generator of due times that never looks at a clock, so that lateness
does not add up and a test needs no waiting. A closed loop has no pace: `None`. A pace
that comes to its end ends the run.
"""

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Level(NamedTuple):
    """A height that is held for a while: calls per second, or a number of users."""

    height: float
    lasts_s: float


def constant_rate(per_s: float) -> Iterator[float]:
    """One call every `1 / per_s` seconds. Raises `ValueError` unless the rate is above 0."""
    if not per_s > 0:
        raise ValueError(f"per_s must be above 0 calls per second, got {per_s}")
    return (number / per_s for number in itertools.count())


def poisson(per_s: float, *, seed: int = 1) -> Iterator[float]:
    """Calls that know nothing of one another: exponential gaps with a mean of `1 / per_s`.

    The same seed gives the same due times. Raises `ValueError` unless the rate is above 0
    and finite.
    """
    if not 0 < per_s < math.inf:
        raise ValueError(f"per_s must be above 0 calls per second, got {per_s}")
    rng = random.Random(seed)
    return itertools.accumulate(rng.expovariate(per_s) for _ in itertools.count())


def bursts(calls: int, *, every_s: float) -> Iterator[float]:
    """`calls` calls due at the same moment, again every `every_s` seconds.

    Raises `ValueError` for less than one call, or no time between two bursts.
    """
    if calls < 1:
        raise ValueError(f"calls must be 1 or more in each burst, got {calls}")
    if not 0 < every_s < math.inf:
        raise ValueError(f"every_s must be above 0 seconds, got {every_s}")
    return (number * every_s for number in itertools.count() for _ in range(calls))


def steps(levels: Iterable[tuple[float, float]]) -> Iterator[float]:
    """One rate after the other: pairs of calls per second and the seconds this rate is held.

    The count of calls goes on across a step, so that short steps send no call too many.
    It ends after the last step. Raises `ValueError` for a rate or a time that makes no sense.
    """
    return _due_times(_checked(levels))


def ramp(
    first_per_s: float, last_per_s: float, *, steps: int, over_s: float, hold_s: float = math.inf
) -> Iterator[float]:
    """A rate that climbs (or falls) in equal steps, then holds for `hold_s` seconds.

    Raises `ValueError` as `climb` does.
    """
    return _due_times(
        [*climb(first_per_s, last_per_s, steps=steps, over_s=over_s), Level(last_per_s, hold_s)]
    )


def climb(first: float, last: float, *, steps: int, over_s: float) -> list[Level]:
    """The levels of a ramp: `steps` of the same height and length, `last` reached with the last.

    The first step is up already when the run begins, as in JMeter's Concurrency Thread
    Group: from 0 to 250 users in 250 steps over 30 s begins with one user. Raises
    `ValueError` for a negative level, less than one step, or no time to climb in.
    """
    if steps < 1:
        raise ValueError(f"steps must be 1 or more, got {steps}")
    if not 0 < over_s < math.inf:
        raise ValueError(f"over_s must be above 0 seconds, got {over_s}")
    heights = (first + (last - first) * number / steps for number in range(1, steps + 1))
    return _checked([(first, 0.0), *((height, over_s / steps) for height in heights)])[1:]


def joins(levels: Iterable[tuple[float, float]]) -> Iterator[float]:
    """When each user of a climb ought to begin: the k-th at the first level of k or more.

    Raises `ValueError` where a level is lower than the one before: nobody is sent away.
    """
    checked = _checked(levels)
    if any(later.height < earlier.height for earlier, later in itertools.pairwise(checked)):
        raise ValueError("users can only join: each level must be as high as the one before")
    return _joins(checked)


_ROUNDING = 1e-9
"""Calls. A step of 10 per second for 0.3 s holds three calls, whatever floating point says."""


def _joins(levels: list[Level]) -> Iterator[float]:
    begins_s, users = 0.0, 0
    for height, lasts_s in levels:
        while users + 1 <= height + _ROUNDING:
            users += 1
            yield begins_s
        begins_s += lasts_s


def _due_times(levels: list[Level]) -> Iterator[float]:
    begins_s, called, reached = 0.0, 0, 0.0
    for per_s, lasts_s in levels:
        before = reached
        reached += per_s * lasts_s if per_s else 0.0  # a rate of 0 may last for ever
        while called < reached - _ROUNDING:
            yield begins_s + max(0.0, called - before) / per_s
            called += 1
        begins_s += lasts_s


def _checked(levels: Iterable[tuple[float, float]]) -> list[Level]:
    checked = [Level(*level) for level in levels]
    for height, lasts_s in checked:
        if not 0 <= height < math.inf:
            raise ValueError(f"a level must be 0 or more and finite, got {height}")
        if not lasts_s >= 0:
            raise ValueError(f"a level must last 0 seconds or more, got {lasts_s}")
    return checked
