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

T_975: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
"""The 97.5 % quantile of Student's t with 1, 2, 3 ... degrees of freedom; with more, the last."""


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


def fit(in_flight: Sequence[float], throughput_per_s: Sequence[float]) -> Fit:
    """Return the law fitted to measured throughputs in calls per second, with 95 % intervals.

    N / X(N) is linear in (1, sigma, kappa) / gamma. The fit minimises the sum of its squared
    relative errors. The intervals are correct if the errors are normal and the law holds; they end
    at 0. Raises `ValueError` for fewer than four different numbers in flight, because three
    parameters fit three points exactly, and for values out of range.
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
    basis = np.stack([np.ones_like(n), n - 1.0, n * (n - 1.0)], axis=1) * (x / n)[:, None]
    p = _least_squares(basis)
    gamma, sigma, kappa = (
        Interval(float(value), max(0.0, float(value - half)), float(value + half))
        for value, half in zip(_parameters(p), _half_widths(basis, p), strict=True)
    )
    rms = _rms(law(n, gamma.value, sigma.value, kappa.value), x)
    return Fit(gamma, sigma, kappa, rms, tuple(_warnings(n, x, sigma, kappa, rms)))


def _parameters(p: Floats) -> Floats:
    """Return gamma, sigma and kappa from (1, sigma, kappa) / gamma."""
    return np.asarray(np.array([1.0, p[1], p[2]]) / p[0], np.float64)


def _least_squares(basis: Floats) -> Floats:
    """Return the p without a negative value that makes basis @ p closest to 1.

    Of the four fits in which both, one or none of sigma and kappa is held at 0, it is the best one.
    """
    found, least = np.zeros(3), math.inf
    for free in ([0], [0, 1], [0, 2], [0, 1, 2]):
        p = np.zeros(3)
        p[free] = np.linalg.lstsq(basis[:, free], np.ones(len(basis)))[0]
        error = float(np.sum((basis @ p - 1) ** 2)) if np.all(p >= 0) else math.inf
        if error < least:
            found, least = p, error
    return found


def _half_widths(basis: Floats, p: Floats) -> Floats:
    """Return the half widths of the intervals of gamma, sigma and kappa, from their slopes in p."""
    gamma, sigma, kappa = _parameters(p)
    slopes = gamma * np.array([[-gamma, 0, 0], [-sigma, 1, 0], [-kappa, 0, 1]])
    inverse = slopes @ np.linalg.inv(np.linalg.qr(basis, mode="r"))
    freedom = len(basis) - 3
    variance = float(np.sum((basis @ p - 1) ** 2)) / freedom
    t = T_975[min(freedom, len(T_975)) - 1]
    return np.asarray(t * np.sqrt(variance * np.sum(inverse**2, axis=1)), np.float64)


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
