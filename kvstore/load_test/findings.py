"""What a run of a load test shows besides its figures: failures, limits that were reached, outages.

The calls of a run are in three populations. Those that ended OK have the latency that users see.
Those that failed have another one, often a much shorter one. Those that were still open when the
run ended were cut off by the generator, and are no failures of the service.
"""

import itertools
import math
from collections import Counter
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore.client.plan import RunOptions
from kvstore.load_test.estimates import failures
from kvstore.load_test.levels import Calibration
from kvstore.measure import Finding, Quantile, Run, quantile
from kvstore.measure import findings as findings_of_run
from kvstore.measure.audit import in_flight_steps
from kvstore.measure.figures import started_s
from kvstore.numbers import percent, rate, seconds
from kvstore.protocol import CANCELLED, NO_ANSWER, OK, STATUSES, UNAVAILABLE

SHARES: Final = (0.5, 0.9, 0.99, 0.999)
FAILED: Final = 0.001
"""Failures matter from this share of the calls on."""
ENDED_WITH: Final = " of the calls ended with "
ABOVE: Final = 1.05
"""A run whose throughput is this factor above the ceiling shows that the ceiling is higher."""
AWAY_S: Final = 0.1
"""Seconds without a call that ended OK, while calls failed, from which the service was away."""

MOST_COUNTED: Final = 1_000_000
"""Calls that were due, at most, that are counted one by one."""
STILL_S, STILL = 1.0, 10.0
"""Seconds, and times as long as a call, from which a service stood still if no call ended."""


class Population(NamedTuple):
    """Calls that ended in one way, and their latency."""

    name: str
    """"OK", "failed" or "cut off"."""
    calls: int
    statuses: dict[str, int]
    latency: dict[str, Quantile]
    """Quantiles in seconds by name, such as "p99"; empty for calls that were cut off."""
    mean_s: float


def populations(run: Run) -> list[Population]:
    """Return the calls that ended OK, those that failed, and those cut off at the end, if any."""
    records = run.records
    ok, cut = records["status"] == OK, _cut_at_end(run)
    chosen = {"OK": ok, "failed": ~ok & ~cut, "cut off": cut}
    return [
        _population(run, name, records[which])
        for name, which in chosen.items()
        if which.any() or name == "OK"
    ]


def _population(run: Run, name: str, records: npt.NDArray[np.void]) -> Population:
    counts = np.bincount(records["status"], minlength=len(STATUSES))
    start_s = started_s(records)
    order = np.argsort(start_s, kind="stable")
    taken_s = (records["done_s"] - start_s)[order]
    return Population(
        name,
        len(records),
        {STATUSES[code]: int(n) for code, n in enumerate(counts) if n},
        {} if name == "cut off" else {f"p{100 * q:g}": quantile(taken_s, q) for q in SHARES},
        float(taken_s.mean()) if len(taken_s) else math.nan,
    )


def _cut_at_end(run: Run) -> npt.NDArray[np.bool_]:
    """Return which calls the generator cut off, because they were open when the run ended."""
    ends_s, drain_s = run.settings.get("duration_s"), run.settings.get("drain_s")
    records = run.records
    if ends_s is None or drain_s is None:
        return np.zeros(len(records), bool)
    cut = np.isin(records["status"], (CANCELLED, NO_ANSWER))
    return np.asarray(cut & (records["done_s"] >= float(ends_s) + float(drain_s)), bool)


class Away(NamedTuple):
    """A time in which calls only failed, because the service was not there."""

    from_s: float
    """The last call that ended otherwise, in seconds of the run."""
    until_s: float
    """The next call that ended otherwise; infinite if there was none."""
    failed: int
    """Calls that failed meanwhile."""

    def __str__(self) -> str:
        if math.isinf(self.until_s):
            return f"from {self.from_s:.1f} s to the end ({self.failed:,} calls failed)"
        return (
            f"from {self.from_s:.1f} to {self.until_s:.1f} s, for {self.until_s - self.from_s:.1f}"
            f" s ({self.failed:,} calls failed)"
        )


def outages(run: Run) -> list[Away]:
    """Return when the service was away: calls ended as UNAVAILABLE only, one after the other."""
    records = run.records[~_cut_at_end(run)]
    gone = np.isin(records["status"], (UNAVAILABLE, NO_ANSWER))
    done_s = records["done_s"]
    here = np.flatnonzero(~gone)
    edges = np.concatenate([[-1], here, [len(records)]])
    times = []
    for before, after in itertools.pairwise(edges):
        if after - before < 2:
            continue
        from_s = float(done_s[before]) if before >= 0 else 0.0
        until_s = float(done_s[after]) if after < len(records) else math.inf
        if min(until_s, float(done_s[after - 1])) - from_s >= AWAY_S or after - before > 20:
            times.append(Away(from_s, until_s, int(after - before - 1)))
    return times


def unsent(run: Run) -> int:
    """Return the calls of an open loop that were due and not sent, because the run ended.

    Above `MOST_COUNTED` of them, it is the number that the rate makes on average.
    """
    if not run.settings.get("paced"):
        return 0
    names = ("rate_per_s", "arrivals", "duration_s", "calls")
    settings = {name: run.settings[name] for name in names if run.settings.get(name)}
    rates = tuple(map(tuple, run.settings.get("rates") or ()))
    options = RunOptions(**settings, rates=rates, seed=run.settings.get("seed"))
    if not options.paced:
        return 0
    most, ends_s = options.calls or math.inf, options.sending_s
    due = sum(per_s * lasts_s for per_s, lasts_s in rates)
    due = min(due or float(options.rate_per_s or 0) * ends_s, most)
    if due <= MOST_COUNTED:
        in_time = itertools.takewhile(lambda due_s: due_s < ends_s, options.due_times() or ())
        due = min(most, sum(1 for _ in itertools.islice(in_time, MOST_COUNTED * 2)))
    return int(max(0, round(due - run.issued)))


def findings(run: Run, calibration: Calibration | None = None) -> list[Finding]:
    """Return what the run shows: first failures and limits, then reasons to distrust the figures.

    The names of the first ones are "failures", "away", "stood still", "limit in flight", "cut off"
    and "ceiling"; the others are those of `measure.findings`.
    """
    full = _limit_reached(run)
    others = findings_of_run(run)
    stopped = any(each.name == "clock" for each in others)
    texts = {
        "failures": _failures(run, calibration),
        "away": _away(run),
        "stood still": "" if stopped else _stood_still(run),
        "limit in flight": full,
        "cut off": _open_at_end(run),
        "ceiling": _above(run, calibration),
    }
    others = [
        each
        for each in others
        if not (each.name == "generator" and (full or stopped) and "late" in each.text)
        and not (each.name in ("short", "censored") and texts["cut off"])
    ]
    return [Finding(name, text) for name, text in texts.items() if text] + others


def findings_of_calibration(calibration: Calibration) -> list[Finding]:
    """Return what a calibration shows besides its figures."""
    named = []
    first = calibration.fails_from
    if first is not None:
        worst = max(
            (each for each in calibration.levels if each.ended), key=lambda each: each.failed
        )
        named.append(
            Finding(
                "failures",
                f"{failures(worst.statuses, ENDED_WITH)} with {worst.in_flight} in flight;"
                f" {calibration.failures_begin}",
            )
        )
    elif share := calibration.fails_always:
        statuses = sum((Counter(each.statuses) for each in calibration.levels), Counter())
        named.append(
            Finding(
                "failures",
                f"{failures(statuses, ENDED_WITH)}, with few calls in flight and with many:"
                f" {percent(share)} may be usual for this service. Throughput counts the others",
            )
        )
    if not calibration.saturated:
        named.append(
            Finding(
                "ceiling",
                f"the throughput still grew at {calibration.levels[-1].in_flight} in flight, so the"
                " ceiling is a lower limit, and N* too",
            )
        )
    if unsteady := [str(each.in_flight) for each in calibration.levels if not each.steady]:
        named.append(
            Finding(
                "steady",
                f"with {', '.join(unsteady)} in flight, X·R differs from N by more than 2 %, or too"
                " few calls ended: repeat this with longer levels",
            )
        )
    return named


def _failures(run: Run, calibration: Calibration | None) -> str:
    failed = [each for each in populations(run) if each.name == "failed"]
    ended = len(run.records) - int(_cut_at_end(run).sum())
    if not failed or failed[0].calls < FAILED * ended:
        return ""
    text = failures({**failed[0].statuses, "OK": ended - failed[0].calls}, ENDED_WITH)
    if calibration is not None and calibration.fails_from is not None:
        text += f"; {calibration.failures_begin}"
    return f"{text}. Throughput and latency are of the calls that ended OK"


def _away(run: Run) -> str:
    times = outages(run)
    if not times or (len(times) == 1 and not (run.records["status"] == OK).any()):
        return ""
    shown = "; ".join(map(str, times[:5]))
    more = f"; and {len(times) - 5} times more" if len(times) > 5 else ""
    return f"the service was away {shown}{more}"


def _stood_still(run: Run) -> str:
    """Return when no call ended although some were open, for far longer than a call takes."""
    records = np.sort(run.records, order="done_s")
    if len(records) < 2:
        return ""
    before_s = np.concatenate([[0.0], records["done_s"][:-1]])
    since_s = np.maximum(records["sent_s"], before_s)
    waited_s = records["done_s"] - since_s
    usual_s = float(np.median(records["done_s"] - records["sent_s"]))
    still = np.flatnonzero(waited_s > max(STILL_S, STILL * usual_s))
    if not len(still):
        return ""
    times = [f"from {since_s[n]:.1f} to {records['done_s'][n]:.1f} s" for n in still[:5]]
    return (
        f"no call ended {', '.join(times)}, although some were open and a call takes"
        f" {seconds(usual_s)} (p50): the service, or its machine, stood still"
    )


def _limit_reached(run: Run) -> str:
    """Return whether an open loop waited because its limit in flight was reached."""
    if not run.settings.get("paced") or not run.in_flight or not len(run.records):
        return ""
    _, level = in_flight_steps(run.records["sent_s"], run.records["done_s"])
    left = unsent(run)
    if level.max() < run.in_flight:
        return ""
    late_s = run.records["sent_s"] - run.records["due_s"]
    if not left and not float(np.quantile(late_s, 0.99)) > 0.005:
        return ""
    also = f", and {left:,} calls that were due were not sent" if left else ""
    return (
        f"the limit of {run.in_flight:,} calls in flight was reached{also}: the service is slower"
        " than the arrival rate"
    )


def _open_at_end(run: Run) -> str:
    cut = int(_cut_at_end(run).sum())
    if not cut:
        return ""
    drain_s = float(run.settings.get("drain_s") or 0.0)
    return (
        f"{cut:,} calls were still open {seconds(drain_s)} after the end of the sending and were"
        " cut off: they are neither OK nor failed"
    )


def _above(run: Run, calibration: Calibration | None) -> str:
    if calibration is None or not run.throughput_per_s > ABOVE * calibration.ceiling_per_s:
        return ""
    return (
        f"the run answered {rate(run.throughput_per_s, 'calls')}, more than the ceiling of"
        f" {rate(calibration.ceiling_per_s)}: the ceiling is higher than the calibration saw."
        " Repeat it with longer levels, when other programs are idle"
    )
