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


def test_the_law_by_hand(subtests):
    for per_s, in_flight, parameters in [
        (100.0, 1, (100.0, 0.5, 0.1)),  # one call has no contention
        (1000.0, 10, (100.0, 0.0, 0.0)),
        (1000 / 5.5, 10, (100.0, 0.5, 0.0)),  # Amdahl: 1 + 0.5 * 9
        (1000 / 10.0, 10, (100.0, 0.0, 0.1)),  # 1 + 0.1 * 90
    ]:
        with subtests.test(per_s=per_s, in_flight=in_flight, parameters=parameters):
            assert per_s == pytest.approx(float(usl.law(np.float64(in_flight), *parameters)))


def test_what_was_put_in_comes_out(subtests):
    for parameters in [
        TRUE,
        (10.0, 0.2, 0.002),
        (48_000.0, 0.0005, 0.0009),
        (2_500.0, 0.5, 0.01),
        (1e6, 0.0, 0.01),
    ]:
        with subtests.test(parameters=parameters):
            fitted = usl.fit(SWEEP, made(parameters=parameters))

            assert parameters == pytest.approx(
                (fitted.gamma_per_s.value, fitted.sigma.value, fitted.kappa.value),
                rel=1e-3,
                abs=1e-6,
            )
            assert fitted.rms_error < 1e-4


def test_sigma_is_contention_and_kappa_is_coherency():
    """A lock held for half of each call: Amdahl's law, no fall. A cost for each pair: a fall."""
    contention = usl.fit(SWEEP, [1000 * n / (1 + 0.5 * (n - 1)) for n in SWEEP])
    coherency = usl.fit(SWEEP, [1000 * n / (1 + 0.01 * n * (n - 1)) for n in SWEEP])

    assert (0.5, 0.0) == pytest.approx((contention.sigma.value, contention.kappa.value), abs=1e-4)
    assert (0.0, 0.01) == pytest.approx((coherency.sigma.value, coherency.kappa.value), abs=1e-4)


def test_order_and_repeats_do_not_matter():
    measured = made(noise=0.02)
    once = usl.fit(SWEEP, measured)
    shuffled = usl.fit(SWEEP[::-1] * 2, measured[::-1] * 2)

    assert once.kappa.value == pytest.approx(shuffled.kappa.value, rel=1e-3)
    assert shuffled.kappa.high - shuffled.kappa.low < once.kappa.high - once.kappa.low


def test_the_peak_is_where_the_law_is_highest():
    fitted = usl.fit(SWEEP, made())
    curve = [fitted.throughput_per_s(n) for n in range(1, 65)]

    assert math.sqrt(980) == pytest.approx(fitted.peak, rel=1e-3)
    assert 31 == 1 + int(np.argmax(curve))


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say():
    """200 sweeps with 3 % of noise: 95 % of the intervals, give or take chance."""
    fits = [usl.fit(SWEEP, made(noise=0.03, seed=seed)) for seed in range(200)]
    for name, true in zip(("gamma_per_s", "sigma", "kappa"), TRUE, strict=True):
        intervals = [getattr(fitted, name) for fitted in fits]
        held = sum(interval.low <= true <= interval.high for interval in intervals)

        assert 180 <= held <= 199, name
        assert true == pytest.approx(np.mean([each.value for each in intervals]), rel=0.05)


def test_a_higher_level_allows_more():
    measured = made(noise=0.03)
    wide, narrow = (usl.fit(SWEEP, measured, level=level).sigma for level in (0.99, 0.5))

    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


def test_a_sweep_past_the_peak_needs_no_warning(subtests):
    for seed in range(20):
        with subtests.test(seed=seed):
            assert () == usl.fit(SWEEP, made(noise=0.02, seed=seed)).warnings


def test_a_sweep_that_ends_before_the_peak_is_warned_of(subtests):
    for seed in range(20):
        with subtests.test(seed=seed):
            fitted = usl.fit(SWEEP[:6], made(SWEEP[:6], noise=0.005, seed=seed))

            assert any("no point past the peak" in warning for warning in fitted.warnings)
            assert "warning: " in str(fitted)


def test_a_line_that_never_bends_has_no_peak():
    fitted = usl.fit(SWEEP, made(parameters=(100.0, 0.0, 0.0)))

    (warning,) = fitted.warnings
    assert "no point past the peak" in warning
    assert fitted.kappa.value < 1e-6


@pytest.mark.slow
def test_a_fall_within_the_noise_is_warned_of():
    """Flat from 8 on, and noise enough to see a fall in it or none."""
    seen = {
        warning.split(":")[0]
        for seed in range(40)
        for warning in usl.fit(
            SWEEP, made(parameters=(9.0, 0.9, 1e-5), noise=0.1, seed=seed)
        ).warnings
    }

    assert "kappa may be 0" in seen


def test_a_hard_cap_is_seen(subtests):
    """100 a second each, and a pool that serves 1,600: a min(), whatever the noise."""
    for seed in range(10):
        for noise in [0.0, 0.03]:
            with subtests.test(seed=seed, noise=noise):
                rng = np.random.default_rng(seed)
                measured = [
                    min(100 * n, 1_600) * (1 + noise * rng.standard_normal()) for n in SWEEP
                ]
                fitted = usl.fit(SWEEP, measured)

                assert "a hard cap fits better: min(" in fitted.warnings[0]


def test_the_cap_is_named():
    slope, cap, rms = usl.hard_cap(
        np.array([4.0, 1.0, 32.0, 16.0, 8.0]), np.array([40.0, 10.0, 120.0, 120.0, 80.0])
    )

    assert (10.0, 120.0) == pytest.approx((slope, cap))
    assert 0.0 == pytest.approx(rms, abs=1e-12)


def test_the_sentence_says_what_was_found():
    text = str(usl.fit(SWEEP, made(noise=0.01)))

    assert text.startswith("USL: gamma 9")
    assert " in flight, relative error 0." in text
    assert "warning" not in text


def test_nothing_is_left_to_a_warning_of_a_library():
    """Exact data leave no error to estimate the intervals from; numpy must not complain."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usl.fit([1, 2, 3, 4], [10.0, 20.0, 30.0, 40.0])


@pytest.mark.parametrize(
    ("freedom", "share", "quantile"),
    [(1, 0.975, 12.7062), (2, 0.95, 2.91999), (3, 0.995, 5.84091), (7, 0.975, 2.36462),
     (10, 0.75, 0.69981), (30, 0.975, 2.04227)],
)  # fmt: skip
def test_a_quantile_of_students_t_is_that_of_the_tables(freedom, share, quantile):
    """Abramowitz and Stegun, table 26.10."""
    assert quantile == pytest.approx(usl.students_t(freedom, share), abs=1e-5)


def test_data_that_cannot_be_fitted_are_refused(subtests):
    for named, in_flight, measured, level in [
        (
            "in_flight must have 4 different values or more, because three always fit",
            [1, 2, 4, 4],
            [1, 2, 3, 3],
            0.95,
        ),
        ("in_flight and throughput_per_s must have the same length", [1, 2, 4, 8], [1, 2, 3], 0.95),
        ("throughput_per_s above 0", [1, 2, 4, 8], [1, 2, 3, 0], 0.95),
        ("throughput_per_s above 0", [1, 2, 4, 8], [1, 2, 3, math.nan], 0.95),
        ("in_flight must be 1 or more", [0, 2, 4, 8], [1, 2, 3, 4], 0.95),
        ("level must be between 0 and 1, got 95", [1, 2, 4, 8], [1, 2, 3, 4], 95),
    ]:
        with (
            subtests.test(named=named, in_flight=in_flight, measured=measured, level=level),
            pytest.raises(ValueError, match=named),
        ):
            usl.fit(in_flight, measured, level=level)
