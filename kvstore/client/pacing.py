"""Due times: when to send each call, in seconds from the start of the run.

Each function yields due times without reading a clock, so lateness does not add up and a test does
not wait. The run ends with its due times. A closed loop has none: `None`.
"""

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Level(NamedTuple):
    """A number of users that is held for `lasts_s` seconds."""

    height: float
    lasts_s: float


def constant_rate(per_s: float) -> Iterator[float]:
    """Return due times `1 / per_s` seconds apart.

    Raises `ValueError` unless the rate is above 0.
    """
    if not per_s > 0:
        raise ValueError(f"per_s must be above 0 calls per second, got {per_s}")
    return (number / per_s for number in itertools.count())


def poisson(per_s: float, *, seed: int | None = None) -> Iterator[float]:
    """Return the due times of Poisson arrivals: exponential gaps with a mean of `1 / per_s`.

    The same seed gives the same due times; without one, they are others each time. Raises
    `ValueError` unless the rate is above 0 and finite.
    """
    if not 0 < per_s < math.inf:
        raise ValueError(f"per_s must be above 0 calls per second, got {per_s}")
    rng = random.Random(seed)
    return itertools.accumulate(rng.expovariate(per_s) for _ in itertools.count())


def steps(
    rates: Iterable[tuple[float, float]], *, random_gaps: bool = False, seed: int | None = None
) -> Iterator[float]:
    """Return due times at each of these rates, in calls per second, for its seconds.

    The gaps are even within a step, or random as those of Poisson arrivals. Time is stretched so
    that one call is due in each unit of it (time rescaling of a Poisson process with a rate that
    changes). Raises `ValueError` for a rate below 0.
    """
    checked = _checked(rates)
    rng = random.Random(seed)
    gaps = (rng.expovariate(1.0) if random_gaps else 1.0 for _ in itertools.count())
    places = itertools.accumulate(gaps, initial=None if random_gaps else 0.0)
    return _unstretched(places, checked)


def _unstretched(places: Iterator[float], levels: list[Level]) -> Iterator[float]:
    place, begins_s, before = next(places), 0.0, 0.0
    for rate_per_s, lasts_s in levels:
        until = before + rate_per_s * lasts_s
        while place < until:
            yield begins_s + (place - before) / rate_per_s
            place = next(places)
        begins_s, before = begins_s + lasts_s, until


def climb(first: float, last: float, *, steps: int, over_s: float) -> list[Level]:
    """Return the levels of a ramp: `steps` of equal height and length, the last one at `last`.

    The run starts on the first step, as in JMeter's Concurrency Thread Group: from 0 to 250 users
    in 250 steps over 30 s starts with one user. Raises `ValueError` for a negative level, less than
    one step, or a duration of 0.
    """
    if steps < 1:
        raise ValueError(f"steps must be 1 or more, got {steps}")
    if not 0 < over_s < math.inf:
        raise ValueError(f"over_s must be above 0 seconds, got {over_s}")
    heights = (first + (last - first) * number / steps for number in range(1, steps + 1))
    return _checked([(first, 0.0), *((height, over_s / steps) for height in heights)])[1:]


def joins(levels: Iterable[tuple[float, float]]) -> Iterator[float]:
    """Return when each user starts: user k at the first level of k or more.

    Raises `ValueError` where a level is lower than the one before: users cannot leave.
    """
    checked = _checked(levels)
    if any(later.height < earlier.height for earlier, later in itertools.pairwise(checked)):
        raise ValueError("users can only join: each level must be as high as the one before")
    return _joins(checked)


_ROUNDING = 1e-9
"""Users. A level of 3 is reached by three users in spite of floating point errors."""


def _joins(levels: list[Level]) -> Iterator[float]:
    begins_s, users = 0.0, 0
    for height, lasts_s in levels:
        while users + 1 <= height + _ROUNDING:
            users += 1
            yield begins_s
        begins_s += lasts_s


def _checked(levels: Iterable[tuple[float, float]]) -> list[Level]:
    checked = [Level(*level) for level in levels]
    for height, lasts_s in checked:
        if not 0 <= height < math.inf:
            raise ValueError(f"a level must be 0 or more and finite, got {height}")
        if not lasts_s >= 0:
            raise ValueError(f"a level must last 0 seconds or more, got {lasts_s}")
    return checked
