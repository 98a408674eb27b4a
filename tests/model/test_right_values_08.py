"""Lesson 08 against simulations that share no code with its models or its exercise."""

import math

import numpy as np
import pytest
from queues import gaps_minus_work, overtaken

from kvstore.course.lessons.lesson_08 import questions as facts
from kvstore.measure import ServerReport
from kvstore.model import Station, waiting

CALLS = 1_000_000
S = 0.0209
"""The service time of the reference machine: a disk of 20 ms, and the rest is constant."""


def simulated_s(draw, *, seed):
    rng = np.random.default_rng(seed)
    work = draw(rng)
    gaps = rng.exponential(work.mean() / 0.8, len(work))
    return gaps_minus_work(gaps, work) + work


def exponential(rng):
    return S - 0.020 + rng.exponential(0.020, CALLS)


def two_point(rng):
    return S - 0.020 + np.where(rng.random(CALLS) < 0.1, 0.140, 0.020 / 3)


def fixed(_):
    return np.full(CALLS, S)


@pytest.mark.parametrize("draw", [fixed, exponential, two_point], ids=lambda each: each.__name__)
def test_the_law_has_the_mean_of_a_long_run(draw):
    means = [simulated_s(draw, seed=seed).mean() for seed in range(3)]
    law_ms = facts.law_ms(0.8, S, draw.__name__)

    assert law_ms == pytest.approx(1e3 * np.mean(means), rel=0.03)


def test_so_many_calls_make_nine_of_ten_means_good():
    needed = facts.calls_needed().value
    rng = np.random.default_rng(5)
    means = []
    for _ in range(400):
        work, gaps = rng.exponential(1.0, (2, round(needed)))
        waits = gaps_minus_work(gaps / 0.8, work)
        means.append((waits + work).mean())

    within = np.mean(np.abs(np.array(means) / 5.0 - 1) < 0.1)
    assert 0.85 < within < 0.95


@pytest.mark.parametrize("kind", ["fixed", "exponential", "two_point"])
def test_the_simulated_runs_of_a_model_have_the_law_as_their_mean(kind):
    from types import SimpleNamespace

    run = SimpleNamespace(
        records=range(20_000),
        server=ServerReport.of({"settings": {"disk_times": kind, "read_delay_s": 0.020}}),
    )
    means = facts.simulated_means_s(run, S, seeds=100)

    assert facts.law_ms(0.8, S, kind) == pytest.approx(1e3 * means.mean(), rel=0.04)


@pytest.mark.parametrize(("busy", "exact"), [(0.3, 1.04), (0.6, 1.48), (0.8, 2.69), (0.9, 5.18)])
def test_kingman_is_an_approximation_for_even_arrivals(busy, exact):
    """D/M/1 has an exact solution: the root of a fixed point, here by iteration."""
    root = 0.5
    for _ in range(2_000):
        root = math.exp(-(1 - root) / busy)
    kingman = waiting.residence(busy, Station("worker", 1.0), arrival_c2=0.0).value

    assert exact == pytest.approx(1 / (1 - root), abs=0.01)
    assert 1.04 < kingman / exact < 1.2


@pytest.mark.long
def test_who_overtakes_whom():
    long, times = overtaken("first come", "short first", "round robin", jobs=400_000)
    means = {name: each.mean() for name, each in times.items()}

    assert {"first come": 220, "short first": 92, "round robin": 115} == pytest.approx(
        means, rel=0.1
    )
    assert times["short first"][long].mean() == pytest.approx(395, rel=0.1)
    p99 = {name: np.percentile(each, 99) for name, each in times.items()}
    assert p99["short first"] < p99["first come"] < p99["round robin"]


def test_the_p99_of_exponential_times_is_4_6_times_the_mean():
    times = simulated_s(lambda rng: rng.exponential(1.0, CALLS), seed=1)

    assert math.log(100) * times.mean() == pytest.approx(np.percentile(times, 99), rel=0.03)
