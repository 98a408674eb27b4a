"""Estimates with 95 % intervals, and a level: the steady part of a closed loop, from end to end.

A window that begins or ends between two ends counts a part of a call as none or as a whole one.
With calls of 0.3 s and a window of 0.6 s, that is an error of a third. So the windows here go from
ends to ends. A round is as many ends as there are calls in flight. From the mean end of the first
round to the mean end of the last one, each caller has made the same number of calls on average. So
X * R = N holds there also if calls end in groups, as those of a pool of threads do.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore.load_test.bottleneck import Cores
from kvstore.measure.audit import in_flight_between
from kvstore.numbers import percent
from kvstore.protocol import OK, STATUSES

T_95 = (
    12.71,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
    2.23,
    2.20,
    2.18,
    2.16,
    2.14,
    2.13,
    2.12,
    2.11,
    2.10,
    2.09,
)
"""The 97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom."""
BATCHES = len(T_95) + 1
RARE: Final = 0.25
"""If the interval of the calls that ended OK is wider than this share of the figure, there are too
few for rounds of their own: a few that end together look like thousands per second."""
FEWEST: Final = 2
"""Rounds in which a level is measured, at least: their difference gives the interval."""
LITTLE: Final = 0.02
"""X * R and N may differ by this share. If they differ by more, the level is run for longer."""
UNSEEN: Final = Cores()


class Estimate(NamedTuple):
    """A figure and its 95 % interval; NaN where it is unknown."""

    value: float
    low: float
    high: float

    @classmethod
    def unknown(cls) -> "Estimate":
        """Return the estimate of a figure that was not seen."""
        return cls(math.nan, math.nan, math.nan)

    @classmethod
    def within(cls, value: float, relative: float) -> "Estimate":
        """Return the estimate with this relative half width."""
        return cls(value, max(0.0, value * (1 - relative)), value * (1 + relative))

    @property
    def relative(self) -> float:
        """Half the width of the interval, relative to the figure."""
        return (self.high - self.low) / 2 / self.value if self.value else math.nan

    def times(self, other: "Estimate") -> "Estimate":
        """Return the product of two figures that were measured independently."""
        return Estimate.within(self.value * other.value, math.hypot(self.relative, other.relative))


def mean_of(batches: Sequence[float] | npt.NDArray[np.float64]) -> Estimate:
    """Return the mean of at most `BATCHES` batch means, with its interval; one batch has none."""
    each = np.asarray(batches, np.float64)
    if not len(each):
        return Estimate.unknown()
    mean = float(each.mean())
    if len(each) == 1:
        return Estimate(mean, math.nan, math.nan)
    half = T_95[len(each) - 2] * float(each.std(ddof=1)) / math.sqrt(len(each))
    return Estimate(mean, mean - half, mean + half)


@dataclass(frozen=True, kw_only=True)
class Level:
    """The steady part of a closed loop with `in_flight` calls in flight, from end to end."""

    in_flight: int
    throughput: Estimate
    """X: calls that ended OK, per second."""
    residence: Estimate
    """R: mean seconds from sending a call to its end, of the calls that ended OK."""
    rounds: int = field(default=0, compare=False)
    """Rounds between the first and the last one; 0 if too few calls ended."""
    ended_per_s: float = field(default=math.nan, compare=False)
    """Calls that ended with any status, per second."""
    ended_residence_s: float = field(default=math.nan, compare=False)
    """Mean seconds from sending to the end of all these calls."""
    in_flight_mean: float = field(default=math.nan, compare=False)
    """L: time average of the calls in flight. It is below N where the generator needs time."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """Calls by status."""
    cores: Cores = UNSEEN
    lasted_s: float = field(default=math.nan, compare=False)

    @property
    def throughput_per_s(self) -> float:
        """X, in calls per second."""
        return self.throughput.value

    @property
    def residence_s(self) -> float:
        """R, in seconds."""
        return self.residence.value

    @property
    def little(self) -> float:
        """X * R / N over calls with any status: 1 where N calls are in flight all the time."""
        return self.ended_per_s * self.ended_residence_s / self.in_flight

    @property
    def steady(self) -> bool:
        """Whether X * R is the mean in flight within `LITTLE`, and enough calls ended."""
        product = self.ended_per_s * self.ended_residence_s
        return self.rounds >= FEWEST and abs(product / self.in_flight_mean - 1) <= LITTLE

    @property
    def ended(self) -> int:
        """Calls that ended in the window."""
        return sum(self.statuses.values())

    @property
    def failed(self) -> float:
        """Share of the calls that did not end OK; NaN if none ended."""
        return 1 - self.statuses.get("OK", 0) / self.ended if self.ended else math.nan

    @property
    def gap_s(self) -> float:
        """Z: the time that the generator needs between two calls of a caller, in seconds."""
        if not self.ended_per_s > 0:
            return 0.0
        return max(0.0, self.in_flight / self.ended_per_s - self.ended_residence_s)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name, for JSON."""
        return {
            "in_flight": self.in_flight,
            "throughput_per_s": self.throughput_per_s,
            "throughput_95": self.throughput[1:],
            "residence_s": self.residence_s,
            "residence_95": self.residence[1:],
            "ended_per_s": self.ended_per_s,
            "ended_residence_s": self.ended_residence_s,
            "in_flight_mean": self.in_flight_mean,
            "little": self.little,
            "steady": self.steady,
            "statuses": dict(self.statuses),
            "failed": self.failed,
            "cores": self.cores._asdict(),
            "lasted_s": self.lasted_s,
        }


def failures(statuses: Mapping[str, int], words: str = " ") -> str:
    """Return the failures among calls by status, most first, such as "96 % UNAVAILABLE".

    `words` stand between a share and its status.
    """
    ended = sum(statuses.values())
    failed = {name: count for name, count in statuses.items() if name != "OK" and count}
    return " and ".join(
        f"{percent(count / ended)}{words}{name}"
        for name, count in sorted(failed.items(), key=lambda each: -each[1])
    )


def steady_part(
    records: npt.NDArray[np.void], in_flight: int, from_s: float, until_s: float
) -> Level:
    """Return the figures of the calls that ended between two times, in seconds of the run."""
    order = np.argsort(records["done_s"], kind="stable")
    ended = records[order]
    ended = ended[(ended["done_s"] >= from_s) & (ended["done_s"] <= until_s)]
    rounds = _mean_ends_s(ended["done_s"], in_flight)
    count = max(0, len(rounds) - 1)
    if not count or rounds[-1] <= rounds[0]:
        nothing = Estimate.unknown()
        return Level(
            in_flight=in_flight, throughput=nothing, residence=nothing, statuses=_by_status(ended)
        )
    inner = ended[in_flight : (count + 1) * in_flight]
    span_s = float(rounds[-1] - rounds[0])
    (mean,) = in_flight_between(records["sent_s"], records["done_s"], rounds[[0, -1]])
    ok = ended[ended["status"] == OK]
    if len(ok) == len(ended):
        throughput, residence = _of_ok(ok, in_flight)
    else:
        throughput, residence = _of_ok(ok, _open_at_once(ok))
        spread_s = float(np.ptp(ok["done_s"])) if len(ok) else 0.0
        if spread_s < span_s / 2 or not throughput.relative <= RARE:  # also where it is unknown
            throughput, residence = _of_few_ok(inner, span_s)
    return Level(
        in_flight=in_flight,
        throughput=throughput,
        residence=residence,
        rounds=count,
        ended_per_s=count * in_flight / span_s,
        ended_residence_s=float((inner["done_s"] - inner["sent_s"]).mean()),
        in_flight_mean=float(mean),
        statuses=_by_status(inner),
    )


def _by_status(records: npt.NDArray[np.void]) -> dict[str, int]:
    return {STATUSES[code]: int(n) for code, n in enumerate(np.bincount(records["status"])) if n}


def _mean_ends_s(done_s: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    """Return the mean of the times in each round of `size` ends."""
    whole = len(done_s) // size * size
    means: npt.NDArray[np.float64] = done_s[:whole].reshape(-1, size).mean(axis=1)
    return means


def _open_at_once(ok: npt.NDArray[np.void]) -> int:
    """Return how many calls that end OK are open at once: others are refused meanwhile."""
    if len(ok) < 2:
        return 1
    span_s = float(ok["done_s"][-1] - ok["done_s"][0])
    took_s = float((ok["done_s"] - ok["sent_s"]).mean())
    return max(1, min(len(ok) // 2, round(len(ok) * took_s / (span_s + took_s))))


def _of_ok(ok: npt.NDArray[np.void], size: int) -> tuple[Estimate, Estimate]:
    """Return X and R of the calls that ended OK, in rounds of `size` calls."""
    rounds = _mean_ends_s(ok["done_s"], size)
    if len(rounds) < 2 or rounds[-1] <= rounds[0]:
        return Estimate.unknown(), Estimate.unknown()
    took_s = (ok["done_s"] - ok["sent_s"])[size : len(rounds) * size].reshape(-1, size).mean(axis=1)
    parts = min(BATCHES, len(took_s))
    edges = np.linspace(0, len(took_s), parts + 1).round().astype(int)
    per_round_s = np.diff(rounds[edges]) / np.diff(edges)
    spread = mean_of(per_round_s)
    per_s = size * (len(rounds) - 1) / float(rounds[-1] - rounds[0])
    means_s = [float(took_s[a:b].mean()) for a, b in itertools.pairwise(edges)]
    half = mean_of(means_s).relative
    return Estimate.within(per_s, spread.relative), Estimate.within(float(took_s.mean()), half)


def _of_few_ok(inner: npt.NDArray[np.void], span_s: float) -> tuple[Estimate, Estimate]:
    """Return X and R of the few calls that ended OK among all that ended in `span_s` seconds.

    They are counted. The interval of a count n is that of Poisson's distribution, about
    n ± 2 sqrt(n + 1).
    """
    ok = inner[inner["status"] == OK]
    most = len(ok) + 2 * math.sqrt(len(ok) + 1)
    least = max(0.0, len(ok) - 2 * math.sqrt(len(ok) + 1))
    throughput = Estimate(len(ok) / span_s, least / span_s, most / span_s)
    if not len(ok):
        return throughput, Estimate.unknown()
    return throughput, Estimate(float((ok["done_s"] - ok["sent_s"]).mean()), math.nan, math.nan)
