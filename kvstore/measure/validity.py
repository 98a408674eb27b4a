"""Reasons to distrust the figures of a run, and whether the load generator was the bottleneck.

A saturated load generator measures itself. Two signs show it. The first is its CPU time: CPython
runs one thread at a time, so a process has about one core. The second is its lateness in an open
loop: the time from when a call was due until it was sent. Without a sign the generator may still
be the bottleneck, because other programs can take CPU time that it needed. On why open and closed
loops differ: B. Schroeder, A. Wierman, M. Harchol-Balter, "Open Versus Closed: A Cautionary Tale"
(NSDI 2006).

Five more checks: other programs took CPU time, the run was not in a steady state, calls were cut
off or still open at the end, a clock was set or the generator was stopped, and the throughput
varied too much.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import psutil

from kvstore.measure.cpu_cost import cores_busy, cpu_per_call_s
from kvstore.measure.figures import BATCHES, CUT_OFF, FEWEST_CALLS, started_s, throughput_interval
from kvstore.measure.host import cores
from kvstore.measure.recorder import Times
from kvstore.measure.run import Outcome, Run
from kvstore.numbers import count, number, percent, seconds
from kvstore.protocol import OK

BUSY: Final = 0.85
"""A generator that uses this share of a core or more may limit the run."""
FULL_MACHINE_SHARE: Final = 0.95
"""If client and server use this share of all cores, they compete for CPU time."""
LATE_SHARE: Final = 0.25
"""A generator is late if it sends calls later than this share of their residence time."""
LATE_S: Final = 0.005
"""Seconds. Timers and the scheduler cause smaller delays on any machine."""
CROWDED_IDLE_CORES: Final = 0.5
"""With fewer idle cores than this, other programs may have taken CPU time from the run."""
STOLEN: Final = 0.05
"""Cores. A host that takes more than this from its virtual machine is busy."""
SHORT_RUN_S: Final = 0.2
"""Seconds. The system counts CPU time in steps of 10 ms, too coarse for shorter runs."""
WARM_UP_SHARE: Final = 0.10
"""A warm-up counts if the mean residence time differs by this share without it."""
BUSY_GENERATOR_CORES: Final = 0.5
"""Cores. A generator that uses more than this, and more than the server, may limit the run."""
TAKING_TURNS_CORES: Final = 0.7
"""Cores. Client and server that use this together take turns: calls wait for the processor."""
CLIENT_CPU_SHARE: Final = 0.08
"""CPU time of the generator in a call matters from this share of the mean latency on. About half of
it is on threads that work beside the call."""
OPEN_CALLS_SHARE: Final = 0.05
"""Calls that are still open when the sending ends matter from this share on, if they change the
throughput by as much."""
BURST_SENDING_SHARE: Final = 0.1
"""A run that sends for a smaller share of its time is a burst: its end is what it measures."""
CUT_OFF_SHARE: Final = 0.01
"""Calls that were cut off matter from this share on: the p99 is one of them."""
CLOCK_STEP_S: Final = 0.1
"""Seconds by which the clocks of the system and of the run may move apart."""
STOPPED_S: Final = 1.0
"""Seconds between two samples from which the generator counts as stopped."""
NOISE_SHARE: Final = 0.10
"""Largest half width of the 95 % interval, as a share of the throughput."""


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """Whether the load generator limited a run, and the figures behind the verdict."""

    client_cores: float
    """Cores that the serial part of each generator process used (`Cpu.serial_s`); NaN if it is
    not known."""
    generator_binds: bool
    """Whether the generator may have been the bottleneck."""
    reason: str
    """The reason in words: one clause, and at most one more."""
    crowd: str = ""
    """A warning if other programs, or the host of a virtual machine, may have taken CPU time from
    the run; else empty."""
    other_cores: float = math.nan
    """Cores that other programs on the client's machine used; NaN if it is not known, as in a run
    that is too short for the system's clock of CPU time."""

    def __str__(self) -> str:
        return self.reason


def verdict(run: Run) -> Verdict:
    """Judge the load generator of one run by its CPU time and its lateness."""
    window_s = run.window_s or math.nan
    has_cores = int(run.host.get("cores", cores()))
    client, server = run.client_cpu.total_s / window_s, run.server_cpu.total_s / window_s
    each = run.client_cpu.serial_s / window_s / int(run.settings.get("processes", 1))
    stolen, others = 0.0, math.nan
    if run.window_s >= SHORT_RUN_S:
        stolen = run.stolen_cores
        rest = run.machine_cpu_s / window_s - stolen - client - server
        others = float(np.clip(rest, 0.0, has_cores))
    binds, reason = _by_lateness(run)
    if not binds and run.window_s >= SHORT_RUN_S and not math.isnan(client):
        binds, reason = _by_cpu_time(each, server, (client + server) / has_cores)
    crowd = [_crowd(others, client, server), _stolen(stolen)]
    warning = next(filter(None, crowd[1:] if binds else crowd), "")
    return Verdict(
        client_cores=float(np.minimum(each, has_cores)),
        generator_binds=binds,
        reason=f"{reason}; but {warning}" if warning else reason,
        crowd="; ".join(filter(None, crowd)),
        other_cores=others,
    )


def _by_lateness(run: Run) -> tuple[bool, str]:
    delays_s = run.records["sent_s"] - run.records["due_s"]  # NaN in a closed loop
    late_s = float(np.quantile(delays_s, 0.99)) if len(delays_s) else math.nan
    if late_s > max(LATE_S, LATE_SHARE * run.mean_residence_s):
        return True, (
            f"the load generator was late: it sent 1 % of the calls more than {seconds(late_s)}"
            " after they were due"
        )
    return False, (
        "unknown whether the load generator was the bottleneck: the run was too short, or its CPU"
        " time is not known"
    )


def _by_cpu_time(client: float, server: float, machine: float) -> tuple[bool, str]:
    used = f"the load generator used {_cores(client)} of a core"
    if client >= BUSY:
        also = f", the server {_cores(server)}" if server >= BUSY else ""
        return True, f"{used}{also}: it may be the bottleneck"
    if machine >= FULL_MACHINE_SHARE:
        return True, (
            f"{used}: with the server it used {percent(min(machine, 1.0))} of this machine, so the"
            " two competed for CPU time"
        )
    return False, f"{used}: no sign that it was the bottleneck"


def _crowd(others: float, client: float, server: float) -> str:
    """Return a warning if other programs used so much CPU time that too little was left."""
    client, server = np.nan_to_num([client, server])
    has_cores = psutil.cpu_count() or 1
    if others >= CROWDED_IDLE_CORES and others + client + server > has_cores - CROWDED_IDLE_CORES:
        return f"other programs used {_cores(min(others, has_cores))} of {has_cores} cores"
    return ""


def _stolen(stolen: float) -> str:
    """Return a warning if the host gave cores of this virtual machine to others."""
    if stolen > STOLEN:
        return f"the host of this virtual machine took {_cores(stolen)} of a core"
    return ""


def _cores(used: float) -> str:
    return number(round(used, 2))


def machine_limit(run: Run) -> str:
    """Return why this machine may have been the limit of a run, in words; "" without a sign.

    Other programs took CPU time, the load generator was the bottleneck, or client and server took
    turns: each call needs both, one after the other. Calls that come back together then wait for a
    core and for threads to wake up, although the cores are idle for a part of the time.
    """
    judged = verdict(run)
    if judged.crowd or judged.generator_binds:
        return judged.crowd or judged.reason
    used = cores_busy(run)
    if run.window_s < SHORT_RUN_S or run.in_flight <= 1 or not used >= TAKING_TURNS_CORES:
        return ""
    each_s = cpu_per_call_s(run).together_s
    return (
        f"client and server used {_cores(used)} of {run.host.get('cores', cores())} cores and take"
        f" turns: {run.in_flight:,} calls that come back together need"
        f" {seconds(run.in_flight * each_s)} of CPU time"
    )


class Finding(NamedTuple):
    """One reason to distrust a run."""

    name: str
    """"generator", "other programs", "warm-up", "short", "censored", "clock", "noise" or
    "processor"."""
    text: str
    """What was found and what to do, in one or two short clauses."""
    details: str = ""
    """The figures behind it, for a reader who asks; may be empty."""


def findings(run: Run) -> list[Finding]:
    """Return every reason to distrust the figures of a run; empty if there is none."""
    judged = verdict(run)
    limits = (judged.reason, "") if judged.generator_binds else None
    checks = {
        "generator": limits or _takes_more(run) or _in_latency(run),
        "other programs": (judged.crowd, "") if judged.crowd else None,
        "warm-up": _warm_up(run),
        "short": _short(run),
        "censored": _censored(run),
        "clock": _clock(run),
        "noise": _noise(run),
    }
    if not (checks["generator"] or checks["other programs"]) and not run.settings.get("paced"):
        checks["processor"] = (machine_limit(run), "") if machine_limit(run) else None
    return [Finding(name, *result) for name, result in checks.items() if result]


_Found = tuple[str, str] | None
"""The text of a finding and its details."""


def _takes_more(run: Run) -> _Found:
    """Compare the CPU time of a call on both sides, if the generator of a closed loop works much.

    It may wait for a thread to wake up all the same, so its CPU time alone does not show that it
    was the bottleneck. An open loop sends at a given rate, whatever a call takes.
    """
    a_call = cpu_per_call_s(run)
    is_busy = run.client_cpu.total_s > BUSY_GENERATOR_CORES * run.window_s
    is_busy = is_busy and not run.settings.get("paced")
    if not (is_busy and run.window_s >= SHORT_RUN_S and a_call.client_s > a_call.server_s > 0):
        return None
    return (
        "a call takes more CPU time in the load generator than in the server: with a faster"
        " generator, this server may answer more calls",
        f"{seconds(a_call.client_s)} in the generator, {seconds(a_call.server_s)} in the server",
    )


def _in_latency(run: Run) -> _Found:
    """Compare the generator's CPU time of a call with the mean latency.

    Each latency includes it, and with few calls in flight the throughput depends on it as well.
    """
    client_s = cpu_per_call_s(run).client_s
    if run.window_s < SHORT_RUN_S or not client_s > CLIENT_CPU_SHARE * run.mean_residence_s:
        return None
    return (
        f"the load generator is {percent(client_s / run.mean_residence_s)} of the mean latency:"
        " with a faster generator, latencies would be lower",
        f"a call takes {seconds(client_s)} of CPU time in the generator, and its mean latency is"
        f" {seconds(run.mean_residence_s)}",
    )


def _warm_up(run: Run) -> _Found:
    """Find a run that is not in a steady state, or begins with a warm-up.

    Only calls answered OK show it: a refused call takes no time, and how long a call that was cut
    off would have taken is not known.
    """
    cut_off = np.isin(run.records["status"], CUT_OFF)
    some_cut_off = np.count_nonzero(cut_off) > CUT_OFF_SHARE * len(run.records)
    records = run.records[run.records["status"] == OK]
    records = records[np.argsort(started_s(records), kind="stable")]
    if len(records) < FEWEST_CALLS:
        return None
    took_s = records["done_s"] - started_s(records)
    means = np.array([part.mean() for part in np.array_split(took_s, BATCHES)])
    half = means[BATCHES // 2 :]
    rise = float(np.polyfit(np.arange(len(half)), half, 1)[0]) * len(half)
    if abs(rise) > 0.5 * half.mean() and abs(np.corrcoef(half, np.arange(len(half)))[0, 1]) > 0.9:
        if rise < 0 and some_cut_off:
            return None  # only short calls could end before the others were cut off
        return (
            f"no steady state: the latency {'rose' if rise > 0 else 'fell'} until the end of the"
            " run",
            f"over its second half from {seconds(half[0])} to {seconds(half[-1])}. The calls arrive"
            " faster than they are served, or the run is too short",
        )
    cut = warm_up_batches(means)
    rest = means[cut:]
    off = means.mean() / rest.mean() - 1
    certain = abs(means[:cut].mean() - rest.mean()) > 3 * rest.std(ddof=1) if cut else False
    if not (certain and abs(off) > WARM_UP_SHARE):
        return None
    ends_s = float(started_s(records)[len(records) * cut // BATCHES])
    return (
        f"the first {seconds(ends_s)} of the run were a warm-up, and are part of its means",
        f"with it, {percent(cut / BATCHES)} of the calls, the mean latency is"
        f" {seconds(means.mean())}, without it {seconds(rest.mean())}",
    )


def warm_up_batches(means: Times) -> int:
    """Return the number of leading batches that are a warm-up, by the rule MSER.

    Without them the mean of the others is known best (K. P. White, Simulation 69, 1997). At most
    half of the batches are cut.
    """
    spread = [means[cut:].var() / (len(means) - cut) for cut in range(len(means) // 2 + 1)]
    return int(np.argmin(spread))


def _short(run: Run) -> _Found:
    """Find a run that is mostly its end, while nothing was sent."""
    records = run.records
    if not len(records):
        return "no call ended, so there is nothing to measure", ""
    last_sent_s = float(records["sent_s"].max())
    cut_off = np.isin(records["status"], CUT_OFF)
    still_open = int(np.count_nonzero((records["done_s"] > last_sent_s) & ~cut_off))
    if still_open <= max(1, OPEN_CALLS_SHARE * len(records)) or not _end_matters(run, last_sent_s):
        return None
    return (
        f"the run is short: {percent(still_open / len(records))} of its calls ended after the last"
        " one was sent. A longer run has fewer of them",
        f"{still_open:,} of {count(len(records), 'call')} were still open when the sending ended,"
        f" and the run waited {seconds(run.window_s - last_sent_s)} for them with fewer and fewer"
        " in flight: run longer",
    )


def _end_matters(run: Run, last_sent_s: float) -> bool:
    """Return whether the throughput differs with and without the end, when nothing is sent.

    Not in a burst, whose end is what it measures. A queue is emptied as fast as it was served.
    """
    at_once = not run.in_flight and not run.settings.get("paced") and run.settings.get("calls")
    if at_once or last_sent_s < BURST_SENDING_SHARE * run.window_s:
        return False
    ended = np.count_nonzero(run.records["done_s"] <= last_sent_s)
    while_sending = ended / last_sent_s
    overall = len(run.records) / run.window_s
    return bool(abs(overall - while_sending) > OPEN_CALLS_SHARE * while_sending)


def _censored(run: Run) -> _Found:
    """Find calls whose latency is not known."""
    calls = len(run.records)
    cut_off = int(np.count_nonzero(np.isin(run.records["status"], CUT_OFF)))
    if cut_off <= CUT_OFF_SHARE * calls:
        return None
    return (
        f"{percent(cut_off / calls)} of the calls were cut off",
        f"{cut_off:,} of {count(calls, 'call')} were cut off before their end, so their latencies"
        " are lower limits, and so are the high quantiles",
    )


def _clock(run: Run) -> _Found:
    if abs(run.clock_step_s) > CLOCK_STEP_S:
        sign = "+" if run.clock_step_s > 0 else ""
        return (
            f"the clock of this machine was set by {sign}{seconds(run.clock_step_s)} during the"
            " run, or the machine was suspended: repeat the run",
            "",
        )
    at_s = run.sample_rows["elapsed_s"]
    gaps_s = np.diff(at_s)
    if run.outcome != Outcome.COMPLETE:
        # The run was ended: no samples are taken while its last calls end.
        gaps_s = gaps_s[at_s[1:] <= run.records["sent_s"].max(initial=0.0)]
    interval_s = float(run.settings.get("sample_interval_s", 0.1))
    if not len(gaps_s) or gaps_s.max() <= STOPPED_S + 3 * interval_s:
        return None
    return (
        f"the load generator was stopped for {seconds(gaps_s.max())}, by its host or by a signal:"
        " repeat the run",
        f"it stopped at {seconds(at_s[gaps_s.argmax()])} of the run",
    )


def _noise(run: Run) -> _Found:
    half = throughput_interval(run).high_per_s - run.throughput_per_s
    if not run.throughput_per_s or half <= NOISE_SHARE * run.throughput_per_s:
        return None
    return (
        f"too noisy to tell: the throughput is known to ± {percent(half / run.throughput_per_s)}."
        " Run longer, or close other programs",
        "",
    )
