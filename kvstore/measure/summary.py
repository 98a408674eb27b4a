"""The figures of a run that people compare, and reasons to distrust them."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore.measure.audit import accounts
from kvstore.measure.cpu_cost import price_s, verdict
from kvstore.measure.run import Outcome, Run
from kvstore.protocol import CANCELLED, DEADLINE_EXCEEDED, NO_ANSWER, OK

if TYPE_CHECKING:  # see run.py
    import pandas as pd


BATCHES = 20
"""Batches of equal length into which a run is divided for its confidence interval."""

# The 97.5 % quantile of Student's t with BATCHES - 1 = 19 degrees of freedom.
_T_95 = 2.093


class Interval(NamedTuple):
    """A 95 % confidence interval of a rate, in operations per second."""

    low_per_s: float
    high_per_s: float


def throughput_interval(run: Run) -> Interval:
    """Return the 95 % confidence interval of the throughput, by the method of batch means.

    The window is divided into `BATCHES` batches of equal length, whose rates are treated as
    independent samples (A. M. Law, "Simulation Modeling and Analysis", chapter 9). The interval
    covers variation within this run. Two runs can differ by more.
    """
    ok = run.records[run.records["status"] == OK]
    if not len(ok) or not run.window_s:
        return Interval(0.0, 0.0)
    counts, _ = np.histogram(
        ok["done_s"], bins=BATCHES, range=(0.0, run.window_s), weights=ok["ok_operations"]
    )
    rates = counts / (run.window_s / BATCHES)
    half = _T_95 * float(np.std(rates, ddof=1)) / np.sqrt(BATCHES)
    return Interval(max(0.0, run.throughput_per_s - half), run.throughput_per_s + half)


def summary(*runs: Run) -> "pd.DataFrame":
    """Return the figures of the runs as text: one column for each run, one row for each figure."""
    import pandas as pd

    return pd.DataFrame(
        [_figures(run) for run in runs], index=[_title(run) for run in runs]
    ).T.fillna("")


def _title(run: Run) -> str:
    return f"{run.strategy} x{run.in_flight}" if run.in_flight else run.strategy


def _figures(run: Run) -> dict[str, str]:
    low, high = throughput_interval(run)
    ended = run.outcomes()
    figures = {
        "operations/s": f"{run.throughput_per_s:,.2f}",
        "95 % interval": f"{low:,.2f} to {high:,.2f}",
        **_generators(run),
        "real": f"{run.window_s:.2f} s",
        "client user + sys": _cpu(run.client_cpu.user_s, run.client_cpu.system_s),
        "server user + sys": _cpu(run.server_cpu.user_s, run.server_cpu.system_s),
        "mean residence": _ms_or_none(run.mean_residence_s),
        "p50": _ms_or_none(run.latency_s(0.50)),
        "p99": _ms_or_none(run.latency_s(0.99)),
        "calls sent": f"{run.issued:,}",
    }
    figures |= {f"ended {status}": f"{n:,}" for status, n in ended.items()}
    operations = accounts(run)
    figures["operations done / failed / unknown"] = (
        f"{operations.ok:,} / {operations.failed:,} / {operations.unknown:,}"
    )
    if len(run.samples):
        figures["client memory, most"] = _mb(run.samples["client_rss_bytes"].max())
        figures["server memory, most"] = _mb(run.samples["server_rss_bytes"].max())
    if run.outcome != Outcome.COMPLETE:
        figures["ended by"] = run.ended_by
    figures["verdict"] = str(verdict(run))
    return figures


def _generators(run: Run) -> dict[str, str]:
    """Return the number of generator processes if there were several."""
    count = int(run.settings.get("processes", 1))
    return {"generator processes": f"{count}"} if count > 1 else {}


def _cpu(user_s: float, system_s: float) -> str:
    return "not known" if np.isnan(user_s) else f"{user_s:.2f} s + {system_s:.2f} s"


def _ms_or_none(seconds: float) -> str:
    return "none" if np.isnan(seconds) else f"{1e3 * seconds:,.2f} ms"


def _mb(size_bytes: float) -> str:
    return "not known" if np.isnan(size_bytes) else f"{size_bytes / 1e6:,.0f} MB"


# ---- goodput --------------------------------------------------------------------------------


class Goodput(NamedTuple):
    """The calls of an open loop by their outcome.

    Rates are calls per second of the time in which calls were due. Every call sent is in time,
    late or refused.
    """

    offered_per_s: float
    """Arrival rate: calls that were due."""
    in_time_per_s: float
    """Goodput: calls answered OK within the deadline, measured from their due time."""
    late: int
    """Calls that ended with DEADLINE_EXCEEDED or were answered OK after the deadline."""
    refused: int
    """Calls that ended with any other status, most often RESOURCE_EXHAUSTED."""
    wasted: float
    """Operations that the server completed too late to count as goodput; NaN if it has not
    reported its operations."""


def goodput(run: Run, deadline_s: float | None = None) -> Goodput:
    """Return the goodput of an open loop.

    `deadline_s` is in seconds; without it the deadline of the run applies. Raises `ValueError`
    for a closed loop: its calls have no due times, because each caller waits for a reply before
    the next call.
    """
    records = run.records
    if np.isnan(records["due_s"]).any():
        raise ValueError(
            "goodput needs an open loop, got a closed loop without due times: pass due_times to"
            " load.run"
        )
    limit_s = float(run.settings["deadline_s"]) if deadline_s is None else deadline_s
    offered_s = run.settings.get("duration_s") or run.window_s or math.nan
    ok = records["status"] == OK
    in_time = ok & (records["done_s"] - records["due_s"] <= limit_s)
    out_of_time = records["status"] == DEADLINE_EXCEEDED
    late = int(np.count_nonzero(ok & ~in_time) + np.count_nonzero(out_of_time))
    counted = run.server.get("operations")
    done = math.nan if counted is None else _done(counted)
    return Goodput(
        offered_per_s=run.issued / offered_s,
        in_time_per_s=int(np.count_nonzero(in_time)) / offered_s,
        late=late,
        refused=run.issued - int(np.count_nonzero(in_time)) - late,
        wasted=done - int(np.count_nonzero(in_time)),
    )


def _done(counted: Mapping[str, int]) -> float:
    return sum(count for name, count in counted.items() if name.endswith("/OK"))


# ---- validity -----------------------------------------------------------------------------------
# Reasons to distrust the figures of a run, and quantiles of latency with their intervals.
#
# Six checks: the load generator was the bottleneck, other programs took CPU time, the run was not
# in a steady state, calls were cut off or still open at the end, a clock was set or the generator
# was stopped, and the throughput varied too much.
#
# Latency is measured from the due time of a call, so a call that was sent late counts as late
# ("coordinated omission"; G. Tene, "How NOT to Measure Latency", 2013).


WARM_UP: Final = 0.10
"""A warm-up counts if the mean residence time differs by this share without it."""
FEWEST_CALLS: Final = 10 * BATCHES
"""With fewer calls, the batches are too small to show a warm-up."""
MUCH: Final = 0.5
"""Cores. A generator that uses more than this, and more than the server, may limit the run."""
OWN: Final = 0.08
"""CPU time of the generator in a call matters from this share of the mean latency on. About half of
it is on threads that work beside the call."""
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


class Finding(NamedTuple):
    """One reason to distrust a run."""

    name: str
    """"generator", "other programs", "warm-up", "censored", "clock" or "noise"."""
    text: str
    """What was found, and what to do."""


def findings(run: Run) -> list[Finding]:
    """Return every reason to distrust the figures of a run; empty if there is none."""
    judged = verdict(run)
    limits = judged.reason if judged.generator_binds else ""
    checks = {
        "generator": limits or _takes_more(run) or _in_latency(run),
        "other programs": judged.crowd,
        "warm-up": _warm_up(run),
        "censored": _censored(run),
        "clock": _clock(run),
        "noise": _noise(run),
    }
    return [Finding(name, text) for name, text in checks.items() if text]


def _takes_more(run: Run) -> str:
    """Compare the CPU time of a call on both sides, if the generator of a closed loop works much.

    It may wait for a thread to wake up all the same, so its CPU time alone does not show that it
    was the bottleneck. An open loop sends at a given rate, whatever a call takes.
    """
    a_call = price_s(run)
    much = run.client_cpu.total_s > MUCH * run.window_s and not run.settings.get("paced")
    if not (much and a_call.client_s > a_call.server_s > 0):
        return ""
    return (
        f"a call takes {1e6 * a_call.client_s:,.3g} µs of CPU time in the load generator and"
        f" {1e6 * a_call.server_s:,.3g} in the server: with a faster generator, this server may"
        " answer more calls"
    )


def _in_latency(run: Run) -> str:
    """Compare the generator's CPU time of a call with the mean latency.

    Each latency includes it, and with few calls in flight the throughput depends on it as well.
    """
    client_s = price_s(run).client_s
    if not client_s > OWN * run.mean_residence_s:
        return ""
    return (
        f"a call takes {_ms(client_s)} of CPU time in the load generator, and the mean latency is"
        f" {_ms(run.mean_residence_s)}: with a faster generator, latencies would be lower"
    )


def _warm_up(run: Run) -> str:
    """Find the end of the warm-up with the rule MSER (K. P. White, Simulation 69, 1997).

    It is the number of leading batches without which the mean of the others is known best.
    """
    records = run.records[run.records["status"] == OK]  # a refused call takes no time
    records = records[np.argsort(_started_s(records), kind="stable")]
    if len(records) < FEWEST_CALLS:
        return ""
    took_s = records["done_s"] - _started_s(records)
    means = np.array([part.mean() for part in np.array_split(took_s, BATCHES)])
    half = means[BATCHES // 2 :]
    rise = float(np.polyfit(np.arange(len(half)), half, 1)[0]) * len(half)
    if abs(rise) > 0.5 * half.mean() and abs(np.corrcoef(half, np.arange(len(half)))[0, 1]) > 0.9:
        return (
            f"the run reached no steady state: over its second half the latency {_way(rise)}"
            f" from {1e3 * half[0]:,.3g} to {1e3 * half[-1]:,.3g} ms. The calls arrive"
            " faster than they are served, or the run is too short"
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
