"""Reasons to distrust the figures of a run, and quantiles of latency with their intervals.

Six checks: the load generator was the bottleneck, other programs took CPU time, the run was not in
a steady state, calls were cut off or still open at the end, a clock was set or the generator was
stopped, and the throughput varied too much.

Latency is measured from the due time of a call, so a call that was sent late counts as late
("coordinated omission"; G. Tene, "How NOT to Measure Latency", 2013).
"""

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore.measure.bottleneck import verdict
from kvstore.measure.run import Run
from kvstore.measure.summary import BATCHES, throughput_interval
from kvstore.protocol import CANCELLED, DEADLINE_EXCEEDED, NO_ANSWER, OK

WARM_UP: Final = 0.10
"""A warm-up counts if the mean residence time differs by this share without it."""
FEWEST_CALLS: Final = 10 * BATCHES
"""With fewer calls, the batches are too small to show a warm-up."""
OPEN: Final = 0.05
"""Calls that are still open when the sending ends matter from this share on."""
CUT_OFF: Final = 0.01
"""Calls that were cut off matter from this share on: the p99 is one of them."""
CLOCK_S: Final = 0.1
"""Seconds by which the clocks of the system and of the run may move apart."""
STOPPED_S: Final = 1.0
"""Seconds between two samples from which the generator counts as stopped."""
NOISE: Final = 0.10
"""Largest half width of the 95 % interval, as a share of the throughput."""

_CUT_OFF: Final = (CANCELLED, DEADLINE_EXCEEDED, NO_ANSWER)
_T_95: Final = 2.093  # Student's t with BATCHES - 1 = 19 degrees of freedom


class Finding(NamedTuple):
    """One reason to distrust a run."""

    name: str
    """"generator", "other programs", "warm-up", "censored", "clock" or "noise"."""
    text: str
    """What was found, and what to do."""


def findings(run: Run) -> list[Finding]:
    """Return every reason to distrust the figures of a run; empty if there is none."""
    judged = verdict(run)
    checks = {
        "generator": judged.reason if judged.generator_binds else "",
        "other programs": judged.crowd,
        "warm-up": _warm_up(run),
        "censored": _censored(run),
        "clock": _clock(run),
        "noise": _noise(run),
    }
    return [Finding(name, text) for name, text in checks.items() if text]


def _warm_up(run: Run) -> str:
    """Find the end of the warm-up with the rule MSER (K. P. White, Simulation 69, 1997).

    It is the number of leading batches without which the mean of the others is known best.
    """
    records = run.records[np.argsort(_started_s(run.records), kind="stable")]
    if len(records) < FEWEST_CALLS:
        return ""
    took_s = records["done_s"] - _started_s(records)
    means = np.array([part.mean() for part in np.array_split(took_s, BATCHES)])
    half = means[BATCHES // 2 :]
    rise = float(np.polyfit(np.arange(len(half)), half, 1)[0]) * len(half)
    if abs(rise) > 0.5 * half.mean() and abs(np.corrcoef(half, np.arange(len(half)))[0, 1]) > 0.9:
        return (
            f"the run reached no steady state: over its second half the latency {_way(rise)} by"
            f" {abs(rise) / half.mean():.0%} of its mean. The calls arrive faster than they are"
            " served, or the run is too short"
        )
    spread = [means[cut:].var() / (BATCHES - cut) for cut in range(BATCHES // 2 + 1)]
    cut = int(np.argmin(spread))
    rest = means[cut:]
    off = means.mean() / rest.mean() - 1
    certain = abs(means[:cut].mean() - rest.mean()) > 3 * rest.std(ddof=1) if cut else False
    if not (certain and abs(off) > WARM_UP):
        return ""
    ends_s = float(_started_s(records)[len(records) * cut // BATCHES])
    return (
        f"the warm-up took {ends_s:.2g} s of the run, {cut / BATCHES:.0%} of its calls; with it the"
        f" mean latency is {_ms(float(means.mean()))}, without it {_ms(float(rest.mean()))}: run"
        " longer"
    )


def _way(rise: float) -> str:
    return "rose" if rise > 0 else "fell"


def _censored(run: Run) -> str:
    records = run.records
    if not len(records):
        return "no call ended, so there is nothing to measure"
    last_sent_s = float(records["sent_s"].max())
    still_open = int(np.count_nonzero(records["done_s"] > last_sent_s))
    cut_off = int(np.count_nonzero(np.isin(records["status"], _CUT_OFF)))
    words = []
    if still_open > max(1, OPEN * len(records)):
        drain_s = run.window_s - last_sent_s
        words.append(
            f"{still_open:,} of {len(records):,} calls were still open when the sending ended, and"
            f" the run waited {drain_s:.2g} s for them with fewer and fewer in flight: run longer"
        )
    if cut_off > CUT_OFF * len(records):
        words.append(
            f"{cut_off:,} of {len(records):,} calls were cut off before their end, so their"
            " latencies are lower limits, and so are the high quantiles"
        )
    return "; ".join(words)


def _clock(run: Run) -> str:
    if abs(run.clock_step_s) > CLOCK_S:
        return (
            f"the clock of this machine was set by {run.clock_step_s:+.2f} s during the run, or the"
            " machine was suspended: repeat the run"
        )
    at_s = run.samples["elapsed_s"].to_numpy(dtype=float) if len(run.samples) else np.empty(0)
    gaps_s = np.diff(at_s)
    interval_s = float(run.settings.get("sample_interval_s", 0.1))
    if len(gaps_s) and gaps_s.max() > STOPPED_S + 3 * interval_s:
        place = int(gaps_s.argmax())
        return (
            f"the load generator was stopped for {gaps_s[place]:.1f} s at {at_s[place]:.1f} s of"
            " the run, by its host or by a signal: repeat the run"
        )
    return ""


def _noise(run: Run) -> str:
    high = throughput_interval(run).high_per_s
    middle = run.throughput_per_s
    if middle and (high - middle) > NOISE * middle:
        return (
            f"too noisy to tell: the throughput is known to {(high - middle) / middle:.0%} only."
            " Run longer, or close other programs"
        )
    return ""


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.3g} ms"


# ---- quantiles of latency -----------------------------------------------------------------------


class Quantile(NamedTuple):
    """A quantile of latency in seconds, and its 95 % confidence interval.

    Infinite where the quantile is among calls that were cut off: it is above their latency.
    """

    value_s: float
    low_s: float
    high_s: float


def latencies_s(run: Run) -> npt.NDArray[np.float64]:
    """Return the latency of every call in seconds, in order of due or sending time.

    It is measured from the due time, in a closed loop from sending. The latency of a call that was
    cut off (by its deadline, by the end of the run, or without a reply) is only known to be larger
    than the time that it had, so it is infinite here. Calls that the server refused are left out.
    """
    records = run.records
    records = records[(records["status"] == OK) | np.isin(records["status"], _CUT_OFF)]
    order = np.argsort(_started_s(records), kind="stable")
    taken_s = (records["done_s"] - _started_s(records))[order]
    return np.where(np.isin(records["status"], _CUT_OFF)[order], np.inf, taken_s)


def quantile(latency_s: npt.NDArray[np.float64], share: float) -> Quantile:
    """Return the quantile at `share` (0 to 1) of latencies in order of time, with its interval.

    The interval is between two order statistics. For independent calls, their ranks follow from the
    binomial distribution (W. J. Conover, "Practical Nonparametric Statistics", section 3.2). The
    latencies of neighbouring calls are not independent, so the variance of the share of calls above
    the quantile is also estimated from `BATCHES` batches, and the larger estimate is used. NaN
    without a call.
    """
    count = len(latency_s)
    if not count:
        return Quantile(math.nan, math.nan, math.nan)
    ordered = np.sort(latency_s)
    value_s = _at(ordered, share)
    error = math.sqrt(share * (1 - share) / count)
    if count >= FEWEST_CALLS:
        above = [float((part > value_s).mean()) for part in np.array_split(latency_s, BATCHES)]
        error = max(error, float(np.std(above, ddof=1)) / math.sqrt(BATCHES))
    half = _T_95 * error
    return Quantile(value_s, _at(ordered, share - half), _at(ordered, share + half))


def _at(ordered: npt.NDArray[np.float64], share: float) -> float:
    """Return the smallest latency with at least this share of the calls at or below it."""
    place = math.ceil(share * len(ordered)) - 1
    return float(ordered[min(max(place, 0), len(ordered) - 1)])


def _started_s(records: npt.NDArray[np.void]) -> npt.NDArray[np.float64]:
    due_s: npt.NDArray[np.float64] = records["due_s"]
    return np.where(np.isnan(due_s), records["sent_s"], due_s)
