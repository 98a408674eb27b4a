"""The universal scalability law (USL): throughput reduced by contention and coherency.

    X(N) = gamma N / (1 + sigma (N - 1) + kappa N (N - 1))

Source: N. J. Gunther, "Guerrilla Capacity Planning" (2007), where sigma is alpha and kappa is
beta. gamma is the throughput with N = 1, in calls per second. sigma is contention: the share of the
work that is serialised, because calls queue for a shared resource. kappa is coherency: the cost
for each pair of calls of keeping shared data consistent. With kappa > 0 throughput has a maximum
and then falls.

The law describes measurements and does not explain them. Do not use it if a station has a hard
limit: that is min(gamma N, limit), which the law does not describe.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore.numbers import number, percent, with_interval

Floats = npt.NDArray[np.float64]

MOST_STEPS: Final = 50
"""Steps of the fit; it takes about five."""


class Interval(NamedTuple):
    """A fitted number with its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return with_interval(self.value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Fit:
    """The law, fitted to measured throughputs."""

    gamma_per_s: Interval
    """Throughput with one call in flight, in calls per second."""
    sigma: Interval
    """Contention."""
    kappa: Interval
    """Coherency."""
    rms_error: float
    """Root mean square of the relative errors."""
    warnings: tuple[str, ...]
    """Reasons not to use the fit, or to use it with care; empty if there are none."""

    def throughput_per_s(self, in_flight: float) -> float:
        """Return X(N) in calls per second for N = `in_flight`."""
        return float(
            law(np.float64(in_flight), self.gamma_per_s.value, self.sigma.value, self.kappa.value)
        )

    @property
    def peak(self) -> float:
        """The N with the highest throughput: sqrt((1 - sigma) / kappa), or infinite for kappa 0."""
        return _peak(self.sigma.value, self.kappa.value)

    def __str__(self) -> str:
        peak = f"peak at {number(self.peak)}" if math.isfinite(self.peak) else "no peak"
        text = (
            f"USL: gamma {self.gamma_per_s} calls/s, sigma {self.sigma}, kappa {self.kappa};"
            f" {peak} in flight, relative error {percent(self.rms_error)}"
        )
        return "\n".join([text, *(f"warning: {warning}" for warning in self.warnings)])


def law(in_flight: Floats | np.float64, gamma_per_s: float, sigma: float, kappa: float) -> Floats:
    """Return X(N) in calls per second for one or several N = `in_flight`."""
    others = in_flight - 1.0
    return np.asarray(gamma_per_s * in_flight / (1.0 + sigma * others + kappa * in_flight * others))


def fit(
    in_flight: Sequence[float], throughput_per_s: Sequence[float], *, level: float = 0.95
) -> Fit:
    """Return the law fitted to measured throughputs in calls per second, with intervals.

    The fit minimises the sum of the squared relative errors. `level` is the confidence level of
    the intervals; it is correct if the errors are normal and the law holds. Intervals end at 0.
    Raises `ValueError` for fewer than four different numbers in flight, because three parameters
    fit three points exactly, and for values out of range.
    """
    n, x = np.asarray(in_flight, np.float64), np.asarray(throughput_per_s, np.float64)
    if n.shape != x.shape or n.ndim != 1:
        raise ValueError(
            f"in_flight and throughput_per_s must have the same length, got {n.shape} and {x.shape}"
        )
    if not (np.all(n >= 1) and np.all(np.isfinite(n)) and np.all(x > 0) and np.all(np.isfinite(x))):
        raise ValueError(
            "in_flight must be 1 or more and throughput_per_s above 0, all finite, got"
            f" {n.tolist()} and {x.tolist()}"
        )
    if len(np.unique(n)) < 4:
        raise ValueError(
            "in_flight must have 4 different values or more, because three always fit, got"
            f" {sorted(set(n.tolist()))}"
        )
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    found = _least_squares(n, x)
    reach = students_t(len(n) - 3, (1 + level) / 2) * _standard_errors(n, x, found)
    gamma, sigma, kappa = (
        Interval(float(value), max(0.0, float(value - half)), float(value + half))
        for value, half in zip(found, reach, strict=True)
    )
    rms = _rms(law(n, gamma.value, sigma.value, kappa.value), x)
    return Fit(gamma, sigma, kappa, rms, tuple(_warnings(n, x, sigma, kappa, rms)))


def _least_squares(n: Floats, x: Floats) -> Floats:
    """Return gamma, sigma and kappa with the least sum of squared relative errors.

    n / X(N) is linear in p = (1, sigma, kappa) / gamma, so the Gauss-Newton method begins at the
    solution of the linear problem. sigma and kappa are 0 or more: of the four fits in which both,
    one or none of them is held at 0, the best one without a negative value is taken.
    """
    basis = np.stack([np.ones_like(n), n - 1.0, n * (n - 1.0)], axis=1) * (x / n)[:, None]
    found, least = np.array([1.0, 0.0, 0.0]), math.inf
    for free in ([0], [0, 1], [0, 2], [0, 1, 2]):
        p = np.zeros(3)
        p[free] = _gauss_newton(basis[:, free])
        error = float(np.sum((1 / (basis @ p) - 1) ** 2)) if np.all(p >= 0) else math.inf
        if error < least:
            found, least = p, error
    return np.asarray(np.array([1.0, found[1], found[2]]) / found[0], np.float64)


def _gauss_newton(basis: Floats) -> Floats:
    """Return the p with the least sum of squares of 1 / (basis @ p) - 1."""
    ones = np.ones(len(basis))
    p: Floats = np.asarray(np.linalg.lstsq(basis, ones)[0], np.float64)
    for _ in range(MOST_STEPS):
        fitted = basis @ p
        residual = 1 / fitted - 1
        step = np.linalg.lstsq(basis / fitted[:, None] ** 2, residual)[0]
        before = float(residual @ residual)
        while np.any(basis @ (p + step) <= 0) or _squares(basis @ (p + step)) > before:
            step = step / 2
            if np.all(np.abs(step) <= 1e-15 * np.abs(p)):
                return p
        p = p + step
        if np.all(np.abs(step) <= 1e-12 * np.abs(p)):
            break
    return p


def _squares(fitted: Floats) -> float:
    return float(np.sum((1 / fitted - 1) ** 2))


def _standard_errors(n: Floats, x: Floats, found: Floats) -> Floats:
    """Return the standard errors of gamma, sigma and kappa, from the slopes of the law there."""
    fitted = law(n, *found)
    residual = fitted / x - 1
    drop = fitted / (found[0] * n)
    slopes = np.stack([1 / found[0] + 0 * n, -(n - 1) * drop, -n * (n - 1) * drop], axis=1)
    r = np.linalg.qr(slopes * (fitted / x)[:, None], mode="r")
    inverse = np.linalg.inv(r)
    variance = float(residual @ residual) / (len(n) - 3)
    return np.asarray(np.sqrt(variance * np.sum(inverse**2, axis=1)), np.float64)


def students_t(freedom: int, share: float) -> float:
    """Return the quantile at `share` (0.5 to 1) of Student's t with whole degrees of freedom.

    Source: M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4,
    inverted by bisection over the angle atan(t / sqrt(freedom)).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _within(freedom, angle) < 2 * share - 1 else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _within(freedom: int, angle: float) -> float:
    """Return the probability that |t| is below sqrt(freedom) * tan(angle)."""
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(1 + odd, freedom - 2, 2):
        term *= math.cos(angle) ** 2 * k / (k + 1)
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def hard_cap(in_flight: Floats, throughput_per_s: Floats) -> tuple[float, float, float]:
    """Return a, the cap and the root mean square of the relative errors of min(a N, cap).

    It is the best fit of this form. If the cap limits fewer than two of the numbers in flight,
    the data show no cap, and the error is infinite.
    """
    order = np.argsort(in_flight, kind="stable")
    n, x = in_flight[order], throughput_per_s[order]
    found = (math.nan, math.nan, math.inf)
    for split in range(1, len(n)):
        # Least squares of relative errors, for the rising and the flat points separately.
        rising, flat = n[:split] / x[:split], 1 / x[split:]
        slope = float(rising.sum() / (rising**2).sum())
        cap = float(flat.sum() / (flat**2).sum())
        rms = _rms(np.minimum(slope * n, cap), x)
        if rms < found[2] and len(np.unique(n[slope * n > cap])) >= 2:
            found = (slope, cap, rms)
    return found


def _warnings(n: Floats, x: Floats, sigma: Interval, kappa: Interval, rms: float) -> list[str]:
    most = float(n.max())
    warnings = []
    slope, cap, cap_rms = hard_cap(n, x)
    if cap_rms < rms:
        warnings.append(
            f"a hard cap fits better: min({number(slope)} N, {number(cap)}) has a relative error"
            f" of {percent(cap_rms)}, this law {percent(rms)}. Look for the bottleneck station"
            " instead"
        )
    peak = _peak(sigma.value, kappa.value)
    if not peak < most:
        where = f"it would be at {number(peak)}" if math.isfinite(peak) else "there is none"
        warnings.append(
            f"no point past the peak ({where}, the data end at {number(most)}): kappa is uncertain,"
            " measure with more calls in flight"
        )
    elif kappa.low == 0.0:
        warnings.append("kappa may be 0: the decline past the peak is within the noise")
    return warnings


def _peak(sigma: float, kappa: float) -> float:
    if sigma >= 1.0:
        return 1.0
    return math.sqrt((1.0 - sigma) / kappa) if kappa > 0 else math.inf


def _rms(fitted: Floats, measured: Floats) -> float:
    return math.sqrt(float(np.mean((fitted / measured - 1.0) ** 2)))
