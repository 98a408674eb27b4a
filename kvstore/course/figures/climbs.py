"""A climb of users as it went: throughput, residence times and threads, of several servers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.named import Runs, runs_by_name
from kvstore.course.tables.climbs import Simulated, Stations, joins_of, own_threads, part_edges
from kvstore.model import Station, climb

MOST_DOTS: Final = 400
"""More calls than this are thinned out evenly: a cloud of dots shows no more."""
STEPS: Final = 400
CROSS: Final[dict[str, Any]] = {
    "marker": "x", "linestyle": "none", "color": style.BLACK, "markersize": 9,
    "markeredgewidth": 2, "zorder": 4,
}  # fmt: skip
"""What was simulated."""


def throughput_in_climb(
    runs: Runs,
    stations: Stations | None = None,
    simulated: Simulated | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Calls answered per second in each part as dots, min(N / D, 1 / D_max) as lines.

    What was simulated is drawn as crosses.
    """
    data = tables.throughput_in_climb(runs, stations, simulated)
    with style.canvas(ax) as ax:
        for place, (name, _) in enumerate(runs_by_name(runs)):
            marker, colour, _ = style.look(place)
            rates = data[f"{name}: measured (calls/s)"]
            ax.plot(data.index, rates, marker, color=colour, label=name, zorder=3)
            if simulated and name in simulated:
                ax.plot(data.index, data[f"{name}: simulated (calls/s)"], **CROSS)
        _lines(ax, runs, stations, climb.throughput_per_s)
        _name_the_crosses(ax, simulated)
        ax.set(xlabel="elapsed (s)", ylabel="answered, X (calls/s)", xlim=(0.0, None))
        ax.set_ylim(bottom=0.0)
        style.key_above(ax)
    return ax


def residence_in_climb(
    runs: Runs,
    stations: Stations | None = None,
    simulated: Simulated | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Each call as a dot: what it took, over when it was answered; N / X as lines.

    The means of what was simulated are drawn as crosses.
    """
    data = tables.residence_in_climb(runs, stations, simulated)

    def predicted_ms(joins_s: Sequence[float], parts: Sequence[Station], at_s: float) -> float:
        return 1e3 * climb.residence_s(joins_s, parts, at_s) or np.nan

    most_ms = 1.0
    with style.canvas(ax, height_in=5.5) as ax:
        for place, (name, run) in enumerate(runs_by_name(runs)):
            marker, colour, _ = style.look(place)
            calls = run.records[:: max(1, len(run.records) // MOST_DOTS)]
            took_ms = 1e3 * (calls["done_s"] - calls["sent_s"])
            most_ms = max(most_ms, *np.quantile(took_ms, [0.995]), 1.0) if len(calls) else most_ms
            ax.plot(
                calls["done_s"], took_ms, marker, color=colour, markersize=5, alpha=0.6,
                markeredgewidth=0, label=name,
            )  # fmt: skip
            if simulated and name in simulated:
                ax.plot(data.index, data[f"{name}: simulated (ms)"], **CROSS)
        _lines(ax, runs, stations, predicted_ms)
        _name_the_crosses(ax, simulated)
        ax.set(xlabel="answered after (s)", ylabel="residence, R (ms)", xlim=(0.0, None))
        ax.set_ylim(0.0, 1.2 * most_ms)
        style.key_above(ax)
    return ax


def threads_in_climb(
    runs: Runs, limits: Mapping[str, float] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Threads of each server's process as dots, own + min(N, limit) as lines."""
    with style.canvas(ax) as ax:
        for place, (name, run) in enumerate(runs_by_name(runs)):
            marker, colour, dashes = style.look(place)
            seen = run.samples
            every = max(1, len(seen) // 40)
            ax.plot(
                seen["elapsed_s"][::every], seen["server_threads"][::every], marker,
                color=colour, markersize=7, label=name, zorder=3,
            )  # fmt: skip
            if limits and name in limits:
                at = np.linspace(0.0, part_edges(run)[-1], STEPS)
                own = own_threads(run)
                line = [climb.threads(joins_of(run), limits[name], t, own) for t in at]
                ax.plot(at, line, dashes, color=style.PREDICTED, zorder=2)
        _name_the_lines(ax, bool(limits))
        ax.set(xlabel="elapsed (s)", ylabel="threads of the\nserver's process (threads)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.0)
        style.key_above(ax)
    return ax


def _lines(
    ax: Axes,
    runs: Runs,
    stations: Stations | None,
    predicted: Callable[[Sequence[float], Sequence[Station], float], float],
) -> None:
    for place, (name, run) in enumerate(runs_by_name(runs)):
        if stations and name in stations:
            _, _, dashes = style.look(place)
            at = np.linspace(0.0, part_edges(run)[-1], STEPS)
            line = [predicted(joins_of(run), stations[name], t) for t in at]
            ax.plot(at, line, dashes, color=style.PREDICTED, zorder=2)
    _name_the_lines(ax, bool(stations))


def _name_the_lines(ax: Axes, drawn: bool) -> None:
    if drawn:
        ax.plot([], [], color=style.PREDICTED, label="predicted")


def _name_the_crosses(ax: Axes, simulated: Simulated | None) -> None:
    if simulated:
        ax.plot([], [], label="simulated", **CROSS)
