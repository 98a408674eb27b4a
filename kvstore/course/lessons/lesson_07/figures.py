"""The figures and the table of lesson 07: users who join one after the other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from kvstore.course.views.style import Runs, runs_by_name
from kvstore.course.views.throughput import Points, plot_measured_over_predicted
from kvstore.measure import Run
from kvstore.model import Station, bounds

PARTS: Final = 16
"""The number of parts of a ramp-up, its hold at the end included."""
MOST_DOTS: Final = 400
"""Of more calls than this, an even selection is drawn."""
STEPS: Final = 400
"""The number of points of a predicted line."""

Floats: TypeAlias = npt.NDArray[np.float64]
Stations: TypeAlias = Mapping[str, Sequence[Station]]
"""The stations of the prediction for each run by its name."""


def answered_per_s(done_s: Floats, edges: Floats) -> Floats:
    """Return the calls answered per second between each two edges; all times in seconds."""
    return np.histogram(done_s, bins=edges)[0] / np.diff(edges)


def throughput_in_climb(runs: Runs, stations: Stations) -> Axes:
    """Draw calls answered per second in each part as dots, min(N / D, 1 / D_max) as lines."""
    measured = {}
    for name, run in runs_by_name(runs):
        edges = _edges(_ends_s(run), max(each.demand_s for each in stations[name]))
        per_s = answered_per_s(run.records["done_s"], edges)
        measured[name] = ((edges[:-1] + edges[1:]) / 2, per_s)
    return plot_measured_over_predicted(
        measured,
        _lines(runs, stations, bounds.throughput_per_s),
        xlabel="elapsed (s)",
        ylabel="answered, X (calls/s)",
        title="Throughput, while one user after the other joins",
    )


def residence_in_climb(runs: Runs, stations: Stations) -> Axes:
    """Draw the residence time of each call over the time of its reply; N / X is a line."""

    def predicted_ms(joins_s: Sequence[float], parts: Sequence[Station], at_s: float) -> float:
        return 1e3 * bounds.residence_s(joins_s, parts, at_s) or np.nan  # NaN before a reply

    measured, most_ms = {}, 1.0
    for name, run in runs_by_name(runs):
        calls = run.records[:: max(1, len(run.records) // MOST_DOTS)]
        took_ms = 1e3 * (calls["done_s"] - calls["sent_s"])
        most_ms = max(most_ms, float(np.quantile(took_ms, 0.995))) if len(calls) else most_ms
        measured[name] = (calls["done_s"], took_ms)
    ax = plot_measured_over_predicted(
        measured,
        _lines(runs, stations, predicted_ms),
        xlabel="answered after (s)",
        ylabel="residence, R (ms)",
        title="How long each call took, while one user after the other joins",
        small=True,
    )
    ax.set_ylim(0.0, 1.2 * most_ms)
    return ax


def threads_in_climb(runs: Runs, limits: Mapping[str, float]) -> Axes:
    """Draw the threads of each server process as dots, own + min(N, limit) as lines."""
    measured, predicted = {}, {}
    for name, run in runs_by_name(runs):
        threads = run.samples["server_threads"]
        every = max(1, len(threads) // 40)
        measured[name] = (run.samples["elapsed_s"][::every], threads[::every])
        at = np.linspace(0.0, _ends_s(run), STEPS)
        before = float(threads.iloc[0]) if len(threads) else 0.0
        line = [bounds.threads(_joins_of(run), limits[name], t, before) for t in at]
        predicted[f"predicted, {name}"] = (at, line)
    return plot_measured_over_predicted(
        measured,
        predicted,
        xlabel="elapsed (s)",
        ylabel="threads of the\nserver process (threads)",
        title="Threads of each server, while one user after the other joins",
        small=True,
    )


def _edges(ends_s: float, round_s: float) -> Floats:
    """Return the edges of about `PARTS` parts, each so many rounds long.

    The users who joined together are answered together, once in a round. So parts of another
    length would have one answer more or less by chance.
    """
    width_s = round_s * max(1, round(ends_s / PARTS / round_s)) if round_s else ends_s / PARTS
    parts = max(1, round(ends_s / width_s))
    return np.linspace(0.0, parts * width_s, parts + 1)


def _ends_s(run: Run) -> float:
    """Return the end of a ramp-up in seconds; the drain at the end is left out."""
    return float(run.settings.get("duration_s") or run.window_s or 1.0)


def _joins_of(run: Run) -> Sequence[float]:
    """Return the time at which each user began; 0 for all in a run without joins."""
    joins: Sequence[float] = run.settings.get("joins") or [0.0] * run.in_flight
    return joins


def _lines(
    runs: Runs,
    stations: Stations,
    predicted: Callable[[Sequence[float], Sequence[Station], float], float],
) -> dict[str, Points]:
    lines: dict[str, Points] = {}
    for name, run in runs_by_name(runs):
        at = np.linspace(0.0, _ends_s(run), STEPS)
        line = [predicted(_joins_of(run), stations[name], t) for t in at]
        lines[f"predicted, {name}"] = (at, line)
    return lines
