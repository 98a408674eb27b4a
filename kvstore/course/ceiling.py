"""The sender without a limit, under a memory ceiling: a probe, a forecast, and the fact.

A short run under a low ceiling tells what one call in flight costs each of both processes, and
how fast calls come and go. From that alone follows when a higher ceiling is reached, and
by which process. Lesson 02 does it step by step; `unlimited` does all of it, for the benchmarks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from kvstore.client import run_in_process, strategies, workload
from kvstore.measure import Run
from kvstore.model import Prediction, memory
from kvstore.server import serving

SIDES: Final = ("client", "server")
RATE_PER_S: Final = 1000.0
"""Calls sent each second: a setting, well below what one thread can send. Unpaced, the rate is
whatever the machine has left just then, and a forecast from it was off by a factor of two."""
VALUES: Final = workload.crud(value_bytes_mean=8 * 1024, sizes="fixed")
"""All values alike, so that a short probe meets the calls that the long run is made of."""
LONGEST_S: Final = 60.0
"""The sender stops after this even if memory never fills."""
FEWEST_CALLS: Final = 100
"""A probe of fewer says too little: a line through few dots points anywhere."""


@dataclass(frozen=True)
class Line:
    """Memory of one process over the calls in flight: a straight line."""

    base_bytes: float
    bytes_per_call: float


@dataclass(frozen=True)
class Probe:
    """What a short run told: lambda, X, and the cost of a call in flight on each side."""

    sent_per_s: float
    answered_per_s: float
    lines: Mapping[str, Line]


@dataclass(frozen=True)
class Unlimited:
    """One whole experiment: what was forecast, and what came."""

    forecast: Prediction
    probe_run: Run
    run: Run
    ceiling_bytes: float

    @property
    def forecast_s(self) -> float:
        """When the ceiling was forecast to be reached, in seconds."""
        return self.forecast.value

    @property
    def fact_s(self) -> float:
        """When it was reached."""
        return stopped_s(self.run)

    @property
    def overshoot(self) -> float:
        """By which part of the ceiling memory went beyond it; 0.02 is 2 %."""
        return max(0.0, most_bytes(self.run) / self.ceiling_bytes - 1.0)

    @property
    def outcome(self) -> str:
        """How the run ended: "memory ceiling" when all went as it should."""
        return self.run.outcome


def fill(
    server: object,
    ceiling_bytes: float,
    *,
    rate_per_s: float | None = RATE_PER_S,
    make: Callable[..., Run] = run_in_process,
    **options: Any,
) -> Run:
    """Send without a limit, from a process of its own, until client or server is full.

    `make` makes the run: `live.run_apart` does the same and shows it.
    """
    return make(
        strategies.futures,
        server,
        VALUES,
        rate_per_s=rate_per_s,
        memory_ceiling_bytes=ceiling_bytes,
        duration_s=LONGEST_S,
        deadline_s=2 * LONGEST_S,  # a call that gives up would leave the backlog
        sample_interval_s=0.02,
        **options,
    )


def probe(run: Run) -> Probe:
    """What a run tells about lambda, X and bytes per call, from the time it was sending.

    ValueError when it was over after fewer than `FEWEST_CALLS` calls.
    """
    sending = run.samples[run.samples["elapsed_s"] <= stopped_s(run)]
    if run.issued < FEWEST_CALLS or len(sending) < 3:
        raise ValueError(
            f"only {run.issued} calls were sent before memory stood at"
            f" {most_bytes(run) / 1e6:,.0f} MB: give the probe a higher ceiling"
        )
    return Probe(
        sent_per_s=run.issued / stopped_s(run),
        answered_per_s=float(sending["answered"].max()) / stopped_s(run),
        lines={side: _line(sending["in_flight"], sending[f"{side}_rss_bytes"]) for side in SIDES},
    )


def _line(in_flight: Any, rss_bytes: Any) -> Line:
    """The straight line that fits the dots best."""
    bytes_per_call, base_bytes = np.polyfit(in_flight, rss_bytes, 1)
    return Line(float(base_bytes), float(bytes_per_call))


def forecasts(seen: Probe, ceiling_bytes: float) -> dict[str, Prediction]:
    """When each of both processes would reach the ceiling, if it were the only one."""
    return {
        side: memory.time_until(
            ceiling_bytes,
            base_bytes=line.base_bytes,
            bytes_per_call=line.bytes_per_call,
            sent_per_s=seen.sent_per_s,
            answered_per_s=seen.answered_per_s,
        )
        for side, line in seen.lines.items()
    }


def forecast(seen: Probe, ceiling_bytes: float) -> Prediction:
    """When the ceiling is reached, and by which process: the sooner of both binds."""
    side, soonest = min(forecasts(seen, ceiling_bytes).items(), key=lambda each: each[1].value)
    return Prediction(soonest.value, soonest.unit, soonest.reason, side)


def stopped_s(run: Run) -> float:
    """When the last call was sent: a sender without a limit stops at the ceiling only."""
    return float(run.records["sent_s"].max()) if len(run.records) else run.window_s


def most_bytes(run: Run) -> float:
    """The most memory that either process was seen to use."""
    return float(run.samples[[f"{side}_rss_bytes" for side in SIDES]].max().max())


def reached_by(run: Run) -> str:
    """The process that used more memory when the sender stopped."""
    sending = run.samples[run.samples["elapsed_s"] <= stopped_s(run)].iloc[-1]
    return max(SIDES, key=lambda side: float(sending[f"{side}_rss_bytes"]))


def table(seen: Probe, run: Run, ceiling_bytes: float) -> pd.DataFrame:
    """Every number that went into the forecast, as it was in the probe and as it came."""
    came = probe(run)
    rows = {
        "sent, λ (calls/s)": (seen.sent_per_s, came.sent_per_s),
        "answered, X (calls/s)": (seen.answered_per_s, came.answered_per_s),
        **{
            f"{side}, for a call in flight (kB)": (
                seen.lines[side].bytes_per_call / 1e3,
                came.lines[side].bytes_per_call / 1e3,
            )
            for side in SIDES
        },
        "ceiling reached (s)": (forecast(seen, ceiling_bytes).value, stopped_s(run)),
    }
    numbers = pd.DataFrame.from_dict(rows, orient="index", columns=["forecast", "fact"])
    numbers["fact ÷ forecast"] = numbers["fact"] / numbers["forecast"]
    # As objects each number keeps its own digits; a column of floats is padded to the longest.
    return numbers.map(lambda number: float(f"{number:.4g}")).astype(object)


def unlimited(
    ceiling_bytes: float = 512e6,
    *,
    probe_bytes: float | None = None,
    rate_per_s: float | None = RATE_PER_S,
    **server_settings: Any,
) -> Unlimited:
    """Probe, forecast, and run until the ceiling, each against a fresh server with one lock.

    `probe_bytes` is the ceiling of the probe, a third of the way from 100 MB up if none is said.
    Raises what `run_in_process` raises, and ValueError when the probe ends too soon.
    """
    if probe_bytes is None:
        probe_bytes = 100e6 + (ceiling_bytes - 100e6) / 3
    with serving(locking="global", **server_settings) as server:
        small = fill(server, probe_bytes, rate_per_s=rate_per_s)
    expected = forecast(probe(small), ceiling_bytes)
    with serving(locking="global", **server_settings) as server:
        run = fill(server, ceiling_bytes, rate_per_s=rate_per_s)
    return Unlimited(expected, small, run, ceiling_bytes)
