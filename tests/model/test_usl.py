"""usl.py: fitted to data that were made from known parameters, with noise and without."""

import math
import warnings

import numpy as np
import pytest

from kvstore.model import usl

SWEEP = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64]
TRUE = (995.0, 0.02, 0.001)
"""995 calls/s with N = 1, contention 2 %; the peak is at sqrt(0.98 / 0.001) = 31."""


def made(sweep=SWEEP, parameters=TRUE, *, noise: float = 0.0, seed: int = 1) -> list[float]:
    """Throughputs of the law, each wrong by a normal share of itself."""
    factors = 1 + noise * np.random.default_rng(seed).standard_normal(len(sweep))
    exact = usl.law(np.array(sweep, float), *parameters)
    return [float(value) for value in exact * factors]


@pytest.mark.parametrize(
    ("per_s", "in_flight", "parameters"),
    [
        (100.0, 1, (100.0, 0.5, 0.1)),  # one call has no contention
        (1000 / 5.5, 10, (100.0, 0.5, 0.0)),  # Amdahl: 1 + 0.5 * 9
        (1000 / 10.0, 10, (100.0, 0.0, 0.1)),  # 1 + 0.1 * 90
    ],
)
def test_the_law_by_hand(per_s, in_flight, parameters):
    assert per_s == pytest.approx(float(usl.law(np.float64(in_flight), *parameters)))


@pytest.mark.parametrize(
    "parameters", [TRUE, (48_000.0, 0.0005, 0.0009), (2_500.0, 0.5, 0.0), (1e6, 0.0, 0.01)]
)
def test_what_was_put_in_comes_out(parameters):
    """Also where sigma or kappa is 0: contention alone, or coherency alone."""
    fitted = usl.fit(SWEEP, made(parameters=parameters))
    found = (fitted.gamma_per_s.value, fitted.sigma.value, fitted.kappa.value)

    assert parameters == pytest.approx(found, rel=1e-3, abs=1e-6)
    assert fitted.rms_error < 1e-4


def test_the_peak_is_where_the_law_is_highest():
    fitted = usl.fit(SWEEP, made())
    curve = [fitted.throughput_per_s(n) for n in range(1, 65)]

    assert math.sqrt(980) == pytest.approx(fitted.peak, rel=1e-3)
    assert 31 == 1 + int(np.argmax(curve))


def test_intervals_hold_the_truth_as_often_as_they_say():
    """200 sweeps with 3 % of noise: 95 % of the intervals, give or take chance."""
    parameters = (995.0, 0.5, 0.02)
    fits = [usl.fit(SWEEP, made(SWEEP, parameters, noise=0.03, seed=seed)) for seed in range(200)]
    for name, true in zip(("gamma_per_s", "sigma", "kappa"), parameters, strict=True):
        intervals = [getattr(fitted, name) for fitted in fits]
        held = sum(interval.low <= true <= interval.high for interval in intervals)

        assert 180 <= held <= 199, name
        assert true == pytest.approx(np.mean([each.value for each in intervals]), rel=0.05)


def capped(seed: int) -> list[float]:
    """100 a second each, and a pool that serves 1,600: a min(), with a little noise."""
    factors = 1 + 0.03 * np.random.default_rng(seed).standard_normal(len(SWEEP))
    return [min(100 * n, 1_600) * factor for n, factor in zip(SWEEP, factors, strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_a_warning_names_why_not_to_use_the_fit(seed):
    assert () == usl.fit(SWEEP, made(noise=0.02, seed=seed)).warnings
    ends_early = usl.fit(SWEEP[:6], made(SWEEP[:6], noise=0.005, seed=seed))
    assert any("no point past the peak" in warning for warning in ends_early.warnings)
    fitted = usl.fit(SWEEP, capped(seed))
    assert "a hard cap fits better: min(" in fitted.warnings[0]
    assert fitted.sigma.value >= 0


def test_a_fall_within_the_noise_is_warned_of():
    """Flat from 8 on, and noise enough to see a fall in it or none."""
    flat = (made(parameters=(9.0, 0.9, 1e-5), noise=0.1, seed=seed) for seed in range(10))
    seen = {each.split(":")[0] for measured in flat for each in usl.fit(SWEEP, measured).warnings}

    assert "kappa may be 0" in seen


def test_nothing_is_left_to_a_warning_of_a_library():
    """Exact data leave no error to estimate the intervals from; numpy must not complain."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usl.fit([1, 2, 3, 4], [10.0, 20.0, 30.0, 40.0])
