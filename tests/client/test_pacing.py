"""pacing.py: tables of first due times, and the statistics of those that are drawn."""

import math
import statistics
from itertools import islice, pairwise

import pytest

from kvstore.client import pacing


@pytest.mark.parametrize(
    ("due_s", "per_s"), [([0.0, 0.1, 0.2, 0.3], 10), ([0.0, 0.0004, 0.0008, 0.0012], 2500)]
)
def test_calls_are_due_one_interval_apart(due_s, per_s):
    assert due_s == pytest.approx(list(islice(pacing.constant_rate(per_s), 4)))


@pytest.mark.parametrize(
    "pace",
    [
        lambda **seed: pacing.poisson(50, **seed),
        lambda **seed: pacing.steps([(50, 9)], random_gaps=True, **seed),
    ],
)
def test_a_seed_draws_the_same_due_times_again_and_without_one_no_two_are_alike(pace):
    seeds = ({"seed": 1}, {"seed": 1}, {"seed": 2}, {}, {})
    first, again, *others = (list(islice(pace(**seed), 100)) for seed in seeds)

    assert first == again
    assert len(set(map(tuple, [first, *others]))) == 4


def test_gaps_are_exponential():
    """Mean 1/r, deviation 1/r, half of them below ln 2 / r: within 3 % over 20,000 gaps."""
    due_s = list(islice(pacing.poisson(200), 20_001))
    gaps_s = [later - earlier for earlier, later in pairwise(due_s)]

    assert 1 / 200 == pytest.approx(statistics.fmean(gaps_s), rel=0.03)
    assert 1 / 200 == pytest.approx(statistics.stdev(gaps_s), rel=0.03)
    assert math.log(2) / 200 == pytest.approx(statistics.median(gaps_s), rel=0.03)


@pytest.mark.parametrize("random_gaps", [False, True])
def test_steps_have_their_rates_one_after_the_other(random_gaps):
    due_s = list(pacing.steps([(2_000, 1), (0, 1), (500, 2)], random_gaps=random_gaps, seed=3))
    counts = [sum(1 for at_s in due_s if begin <= at_s < end) for begin, end in ((0, 1), (1, 2))]

    assert sorted(due_s) == due_s
    assert [2_000, 0, 1_000] == pytest.approx(
        [*counts, len(due_s) - sum(counts)], abs=200 if random_gaps else 0
    )


@pytest.mark.parametrize(
    ("joins_s", "levels"),
    [
        ([0.0, 0.0, 1.0], [(2, 1), (3, 1)]),
        ([0.0, 2.0, 2.0], [(1, 2), (1, 0), (3, math.inf)]),
        ([0, 0, 2, 2, 2, 4, 4, 6, 6, 6], pacing.climb(0, 10, steps=4, over_s=8)),
    ],
)
def test_a_user_joins_when_the_level_reaches_him(joins_s, levels):
    assert joins_s == pytest.approx(list(pacing.joins(levels)))


@pytest.mark.parametrize("per_s", [0, -1, math.nan])
@pytest.mark.parametrize("pace", [pacing.constant_rate, pacing.poisson])
def test_a_rate_of_nothing_is_refused_at_once(pace, per_s):
    """Not at the first call, which may come in another thread."""
    with pytest.raises(ValueError, match="per_s must be above 0 calls per second, got"):
        pace(per_s)


@pytest.mark.parametrize(
    ("named", "make"),
    [
        ("users can only join", lambda: pacing.joins([(3, 1), (2, 1)])),
        ("a level must be 0 or more and finite, got -1", lambda: pacing.joins([(-1, 1)])),
        ("steps must be 1 or more, got 0", lambda: pacing.climb(0, 1, steps=0, over_s=1)),
    ],
)
def test_steps_that_make_no_sense_are_refused_at_once(named, make):
    with pytest.raises(ValueError, match=named):
        make()
