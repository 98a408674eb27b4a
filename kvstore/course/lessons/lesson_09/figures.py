"""The figures and tables of lesson 09: overload with and without a limit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.rendering import HasValue
from kvstore.course.views import style
from kvstore.course.views.style import MB, by_row, number, rounded
from kvstore.measure import Run, goodput

Curve = Callable[[float], HasValue | float]
"""Predicted goodput in calls/s, for an offered rate in calls/s."""
MOST_DOTS: Final = 60
"""The approximate number of samples drawn for a run."""


def goodput_by_offered_table(
    runs: Mapping[str, Sequence[Run]], predictions: Mapping[str, Curve], *, from_s: float = 0.0
) -> pd.DataFrame:
    """Return the goodput for each server and offered rate, and the outcomes of the other calls.

    Only the calls that were due from `from_s` seconds on count; the last column has all.
    """
    rows: list[dict[str, Any]] = []
    for name, group in runs.items():
        for run in group:
            found = goodput(run, from_s=from_s)
            rows.append(
                {
                    "server": name,
                    "offered (calls/s)": found.offered_per_s,
                    "predicted (calls/s)": number(predictions[name](found.offered_per_s)),
                    "in time (calls/s)": found.in_time_per_s,
                    "too late (calls)": found.late,
                    "refused (calls)": found.refused,
                    "served after their deadline (calls)": found.wasted,
                }
            )
    return rounded(by_row(rows, "server"))


def goodput_by_offered(
    runs: Mapping[str, Sequence[Run]], predictions: Mapping[str, Curve], *, from_s: float = 0.0
) -> Axes:
    """Draw goodput over offered rate: measured dots, predicted lines.

    Only the calls that were due from `from_s` seconds on count.
    """
    data = goodput_by_offered_table(runs, predictions, from_s=from_s)
    most = 1.05 * float(data["offered (calls/s)"].max())
    with style.canvas(height_in=6.0) as ax:
        for place, name in enumerate(runs):
            marker, colour, dashes = style.look(place)
            rows = data.loc[[name]].sort_values("offered (calls/s)")
            offered = np.linspace(most / 200, most, 200)
            line = [number(predictions[name](float(per_s))) or 0.0 for per_s in offered]
            ax.plot(
                offered,
                line,
                color=style.PREDICTED,
                linestyle=dashes,
                label=f"predicted: {name}",
                zorder=2,
            )
            ax.plot(
                rows["offered (calls/s)"],
                rows["in time (calls/s)"],
                marker,
                color=colour,
                label=f"measured: {name}",
                zorder=3,
            )
        ax.set(xlabel="offered (calls/s)", ylabel="in time (calls/s)")
        ax.set_xlim(0.0, most)
        ax.set_ylim(0.0, 1.15 * max(1.0, *data.filter(regex="predicted|in time").max()))
    return ax


def memory_in_burst(runs: Mapping[str, Run]) -> Axes:
    """Draw how much the server's memory has grown, over time, as dots for each run."""
    most_mb = 1.0
    with style.canvas(height_in=5.0) as ax:
        for place, (name, run) in enumerate(runs.items()):
            marker, colour, _ = style.look(place)
            samples = run.samples.iloc[:: max(1, len(run.samples) // MOST_DOTS)]
            grown = (samples["server_rss_bytes"] - run.samples["server_rss_bytes"].iloc[0]) / MB
            most_mb = max(most_mb, grown.max())
            ax.plot(samples["elapsed_s"], grown, marker, color=colour, markersize=7, label=name)
        ax.set(xlabel="elapsed (s)", ylabel="server memory, grown by (MB)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(0.0, 1.15 * most_mb)
    return ax
