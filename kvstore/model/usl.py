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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

Floats = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """A fitted number with its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


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
        peak = f"peak at {self.peak:,.3g}" if math.isfinite(self.peak) else "no peak"
        text = (
            f"USL: gamma {self.gamma_per_s} calls/s, sigma {self.sigma}, kappa {self.kappa};"
            f" {peak} in flight, relative error {self.rms_error:.1%}"
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
    # Fitted in units of the highest throughput: gamma may be 1e6 and kappa 1e-5.
    scale = float(x.max())
    first = int(n.argmin())
    found, covariance = optimize.curve_fit(
        law,
        n,
        x / scale,
        p0=(float(x[first] / n[first]) / scale, 0.01, 1e-4),
        sigma=x / scale,  # the weights of scipy, not contention: errors are relative
        bounds=(0.0, np.inf),
        x_scale="jac",
        max_nfev=10_000,
    )
    # stdtrit is the quantile of Student's t. scipy.stats has it too, but takes 0.5 s to import.
    reach = special.stdtrit(len(n) - 3, (1 + level) / 2) * np.sqrt(np.diag(covariance))
    gamma, sigma, kappa = (
        Interval(
            float(value) * unit, max(0.0, float(value - half)) * unit, float(value + half) * unit
        )
        for value, half, unit in zip(found, reach, (scale, 1.0, 1.0), strict=True)
    )
    rms = _rms(law(n, gamma.value, sigma.value, kappa.value), x)
    return Fit(gamma, sigma, kappa, rms, tuple(_warnings(n, x, sigma, kappa, rms)))


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
            f"a hard cap fits better: min({slope:,.4g} N, {cap:,.4g}) has a relative error of"
            f" {cap_rms:.1%}, this law {rms:.1%}. Look for the bottleneck station instead"
        )
    peak = _peak(sigma.value, kappa.value)
    if not peak < most:
        where = f"it would be at {peak:,.3g}" if math.isfinite(peak) else "there is none"
        warnings.append(
            f"no point past the peak ({where}, the data end at {most:,.3g}): kappa is uncertain,"
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
