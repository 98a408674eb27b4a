"""The universal scalability law: a line bent by waiting for turns and by keeping in step.

X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)): N. J. Gunther, "Guerrilla Capacity
Planning" (2007). Gamma is the throughput of one, alpha the share that is done in turns,
beta what every pair costs. It describes what was measured and knows no cause; it may not
be used where a hard limit cuts the line off, because that is a min() and not a bend.
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
    """A fitted number, and what the data allow it to be."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True, slots=True)
class Fit:
    """The law, fitted to throughputs that were measured."""

    gamma_per_s: Interval
    alpha: Interval
    beta: Interval
    rms_error: float
    """How far the points are from the line: root mean square, as a share of each point."""
    warnings: tuple[str, ...]
    """Why it should not be used, or only with care; empty where nothing speaks against it."""

    def throughput_per_s(self, in_flight: float) -> float:
        """Calls per second that the law says for so many in flight."""
        return float(
            law(np.float64(in_flight), self.gamma_per_s.value, self.alpha.value, self.beta.value)
        )

    @property
    def peak(self) -> float:
        """Calls in flight at which throughput is highest; infinite if it never falls."""
        return _peak(self.alpha.value, self.beta.value)

    def __str__(self) -> str:
        peak = f"peak at {self.peak:,.3g}" if math.isfinite(self.peak) else "no peak"
        text = (
            f"USL: gamma {self.gamma_per_s} calls/s, alpha {self.alpha}, beta {self.beta};"
            f" {peak} in flight, points {self.rms_error:.1%} off"
        )
        return "\n".join([text, *(f"warning: {warning}" for warning in self.warnings)])


def law(in_flight: Floats | np.float64, gamma_per_s: float, alpha: float, beta: float) -> Floats:
    """X(N) of the law, for one number in flight or many."""
    crowd = in_flight - 1.0
    return np.asarray(gamma_per_s * in_flight / (1.0 + alpha * crowd + beta * in_flight * crowd))


def fit(
    in_flight: Sequence[float], throughput_per_s: Sequence[float], *, level: float = 0.95
) -> Fit:
    """The law that comes closest, each point weighed as a share of itself, with intervals.

    The intervals hold the true number with a chance of `level`, as far as the errors are
    normal and the law is true; they are cut off at 0. Raises `ValueError` for less than
    four different numbers in flight, since three would always fit.
    """
    n, x = np.asarray(in_flight, np.float64), np.asarray(throughput_per_s, np.float64)
    if n.shape != x.shape or n.ndim != 1:
        raise ValueError(f"as many throughputs as numbers in flight, got {x.shape} and {n.shape}")
    if not (np.all(n >= 1) and np.all(np.isfinite(n)) and np.all(x > 0) and np.all(np.isfinite(x))):
        raise ValueError("in flight must be 1 or more and throughputs above 0, all of them finite")
    if len(np.unique(n)) < 4:
        raise ValueError(
            f"three numbers always fit: 4 or more different numbers in flight are"
            f" needed, got {sorted(set(n.tolist()))}"
        )
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    # Fitted in units of the best throughput, so that gamma is no million beside a beta of 1e-5.
    scale = float(x.max())
    first = int(n.argmin())
    found, covariance = optimize.curve_fit(
        law,
        n,
        x / scale,
        p0=(float(x[first] / n[first]) / scale, 0.01, 1e-4),
        sigma=x / scale,  # a throughput is wrong by a share of itself
        bounds=(0.0, np.inf),
        x_scale="jac",
        max_nfev=10_000,
    )
    # stdtrit is Student's t, without the half a second that scipy.stats takes to load.
    reach = special.stdtrit(len(n) - 3, (1 + level) / 2) * np.sqrt(np.diag(covariance))
    gamma, alpha, beta = (
        Interval(
            float(value) * unit, max(0.0, float(value - half)) * unit, float(value + half) * unit
        )
        for value, half, unit in zip(found, reach, (scale, 1.0, 1.0), strict=True)
    )
    rms = _rms(law(n, gamma.value, alpha.value, beta.value), x)
    return Fit(gamma, alpha, beta, rms, tuple(_warnings(n, x, alpha, beta, rms)))


def hard_cap(in_flight: Floats, throughput_per_s: Floats) -> tuple[float, float, float]:
    """The closest min(a N, cap): a, the cap, and the root mean square error of it.

    A cap that holds back fewer than two numbers in flight is none: the error is infinite then.
    """
    order = np.argsort(in_flight, kind="stable")
    n, x = in_flight[order], throughput_per_s[order]
    found = (math.nan, math.nan, math.inf)
    for split in range(1, len(n)):
        # Least squares of relative errors, the rising points and the flat ones on their own.
        rising, flat = n[:split] / x[:split], 1 / x[split:]
        slope = float(rising.sum() / (rising**2).sum())
        cap = float(flat.sum() / (flat**2).sum())
        rms = _rms(np.minimum(slope * n, cap), x)
        if rms < found[2] and len(np.unique(n[slope * n > cap])) >= 2:
            found = (slope, cap, rms)
    return found


def _warnings(n: Floats, x: Floats, alpha: Interval, beta: Interval, rms: float) -> list[str]:
    most = float(n.max())
    warnings = []
    slope, cap, cap_rms = hard_cap(n, x)
    if cap_rms < rms:
        warnings.append(
            f"a hard cap fits better: min({slope:,.4g} N, {cap:,.4g}) is {cap_rms:.1%} off where"
            f" this law is {rms:.1%} off. Look for the station that binds instead"
        )
    peak = _peak(alpha.value, beta.value)
    if not peak < most:
        where = f"it would be at {peak:,.3g}" if math.isfinite(peak) else "it shows none"
        warnings.append(
            f"no point past the peak ({where}, the data end at {most:,.3g}): beta is a guess,"
            " measure with more in flight"
        )
    elif beta.low == 0.0:
        warnings.append("beta may as well be 0: the fall past the peak is within the noise")
    return warnings


def _peak(alpha: float, beta: float) -> float:
    if alpha >= 1.0:
        return 1.0
    return math.sqrt((1.0 - alpha) / beta) if beta > 0 else math.inf


def _rms(fitted: Floats, measured: Floats) -> float:
    return math.sqrt(float(np.mean((fitted / measured - 1.0) ** 2)))
