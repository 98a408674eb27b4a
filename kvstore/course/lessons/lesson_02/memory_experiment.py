"""A client without a limit under a memory ceiling: a probe, a forecast, and the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from kvstore.client import strategies, workload
from kvstore.course import live, mode
from kvstore.course.views.style import rounded
from kvstore.measure import Run
from kvstore.model import Prediction, overload
from kvstore.server import serving

SIDES: Final = ("client", "server")
RATE_PER_S: Final = 1000.0
"""Calls sent per second, well below the most that one thread can send. Without pacing the rate
depends on other programs, and a forecast from it was wrong by a factor of two."""
VALUE_BYTES: Final = 8 * 1024
"""What a call of the experiment carries."""
VALUES: Final = workload.crud(value_bytes_mean=VALUE_BYTES, sizes="fixed")
"""All values have the same size, so that a short probe has the same calls as the long run."""
LONGEST_S: Final = 60.0
"""The client stops after this time even if memory never fills."""
FEWEST_CALLS: Final = 100
"""The fewest calls of a probe: a line through few dots is uncertain."""


@dataclass(frozen=True)
class Line:
    """The memory of one process over the calls in flight, as a straight line."""

    base_bytes: float
    bytes_per_call: float


@dataclass(frozen=True)
class Probe:
    """The results of a short run: lambda, X, and the memory of a call in flight in each process."""

    sent_per_s: float
    answered_per_s: float
    lines: Mapping[str, Line]


def ceiling_bytes(ceiling_mb: float) -> float:
    """Return a ceiling in bytes, lower in fast mode: 150 MB for a probe, 190 MB for the run."""
    if mode.fast():
        return 150e6 if ceiling_mb <= 200 else 190e6
    return ceiling_mb * 1e6


def fill_memory(ceiling_mb: float, settles: str | tuple[str, ...] = ()) -> Run:
    """Send without a limit until client or server reaches the ceiling; show the run and return it.

    The server has one lock. The client has a process of its own. `settles` is that of `run`.
    """
    with serving(locking="global") as server:
        return live.run(
            strategies.futures,
            server,
            VALUES,
            apart=True,
            closes=settles,
            rate_per_s=RATE_PER_S,
            memory_ceiling_bytes=ceiling_bytes(ceiling_mb),
            duration_s=LONGEST_S,
            deadline_s=2 * LONGEST_S,  # a call that times out would leave the backlog
            sample_interval_s=0.02,
        )


def probe(run: Run) -> Probe:
    """Return lambda, X and bytes per call of a run, from the time in which it was sending.

    Raise ValueError for a run of fewer than `FEWEST_CALLS` calls.
    """
    samples = sending(run)
    if run.issued < FEWEST_CALLS or len(samples) < 3:
        raise ValueError(
            f"only {run.issued} calls were sent before memory reached"
            f" {most_bytes(run) / 1e6:,.0f} MB: give the probe a higher ceiling"
        )
    return Probe(
        sent_per_s=run.issued / stopped_s(run),
        answered_per_s=float(samples["answered"].max()) / stopped_s(run),
        lines={side: _line(samples["in_flight"], samples[f"{side}_rss_bytes"]) for side in SIDES},
    )


def _line(in_flight: Any, rss_bytes: Any) -> Line:
    """Return the straight line of least squares."""
    bytes_per_call, base_bytes = np.polyfit(in_flight, rss_bytes, 1)
    return Line(float(base_bytes), float(bytes_per_call))


def forecasts(sample: Probe, ceiling_bytes: float) -> dict[str, Prediction]:
    """Return the time at which each process would reach the ceiling."""
    return {
        side: overload.time_until(
            ceiling_bytes,
            base_bytes=line.base_bytes,
            bytes_per_call=line.bytes_per_call,
            sent_per_s=sample.sent_per_s,
            answered_per_s=sample.answered_per_s,
        )
        for side, line in sample.lines.items()
    }


def forecast(sample: Probe, ceiling_bytes: float) -> Prediction:
    """Return the time at which the first process reaches the ceiling, and which one it is."""
    side, soonest = min(forecasts(sample, ceiling_bytes).items(), key=lambda each: each[1].value)
    return Prediction(soonest.value, soonest.unit, soonest.reason, side)


def stopped_s(run: Run) -> float:
    """Return the time of the last call: a client without a limit stops only at the ceiling."""
    return float(run.records["sent_s"].max()) if len(run.records) else run.window_s


def sending(run: Run) -> pd.DataFrame:
    """Return the samples of the run that were taken while it was sending."""
    return run.samples[run.samples["elapsed_s"] <= stopped_s(run)]


def most_bytes(run: Run) -> float:
    """Return the largest memory of either process in all samples."""
    return float(run.samples[[f"{side}_rss_bytes" for side in SIDES]].max().max())


def table(sample: Probe, run: Run, ceiling_bytes: float) -> pd.DataFrame:
    """Return every number of the forecast, from the probe and from the run."""
    measured = probe(run)
    rows = {
        "sent, λ (calls/s)": (sample.sent_per_s, measured.sent_per_s),
        "answered, X (calls/s)": (sample.answered_per_s, measured.answered_per_s),
        **{
            f"{side}, for a call in flight (kB)": (
                sample.lines[side].bytes_per_call / 1e3,
                measured.lines[side].bytes_per_call / 1e3,
            )
            for side in SIDES
        },
        "ceiling reached (s)": (forecast(sample, ceiling_bytes).value, stopped_s(run)),
    }
    numbers = pd.DataFrame.from_dict(rows, orient="index", columns=["forecast", "fact"])
    numbers["fact ÷ forecast"] = numbers["fact"] / numbers["forecast"]
    return rounded(numbers)


def costs(sample: Probe) -> pd.DataFrame:
    """Return the memory of each process without calls and for each call in flight, with λ and X."""
    return rounded(
        pd.DataFrame(
            {
                side: {
                    "without calls (MB)": round(line.base_bytes / 1e6, 1),
                    "for each call in flight (kB)": round(line.bytes_per_call / 1e3, 1),
                    "sent, λ (calls/s)": round(sample.sent_per_s),
                    "answered, X (calls/s)": round(sample.answered_per_s, 1),
                }
                for side, line in sample.lines.items()
            }
        )
    )
