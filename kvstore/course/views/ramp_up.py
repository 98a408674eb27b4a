"""Users who join one after the other: throughput, residence time and threads over time."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.views import style
from kvstore.course.views.style import Runs, rounded, runs_by_name
from kvstore.measure import Run
from kvstore.model import Station, bounds, simulate
from kvstore.protocol import OK

PARTS: Final = 16
"""The number of parts of a ramp-up, its hold at the end included."""
LOOKS: Final = 9
"""The mean of a prediction over a part is taken from so many moments."""
KIB: Final = 1024

Floats: TypeAlias = npt.NDArray[np.float64]
Stations: TypeAlias = Mapping[str, Sequence[Station]]
"""The stations of the prediction for each run by its name."""
Simulated: TypeAlias = Mapping[str, Sequence[simulate.Call]]
"""The simulated calls for each run by its name."""


def throughput_in_climb_table(
    runs: Runs, stations: Stations | None = None, simulated: Simulated | None = None
) -> pd.DataFrame:
    """Return the calls answered per second in each part, beside min(N / D, 1 / D_max).

    `simulated` maps the name of a run to the calls of `simulate.joined`.
    """

    def counted(sent_s: Floats, done_s: Floats, edges: Floats) -> Floats:
        return np.histogram(done_s, bins=edges)[0] / np.diff(edges)

    return _followed(runs, stations, simulated, "calls/s", counted, bounds.throughput_per_s)


def residence_in_climb_table(
    runs: Runs, stations: Stations | None = None, simulated: Simulated | None = None
) -> pd.DataFrame:
    """Return the mean residence time of the calls answered in each part, beside N / X, in ms.

    A part without replies, measured or predicted, has no row. `simulated` maps the name of a run
    to the calls of `simulate.joined`.
    """

    def mean_ms(sent_s: Floats, done_s: Floats, edges: Floats) -> Floats:
        counts, _ = np.histogram(done_s, bins=edges)
        sums, _ = np.histogram(done_s, bins=edges, weights=1e3 * (done_s - sent_s))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def predicted(joins_s: Sequence[float], parts: Sequence[Station], at_s: float) -> float:
        return 1e3 * bounds.residence_s(joins_s, parts, at_s) or np.nan  # NaN before a reply

    table = _followed(runs, stations, simulated, "ms", mean_ms, predicted)
    return table.dropna(how="all", subset=list(table.columns[1:]))


def ramp_up_table(runs: Runs) -> pd.DataFrame:
    """Return each run in the columns of JMeter's summary report, over all calls.

    Bytes are those of the messages, without the headers of HTTP/2.
    """
    rows = {}
    for name, run in runs_by_name(runs):
        calls = run.records
        took_ms = 1e3 * (calls["done_s"] - calls["sent_s"])
        samples, window_s = max(1, len(calls)), run.window_s or 1.0
        received, sent = float(calls["reply_bytes"].sum()), float(calls["request_bytes"].sum())
        rows[name] = {
            "# samples": len(calls),
            "average (ms)": took_ms.mean() if len(calls) else np.nan,
            "min (ms)": took_ms.min(initial=np.inf),
            "max (ms)": took_ms.max(initial=0.0),
            "std. dev. (ms)": took_ms.std() if len(calls) else np.nan,
            "error (%)": 100 * float(np.count_nonzero(calls["status"] != OK)) / samples,
            "throughput (calls/s)": len(calls) / window_s,
            "received (KB/s)": received / KIB / window_s,
            "sent (KB/s)": sent / KIB / window_s,
            "avg. bytes": received / samples,
        }
    return rounded(pd.DataFrame.from_dict(rows, orient="index").rename_axis("label"))


def part_edges(run: Run) -> Floats:
    """Return the edges of the parts of a ramp-up; the drain at the end is left out."""
    ends_s = float(run.settings.get("duration_s") or run.window_s or 1.0)
    return np.linspace(0.0, ends_s, PARTS + 1)


def own_threads(run: Run) -> float:
    """Return the threads of the server process at the start of the run."""
    return float(run.samples["server_threads"].iloc[0]) if len(run.samples) else 0.0


def joins_of(run: Run) -> Sequence[float]:
    """Return the time at which each user began; 0 for all in a run without joins."""
    joins: Sequence[float] = run.settings.get("joins") or [0.0] * run.in_flight
    return joins


def _mean(values: Sequence[float]) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def _by_time(columns: Mapping[str, object]) -> pd.DataFrame:
    """Return the columns as a table by time, to a thousandth of a second."""
    return rounded(pd.DataFrame(columns).round({"elapsed (s)": 3}).set_index("elapsed (s)"))


def _users(run: Run, at: Floats) -> list[int]:
    return [bounds.users(joins_of(run), at_s) for at_s in at]


def _followed(
    runs: Runs,
    stations: Stations | None,
    simulated: Simulated | None,
    unit: str,
    figure: Callable[[Floats, Floats, Floats], Floats],
    predicted: Callable[[Sequence[float], Sequence[Station], float], float],
) -> pd.DataFrame:
    """Return one row for each part of the first run; predictions are means over the part."""
    named = runs_by_name(runs)
    edges = part_edges(named[0][1])
    middles = (edges[:-1] + edges[1:]) / 2
    columns: dict[str, object] = {"elapsed (s)": middles, "users": _users(named[0][1], middles)}
    for name, run in named:
        if stations and name in stations:
            joins_s, parts = joins_of(run), stations[name]
            columns[f"{name}: predicted ({unit})"] = [
                _mean([predicted(joins_s, parts, at_s) for at_s in np.linspace(*part, LOOKS)])
                for part in itertools.pairwise(edges)
            ]
        if simulated and name in simulated:
            played = np.array([(call.sent_s, call.done_s) for call in simulated[name]])
            columns[f"{name}: simulated ({unit})"] = figure(played[:, 0], played[:, 1], edges)
        calls = run.records
        columns[f"{name}: measured ({unit})"] = figure(calls["sent_s"], calls["done_s"], edges)
    return _by_time(columns)


MOST_DOTS: Final = 400
"""Of more calls than this, an even selection is drawn."""
STEPS: Final = 400
CROSS: Final[dict[str, Any]] = {
    "marker": "x", "linestyle": "none", "color": style.BLACK, "markersize": 9,
    "markeredgewidth": 2, "zorder": 4,
}  # fmt: skip
"""The look of simulated values."""
LINE: Final[dict[str, Any]] = {"color": style.PREDICTED, "zorder": 2}


def plot_throughput_in_climb(
    runs: Runs,
    stations: Stations | None = None,
    simulated: Simulated | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw calls answered per second in each part as dots, min(N / D, 1 / D_max) as lines.

    Simulated values are crosses.
    """
    data = throughput_in_climb_table(runs, stations, simulated)
    with style.canvas(ax) as ax:
        for place, (name, _) in enumerate(runs_by_name(runs)):
            marker, colour, _ = style.look(place)
            rates = data[f"{name}: measured (calls/s)"]
            ax.plot(data.index, rates, marker, color=colour, label=name, zorder=3)
            if simulated and name in simulated:
                ax.plot(data.index, data[f"{name}: simulated (calls/s)"], **CROSS)
        _lines(ax, runs, stations, bounds.throughput_per_s)
        _label_crosses(ax, simulated)
        ax.set(xlabel="elapsed (s)", ylabel="answered, X (calls/s)", xlim=(0.0, None))
        ax.set_ylim(bottom=0.0)
    return ax


def plot_residence_in_climb(
    runs: Runs,
    stations: Stations | None = None,
    simulated: Simulated | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the residence time of each call over the time of its reply; N / X is a line.

    Means of simulated calls are crosses.
    """
    data = residence_in_climb_table(runs, stations, simulated)

    def predicted_ms(joins_s: Sequence[float], parts: Sequence[Station], at_s: float) -> float:
        return 1e3 * bounds.residence_s(joins_s, parts, at_s) or np.nan

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
        _label_crosses(ax, simulated)
        ax.set(xlabel="answered after (s)", ylabel="residence, R (ms)", xlim=(0.0, None))
        ax.set_ylim(0.0, 1.2 * most_ms)
    return ax


def plot_threads_in_climb(
    runs: Runs, limits: Mapping[str, float] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the threads of each server process as dots, own + min(N, limit) as lines."""
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
                line = [bounds.threads(joins_of(run), limits[name], t, own) for t in at]
                ax.plot(at, line, dashes, label=f"predicted, {name}", **LINE)
        ax.set(xlabel="elapsed (s)", ylabel="threads of the\nserver process (threads)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.0)
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
            ax.plot(at, line, dashes, label=f"predicted, {name}", **LINE)


def _label_crosses(ax: Axes, simulated: Simulated | None) -> None:
    if simulated:
        ax.plot([], [], label="simulated", **CROSS)
