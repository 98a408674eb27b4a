"""pacing.py: tables of first due times, and the statistics of the one that is drawn."""

import math
import statistics
import time
from itertools import islice, pairwise, takewhile

import pytest
from tables import for_each

from kvstore.client import pacing

ENDLESS = {
    "constant_rate": lambda: pacing.constant_rate(100),
    "poisson": lambda: pacing.poisson(100, seed=3),
}


def until(end_s: float, due_times) -> list[float]:
    return list(takewhile(lambda due_s: due_s < end_s, due_times))


# ---- what holds for all --------------------------------------------------------------------


@for_each("pace", ENDLESS)
def test_no_pace_looks_at_a_clock(pace, monkeypatch):
    """Else the lateness of a sender would add up."""

    def looked() -> float:
        raise AssertionError("a pace looked at the clock")

    for clock in ("time", "monotonic", "perf_counter", "time_ns", "perf_counter_ns", "sleep"):
        monkeypatch.setattr(time, clock, looked)

    assert 1_000 == len(list(islice(ENDLESS[pace](), 1_000)))


@for_each("pace", ENDLESS)
def test_no_call_is_due_before_the_one_before_it(pace):
    due_s = list(islice(ENDLESS[pace](), 1_000))

    assert due_s[0] >= 0
    assert sorted(due_s) == due_s


# ---- constant rate -------------------------------------------------------------------------


@for_each(
    ("due_s", "per_s"),
    [
        ([0.0, 0.1, 0.2, 0.3], 10),
        ([0.0, 1.0, 2.0, 3.0], 1),
        ([0.0, 2.0, 4.0, 6.0], 0.5),
        ([0.0, 0.0004, 0.0008, 0.0012], 2500),
    ],
)
def test_calls_are_due_one_interval_apart(due_s, per_s):
    assert due_s == pytest.approx(list(islice(pacing.constant_rate(per_s), 4)))


def test_lateness_does_not_add_up():
    """The ten-thousandth call is due when it ought to be, to rounding."""
    assert 1000.0 == next(islice(pacing.constant_rate(10), 10_000, None))


@for_each("per_s", [0, -1, math.nan])
@for_each("pace", [pacing.constant_rate, pacing.poisson])
def test_a_rate_of_nothing_is_refused_at_once(pace, per_s):
    """Not at the first call, which may come in another thread."""
    with pytest.raises(ValueError, match="per_s must be above 0 calls per second, got"):
        pace(per_s)


# ---- Poisson -------------------------------------------------------------------------------


def test_a_seed_draws_the_same_due_times_again():
    first, again, other = (list(islice(pacing.poisson(50, seed=seed), 100)) for seed in (1, 1, 2))

    assert first == again
    assert first != other


@for_each("seed", range(3))
def test_gaps_are_exponential(seed):
    """Mean 1/r, deviation 1/r, half of them below ln 2 / r: within 3 % over 20,000 gaps."""
    due_s = list(islice(pacing.poisson(200, seed=seed), 20_001))
    gaps_s = [later - earlier for earlier, later in pairwise(due_s)]

    assert 1 / 200 == pytest.approx(statistics.fmean(gaps_s), rel=0.03)
    assert 1 / 200 == pytest.approx(statistics.stdev(gaps_s), rel=0.03)
    assert math.log(2) / 200 == pytest.approx(statistics.median(gaps_s), rel=0.03)


@for_each("seed", range(3))
def test_calls_in_a_second_vary_as_much_as_their_mean(seed):
    """What makes it Poisson: the variance of the count is the mean, 20; evenly spaced has 0."""
    counts = [0] * 4_000
    for due_s in until(4_000, pacing.poisson(20, seed=seed)):
        counts[int(due_s)] += 1

    assert 20 == pytest.approx(statistics.fmean(counts), rel=0.03)
    assert 20 == pytest.approx(statistics.variance(counts), rel=0.1)


def test_a_gap_says_nothing_about_the_next():
    due_s = list(islice(pacing.poisson(1), 20_001))
    gaps_s = [later - earlier for earlier, later in pairwise(due_s)]

    assert 0 == pytest.approx(statistics.correlation(gaps_s[:-1], gaps_s[1:]), abs=0.03)


# ---- callers that join ---------------------------------------------------------------------


def test_250_users_join_in_250_steps_over_30_s():
    """Source 3's load: one user at once, one more every 0.12 s."""
    joins_s = list(pacing.joins(pacing.climb(0, 250, steps=250, over_s=30)))

    assert [number * 0.12 for number in range(250)] == pytest.approx(joins_s)


@for_each(
    ("joins_s", "levels"),
    [
        ([0.0, 0.0, 1.0], [(2, 1), (3, 1)]),
        ([0.0, 2.0, 2.0], [(1, 2), (1, 0), (3, math.inf)]),
        ([1.0], [(0.5, 1), (1.5, 1)]),
        ([], [(0, 5)]),
    ],
)
def test_a_user_joins_when_the_level_reaches_him(joins_s, levels):
    assert joins_s == pytest.approx(list(pacing.joins(levels)))


def test_more_users_than_steps_join_several_at_once():
    joins_s = list(pacing.joins(pacing.climb(0, 10, steps=4, over_s=8)))

    assert [0, 0, 2, 2, 2, 4, 4, 6, 6, 6] == joins_s


def test_users_cannot_leave():
    with pytest.raises(ValueError, match="users can only join"):
        pacing.joins([(3, 1), (2, 1)])


@for_each(
    ("named", "make"),
    [
        ("a level must be 0 or more and finite, got -1", lambda: pacing.joins([(-1, 1)])),
        ("a level must be 0 or more and finite, got inf", lambda: pacing.joins([(math.inf, 1)])),
        ("a level must last 0 seconds or more, got -2", lambda: pacing.joins([(1, -2)])),
        ("must last 0 seconds or more, got nan", lambda: pacing.joins([(1, math.nan)])),
        ("steps must be 1 or more, got 0", lambda: pacing.climb(0, 1, steps=0, over_s=1)),
        ("over_s must be above 0 seconds, got 0", lambda: pacing.climb(0, 1, steps=1, over_s=0)),
        ("must be 0 or more and finite, got -5", lambda: pacing.climb(-5, 1, steps=1, over_s=1)),
        ("must be 0 or more and finite, got nan",
         lambda: pacing.climb(0, math.nan, steps=1, over_s=1)),
    ],
)  # fmt: skip
def test_steps_that_make_no_sense_are_refused_at_once(named, make):
    with pytest.raises(ValueError, match=named):
        make()
