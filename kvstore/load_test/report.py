"""A run with its prediction and its verdict: as text for people, as JSON and CSV for programs."""

import math
import textwrap
from typing import Any

from kvstore.load_test.findings import findings
from kvstore.load_test.levels import Calibration
from kvstore.load_test.search import Found
from kvstore.measure import (
    Outcome,
    Quantile,
    Run,
    audit,
    latencies_s,
    quantile,
    throughput_interval,
)
from kvstore.model import Prediction

QUANTILES = (0.5, 0.9, 0.99, 0.999)
"""The quantiles of latency in a report."""
COLUMNS = 100
"""No line of a report is longer: a notebook breaks lines within a word."""
TRUSTED = "no reason to distrust this run was found"


def predicted(calibration: Calibration, run_or_rate: float | None, in_flight: int) -> Prediction:
    """Return the prediction of a calibration for an open loop at this rate, or a closed loop."""
    if run_or_rate is not None:
        return calibration.open_loop(run_or_rate)
    return calibration.closed_loop(in_flight)


def prediction_text(prediction: Prediction, calibration: Calibration) -> str:
    """Return the prediction, the knee and the ceiling as three lines."""
    return (
        f"predicted   {prediction}\n"
        f"knee        N* = {calibration.knee:,.3g} calls in flight: (D + Z) x ceiling ="
        f" {1e3 * calibration.cycle_s:,.3g} ms x {calibration.ceiling_per_s:,.4g} calls/s\n"
        f"ceiling     {calibration.ceiling_per_s:,.4g} calls/s, set by {calibration.bottleneck}"
    )


def as_text(run: Run, prediction: Prediction | None = None) -> str:
    """Return the figures of a run, its verdict, and its prediction beside it, as lines of text."""
    low, high = throughput_interval(run)
    ratio = f", {prediction.ratio_of(run.throughput_per_s):.2f} of predicted" if prediction else ""
    lines = [
        f"measured    {run.throughput_per_s:,.5g} calls/s OK (95 % interval {low:,.5g} to"
        f" {high:,.5g}){ratio}",
        f"latency     {_from(run)}, with 95 % intervals:",
    ]
    taken_s = latencies_s(run)
    for share in QUANTILES:
        lines.append(f"  p{100 * share:<9g}{_shown(quantile(taken_s, share))}")
    lines.append(f"  mean      {_ms(run.mean_residence_s)} from sending")
    ended = ", ".join(f"{count:,} {status}" for status, count in run.outcomes().items())
    lines += [
        f"calls       {run.issued:,} sent: {ended or 'none ended'}",
        f"checks      {audit(run)!r}",
    ]
    if run.outcome != Outcome.COMPLETE:
        lines.append(f"ended by    {run.ended_by}")
    found = [f"{each.name}: {each.text}" for each in findings(run)]
    lines += [f"verdict     {text}" for text in found or [TRUSTED]]
    return "\n".join(map(_folded, lines))


def _folded(line: str) -> str:
    """Return the line in lines of `COLUMNS` at most; all but the first begin under its text."""
    return textwrap.fill(line, COLUMNS, subsequent_indent=12 * " ", break_on_hyphens=False)


def as_json(
    run: Run | None,
    prediction: Prediction | None = None,
    calibration: Calibration | None = None,
    found: Found | None = None,
) -> dict[str, Any]:
    """Return the same as names and values for JSON; a value that is unknown or infinite is null."""
    report: dict[str, Any] = {}
    if calibration is not None:
        report["calibration"] = calibration.as_dict()
    if prediction is not None:
        report["prediction"] = {
            "throughput_per_s": prediction.value,
            "reason": prediction.reason,
            "bottleneck": prediction.binds,
        }
    if found is not None:
        report["search"] = found.as_dict()
    if run is not None:
        report["run"] = _run_as_json(run)
    cleaned: dict[str, Any] = _cleaned(report)
    return cleaned


def _run_as_json(run: Run) -> dict[str, Any]:
    taken_s = latencies_s(run)
    low, high = throughput_interval(run)
    return {
        "throughput_per_s": run.throughput_per_s,
        "throughput_95": [low, high],
        "answered_per_s": run.answered_per_s,
        "window_s": run.window_s,
        "latency_from": _from(run),
        "latency_s": {
            f"p{100 * share:g}": quantile(taken_s, share)._asdict() for share in QUANTILES
        },
        "mean_residence_s": run.mean_residence_s,
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
        "verdict": [each._asdict() for each in findings(run)],
    }


def _cleaned(value: Any) -> Any:
    """Return the value with null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _cleaned(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _from(run: Run) -> str:
    return "from the due time" if run.settings.get("paced") else "from sending"


def _shown(found: Quantile) -> str:
    if math.isnan(found.value_s):
        return "none"
    if math.isinf(found.value_s):
        return "above the time at which calls were cut off"
    return f"{_ms(found.value_s):<12}{_ms(found.low_s)} to {_ms(found.high_s)}"


def _ms(seconds: float) -> str:
    if math.isinf(seconds):
        return "cut off"
    return "none" if math.isnan(seconds) else f"{1e3 * seconds:,.4g} ms"
