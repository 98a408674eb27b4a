"""A client without a limit under a memory ceiling: a probe, a forecast, the run, and a figure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore.client import run_in_process, strategies, workload
from kvstore.course.views import MB, style
from kvstore.course.views.style import rounded
from kvstore.course.views.timelines import LOOKS
from kvstore.measure import Run
from kvstore.model import Prediction, overload
from kvstore.server import serving

SIDES: Final = ("client", "server")
RATE_PER_S: Final = 1000.0
"""Calls sent per second, well below the most that one thread can send. Without pacing the rate
depends on other programs, and a forecast from it was wrong by a factor of two."""
VALUES: Final = workload.crud(value_bytes_mean=8 * 1024, sizes="fixed")
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


@dataclass(frozen=True)
class Unlimited:
    """One whole experiment: the forecast and the run."""

    forecast: Prediction
    run: Run
    ceiling_bytes: float

    @property
    def forecast_s(self) -> float:
        """Return the predicted time at which the ceiling is reached, in seconds."""
        return self.forecast.value

    @property
    def fact_s(self) -> float:
        """Return the measured time at which the ceiling was reached, in seconds."""
        return stopped_s(self.run)

    @property
    def overshoot(self) -> float:
        """Return the excess of memory over the ceiling, as a share of it; 0.02 is 2 %."""
        return max(0.0, most_bytes(self.run) / self.ceiling_bytes - 1.0)

    @property
    def outcome(self) -> str:
        """Return the outcome of the run: "memory ceiling" if all went well."""
        return self.run.outcome


def fill(
    server: object,
    ceiling_bytes: float,
    *,
    rate_per_s: float | None = RATE_PER_S,
    make: Callable[..., Run] = run_in_process,
    **options: Any,
) -> Run:
    """Send without a limit, with the client in its own process, until client or server is full.

    `make` makes the run: `live.run_apart` also shows it.
    """
    return make(
        strategies.futures,
        server,
        VALUES,
        rate_per_s=rate_per_s,
        memory_ceiling_bytes=ceiling_bytes,
        duration_s=LONGEST_S,
        deadline_s=2 * LONGEST_S,  # a call that times out would leave the backlog
        sample_interval_s=0.02,
        **options,
    )


def probe(run: Run) -> Probe:
    """Return lambda, X and bytes per call of a run, from the time in which it was sending.

    Raise ValueError for a run of fewer than `FEWEST_CALLS` calls.
    """
    sending = run.samples[run.samples["elapsed_s"] <= stopped_s(run)]
    if run.issued < FEWEST_CALLS or len(sending) < 3:
        raise ValueError(
            f"only {run.issued} calls were sent before memory reached"
            f" {most_bytes(run) / 1e6:,.0f} MB: give the probe a higher ceiling"
        )
    return Probe(
        sent_per_s=run.issued / stopped_s(run),
        answered_per_s=float(sending["answered"].max()) / stopped_s(run),
        lines={side: _line(sending["in_flight"], sending[f"{side}_rss_bytes"]) for side in SIDES},
    )


def _line(in_flight: Any, rss_bytes: Any) -> Line:
    """Return the straight line of least squares."""
    bytes_per_call, base_bytes = np.polyfit(in_flight, rss_bytes, 1)
    return Line(float(base_bytes), float(bytes_per_call))


def forecasts(seen: Probe, ceiling_bytes: float) -> dict[str, Prediction]:
    """Return the time at which each process would reach the ceiling."""
    return {
        side: overload.time_until(
            ceiling_bytes,
            base_bytes=line.base_bytes,
            bytes_per_call=line.bytes_per_call,
            sent_per_s=seen.sent_per_s,
            answered_per_s=seen.answered_per_s,
        )
        for side, line in seen.lines.items()
    }


def forecast(seen: Probe, ceiling_bytes: float) -> Prediction:
    """Return the time at which the first process reaches the ceiling, and which one it is."""
    side, soonest = min(forecasts(seen, ceiling_bytes).items(), key=lambda each: each[1].value)
    return Prediction(soonest.value, soonest.unit, soonest.reason, side)


def stopped_s(run: Run) -> float:
    """Return the time of the last call: a client without a limit stops only at the ceiling."""
    return float(run.records["sent_s"].max()) if len(run.records) else run.window_s


def most_bytes(run: Run) -> float:
    """Return the largest memory of either process in all samples."""
    return float(run.samples[[f"{side}_rss_bytes" for side in SIDES]].max().max())


def reached_by(run: Run) -> str:
    """Return the process that had more memory when the client stopped."""
    sending = run.samples[run.samples["elapsed_s"] <= stopped_s(run)].iloc[-1]
    return max(SIDES, key=lambda side: float(sending[f"{side}_rss_bytes"]))


def table(seen: Probe, run: Run, ceiling_bytes: float) -> pd.DataFrame:
    """Return every number of the forecast, from the probe and from the run."""
    measured = probe(run)
    rows = {
        "sent, λ (calls/s)": (seen.sent_per_s, measured.sent_per_s),
        "answered, X (calls/s)": (seen.answered_per_s, measured.answered_per_s),
        **{
            f"{side}, for a call in flight (kB)": (
                seen.lines[side].bytes_per_call / 1e3,
                measured.lines[side].bytes_per_call / 1e3,
            )
            for side in SIDES
        },
        "ceiling reached (s)": (forecast(seen, ceiling_bytes).value, stopped_s(run)),
    }
    numbers = pd.DataFrame.from_dict(rows, orient="index", columns=["forecast", "fact"])
    numbers["fact ÷ forecast"] = numbers["fact"] / numbers["forecast"]
    return rounded(numbers)


def unlimited(
    ceiling_bytes: float = 512e6,
    *,
    probe_bytes: float | None = None,
    rate_per_s: float | None = RATE_PER_S,
    **server_settings: Any,
) -> Unlimited:
    """Probe, forecast, and run until the ceiling, each against a new server with one lock.

    `probe_bytes` is the ceiling of the probe. Its default is 100 MB plus a third of the rest.
    Raise the errors of `run_in_process`, and ValueError for a probe that ends too soon.
    """
    if probe_bytes is None:
        probe_bytes = 100e6 + (ceiling_bytes - 100e6) / 3
    with serving(locking="global", **server_settings) as server:
        small = fill(server, probe_bytes, rate_per_s=rate_per_s)
    expected = forecast(probe(small), ceiling_bytes)
    with serving(locking="global", **server_settings) as server:
        run = fill(server, ceiling_bytes, rate_per_s=rate_per_s)
    return Unlimited(expected, run, ceiling_bytes)


def memory_by_in_flight(run: Run, seen: Probe, *, ax: Axes | None = None) -> Axes:
    """Draw the memory of client and server over the calls in flight, while the run was sending."""
    sending = run.samples[run.samples["elapsed_s"] <= stopped_s(run)]
    ends = np.array([0.0, sending["in_flight"].max()])
    with style.canvas(ax) as ax:
        for side, (marker, colour, dashes) in LOOKS.items():
            line = seen.lines[side]
            ax.plot(
                sending["in_flight"], sending[f"{side}_rss_bytes"] / MB, marker, color=colour,
                markersize=6, label=side,
            )  # fmt: skip
            ax.plot(
                ends, (line.base_bytes + line.bytes_per_call * ends) / MB, linestyle=dashes,
                color=style.PREDICTED, linewidth=2,
                label=f"{line.bytes_per_call / 1e3:,.0f} kB per call",
            )  # fmt: skip
        ax.set(xlabel="in flight (calls)", ylabel="resident memory (MB)")
        ax.set_xlim(left=0.0)
    return ax
