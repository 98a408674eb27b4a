"""A load test as text for people, in 80 columns, and as JSON and CSV for programs."""

import csv
import io
import math
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import numpy as np

from kvstore.load_test.bottleneck import UNKNOWN
from kvstore.load_test.estimates import Estimate
from kvstore.load_test.findings import (
    Population,
    findings,
    findings_of_calibration,
    outages,
    populations,
)
from kvstore.load_test.levels import Calibration
from kvstore.load_test.search import SearchResult
from kvstore.measure import Finding, Outcome, Quantile, Run, audit, throughput_interval
from kvstore.measure.figures import needs, started_s
from kvstore.model import Prediction
from kvstore.numbers import count, number, percent, rate, seconds
from kvstore.protocol import OK, STATUSES

COLUMNS: Final = 80
"""No line of a report is longer."""
LABEL: Final = 12
"""Columns of the label before each paragraph."""
FEWEST_IN_BARS: Final = 5
"""Calls of a histogram, at least: fewer are all among the slowest calls."""
BARS, BAR_COLUMNS = 12, 40
"""Lines of a histogram at most, and columns of its longest bar."""
NARROW: Final = 1.02
"""Latencies within this factor are one bar."""
SLOWEST: Final = 5
"""The slowest calls in a report."""
TRUSTED: Final = "no reason to distrust this run was found"


class Report(NamedTuple):
    """What a load test has found so far."""

    run: Run | None = None
    prediction: Prediction | None = None
    calibration: Calibration | None = None
    search: SearchResult | None = None
    more: tuple[Finding, ...] = ()
    """Findings of the command itself, such as replies that were wrong."""

    @property
    def findings(self) -> list[Finding]:
        """Every finding, those that matter most first."""
        of_run = findings(self.run, self.calibration) if self.run is not None else []
        of_calibration = (
            findings_of_calibration(self.calibration) if self.calibration is not None else []
        )
        short = self.search.short if self.search is not None else ""
        steps = [Finding("steps", f"{short}: give longer ones with --step")] if short else []
        return [*self.more, *of_run, *steps, *of_calibration]


def calibration_text(calibration: Calibration, prediction: Prediction | None = None) -> str:
    """Return the levels of a calibration as a table, then the ceiling, the knee, a prediction."""
    lines = [
        "in flight   throughput, X         latency, R    X·R/N   failed",
    ]
    for each in calibration.levels:
        lines.append(
            f"{each.in_flight:>9}   {rate(each.throughput_per_s, 'calls'):<21}"
            f" {seconds(each.residence_s):<13} {each.little:<7.2f} "
            f"{percent(each.failed) if each.failed > 0 else '-'}"
        )
    limit = calibration.limit
    name = "cannot be said" if limit.name == UNKNOWN else limit.name
    more = "" if calibration.saturated else "at least "
    lines += [
        "",
        _folded("ceiling", f"{more}{_with(calibration.ceiling, lambda x: rate(x, 'calls'))}"),
        _folded("set by", f"{name}: {limit.evidence}" if limit.evidence else name),
        *([_folded("", limit.next_step)] if limit.next_step else []),
        _folded(
            "knee",
            f"N* = {_with(calibration.knee_estimate, number)} calls in flight = (D + Z) · ceiling;"
            f" D + Z is {seconds(calibration.cycle.value)}",
        ),
    ]
    if prediction is not None:
        between = ""
        if prediction.interval is not None:
            between = " (90 %: {} to {})".format(*map(rate, prediction.interval))
        value = rate(prediction.value, "calls")
        lines.append(_folded("predicted", f"{value}{between}: {prediction.reason}"))
    return "\n".join(lines)


def texts(report: Report) -> list[str]:
    """Return the texts of a report: the calibration, if there was one, and what followed."""
    begin = []
    if report.calibration is not None:
        begin = [calibration_text(report.calibration, report.prediction)]
    return [*begin, as_text(report)]


def as_text(report: Report) -> str:
    """Return the figures of a run, its histogram, and its verdict."""
    lines: list[str] = []
    if report.search is not None:
        lines += [_folded("found", str(report.search)), *_step_lines(report.search)]
    if report.run is not None:
        lines += _run_lines(report.run, report.prediction)
    verdicts = [_folded("verdict", f"{each.name}: {each.text}") for each in report.findings]
    if report.run is not None or verdicts:
        lines += verdicts or [_folded("verdict", TRUSTED)]
    return "\n".join(lines)


def _step_lines(result: SearchResult) -> list[str]:
    """Return the steps of a search by their rate, with the seed that repeats each."""
    if not result.steps:
        return []
    lines = [f"{'steps':<{LABEL}}{'rate':<14}{'p99':<12}{'late':<9}{'failed':<9}seed"]
    for each in sorted(result.steps, key=lambda each: each.rate_per_s):
        late = percent(each.late / each.calls) if each.calls else "-"
        seed = "" if each.seed is None else str(each.seed)
        lines.append(
            f"{'':<{LABEL}}{rate(each.rate_per_s):<14}{seconds(each.latency_s):<12}{late:<9}"
            f"{percent(each.errors):<9}{seed}{'  (generator)' if each.generator else ''}"
        )
    return lines


def _run_lines(run: Run, prediction: Prediction | None) -> list[str]:
    interval = throughput_interval(run)
    beside = ""
    if prediction:
        beside = f", {number(prediction.ratio_of(run.throughput_per_s))} of predicted"
    ended = ", ".join(f"{n:,} {status}" for status, n in run.outcomes().items())
    lines = [
        _folded(
            "measured",
            f"{rate(run.throughput_per_s, 'calls')} OK, 95 % interval"
            f" {rate(interval.low_per_s)} to {rate(interval.high_per_s)}{beside}",
        ),
        _folded("calls", f"{count(run.issued, 'call')} sent: {ended or 'none ended'}"),
    ]
    if (seed := run.settings.get("seed")) is not None:
        lines.append(_folded("arrivals", f"random; --seed {seed} repeats them"))
    streams = run.settings.get("streams")
    if isinstance(streams, dict):
        first_s = streams["first_message_s"]["p50"]
        per_s = streams["messages"] / run.window_s if run.window_s else 0.0
        lines.append(
            _folded(
                "streams",
                f"{rate(per_s, 'messages')}; the first message after"
                f" {seconds(math.nan if first_s is None else first_s)} (p50);"
                f" {streams['cut']:,} of {streams['ended']:,} were cut by this program",
            )
        )
    for each in populations(run):
        if not each.calls or not each.latency:
            continue
        which = "" if each.name == "OK" else f" of {count(each.calls, 'call')} that {each.name}"
        lines.append(f"latency{which}, {_from(run)}, and its 95 % interval")
        lines += _quantile_lines(each)
        lines.append(f"  {'mean':<10}{seconds(each.mean_s)}")
        if each.name == "OK":
            lines += _histogram_lines(run)
    if slow := slowest(run):
        lines.append("slowest calls")
        lines += [
            f"  {seconds(each['latency_s']):<12}{each['status']:<20}"
            f"sent at {seconds(each['sent_s'])}"
            for each in slow
        ]
    if run.outcome != Outcome.COMPLETE:
        lines.append(_folded("ended by", run.ended_by))
    if not audit(run).holds:
        lines.append(_folded("checks", repr(audit(run))))
    return lines


def _quantile_lines(population: Population) -> list[str]:
    """Return the quantiles that some calls are beyond; for the others, how many it takes."""
    lines, lacking = [], []
    for name, quantile in population.latency.items():
        share = float(name[1:]) / 100
        if (fewest := math.ceil(1 / (1 - share) - 1e-9)) > population.calls:
            lacking.append(f"{name} needs at least {fewest:,} calls")
            continue
        shown = _shown(quantile)
        if math.isnan(quantile.low_s):
            shown += f"an interval needs at least {needs(share):,} calls"
        lines.append(f"  {name:<10}{shown}")
    return lines + [f"  ({', '.join(lacking)})"] * bool(lacking)


def _histogram_lines(run: Run) -> list[str]:
    bars = histogram(run)
    most = max((each["calls"] for each in bars), default=0)
    if not most:
        return []
    lines = [f"histogram of the calls that ended OK, {_from(run)}"]
    for each in bars:
        bar = "█" * max(each["calls"] > 0, round(BAR_COLUMNS * each["calls"] / most))
        lines.append(f"  to {seconds(each['to_s']):<10}{bar:<{BAR_COLUMNS}} {each['calls']:,}")
    return lines


def _folded(label: str, text: str) -> str:
    """Return a paragraph beside its label, in lines of `COLUMNS` at most."""
    begin = f"{label:<{LABEL}}"
    return textwrap.fill(
        text,
        COLUMNS,
        initial_indent=begin,
        subsequent_indent=" " * LABEL,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _with(figure: Estimate, write: Any) -> str:
    if math.isnan(figure.low) or math.isnan(figure.high):
        return str(write(figure.value))
    return f"{write(figure.value)} (95 %: {number(figure.low)} to {number(figure.high)})"


def _from(run: Run) -> str:
    return "from the due time" if run.settings.get("paced") else "from sending"


def _shown(quantile: Quantile) -> str:
    if math.isnan(quantile.value_s):
        return "none"
    if math.isinf(quantile.value_s):
        return "above the time at which calls were cut off"
    value = f"{seconds(quantile.value_s):<12}"
    if math.isnan(quantile.low_s):
        return value
    return f"{value}{_or_cut(quantile.low_s)} to {_or_cut(quantile.high_s)}"


def _or_cut(value_s: float) -> str:
    return "cut off" if math.isinf(value_s) else seconds(value_s)


def histogram(run: Run) -> list[dict[str, Any]]:
    """Return the calls that ended OK by latency, in bars of equal width.

    The width is equal on a log scale if the slowest call takes more than 20 times as long as the
    fastest. A few calls have none.
    """
    records = run.records[run.records["status"] == OK]
    if len(records) < FEWEST_IN_BARS:
        return []
    taken_s = np.maximum(records["done_s"] - started_s(records), 1e-9)
    low, high = float(taken_s.min()), float(taken_s.max())
    wide = high > 20 * low
    edges = np.geomspace(low, high, BARS + 1) if wide else np.linspace(low, high, BARS + 1)
    if high < NARROW * low:
        return [{"from_s": low, "to_s": high, "calls": len(taken_s)}]
    edges[-1] = high
    calls, _ = np.histogram(taken_s, edges)
    return [
        {"from_s": float(edges[n]), "to_s": float(edges[n + 1]), "calls": int(calls[n])}
        for n in range(len(calls))
    ]


def slowest(run: Run) -> list[dict[str, Any]]:
    """Return the slowest calls with their latency, when they were sent, and their status."""
    records = run.records
    taken_s = records["done_s"] - started_s(records)
    places = np.argsort(taken_s)[::-1][:SLOWEST]
    return [
        {
            "latency_s": float(taken_s[place]),
            "sent_s": float(records["sent_s"][place]),
            "status": STATUSES[int(records["status"][place])],
        }
        for place in places
    ]


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as names and values; a value that is unknown or infinite is null."""
    document: dict[str, Any] = {}
    if report.calibration is not None:
        document["calibration"] = report.calibration.as_dict()
    if report.prediction is not None:
        document["prediction"] = {
            "throughput_per_s": report.prediction.value,
            "throughput_90": report.prediction.interval,
            "reason": report.prediction.reason,
            "bottleneck": report.prediction.binds,
        }
    if report.search is not None:
        document["search"] = asdict(report.search)
    if report.run is not None:
        document["run"] = _run_as_json(report.run)
    document["verdict"] = [each._asdict() for each in report.findings]
    cleaned: dict[str, Any] = _cleaned(document)
    return cleaned


def _run_as_json(run: Run) -> dict[str, Any]:
    low, high = throughput_interval(run)
    (ok, *others) = populations(run)
    return {
        "throughput_per_s": run.throughput_per_s,
        "throughput_95": [low, high],
        "answered_per_s": run.answered_per_s,
        "window_s": run.window_s,
        "latency_from": _from(run),
        "latency_s": {name: quantile._asdict() for name, quantile in ok.latency.items()},
        "mean_s": ok.mean_s,
        "others": [
            {**each._asdict(), "latency": {n: q._asdict() for n, q in each.latency.items()}}
            for each in others
        ],
        "histogram": histogram(run),
        "slowest": slowest(run),
        "outages": [each._asdict() for each in outages(run)],
        "issued": run.issued,
        "statuses": run.outcomes(),
        "outcome": str(run.outcome),
        "little_holds": audit(run).holds,
        "strategy": run.strategy,
        "in_flight": run.in_flight,
        "settings": dict(run.settings),
        "host": dict(run.host),
        "started_at": run.started_at,
        "client_cpu_s": run.client_cpu.total_s,
        "server_cpu_s": run.server_cpu.total_s,
    }


def as_csv(report: Report) -> str:
    """Return one row for each call of the run; without a run, for each step of the search."""
    if report.run is not None:
        return _table(_calls(report.run))
    steps = report.search.steps if report.search is not None else ()
    return _table(asdict(each) for each in steps)


def _calls(run: Run) -> Iterable[dict[str, Any]]:
    records = run.records[np.argsort(run.records["sent_s"], kind="stable")]
    for each, began_s in zip(records, started_s(records), strict=True):
        yield {
            "method": run.kinds[int(each["kind"])],
            "sent_s": f"{each['sent_s']:.9f}",
            "due_s": "" if np.isnan(each["due_s"]) else f"{each['due_s']:.9f}",
            "latency_s": f"{each['done_s'] - began_s:.9f}",
            "status": STATUSES[int(each["status"])],
            "request_bytes": int(each["request_bytes"]),
            "reply_bytes": int(each["reply_bytes"]),
        }


def _table(rows: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return text.getvalue()


def _cleaned(value: Any) -> Any:
    """Return the value with null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _cleaned(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
