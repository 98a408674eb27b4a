"""Writes that are committed to a disk: one by one, and in groups."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.views import style
from kvstore.course.views.inputs import by_row, rounded
from kvstore.measure import Run
from kvstore.model import Prediction


def throughput_by_commit_table(
    runs: Mapping[str, Mapping[int, Run]],
    predictions: Mapping[str, Callable[[int], Prediction]],
) -> pd.DataFrame:
    """Return X predicted and measured, and R, for each kind of commit and number in flight."""
    rows = []
    for name, by_in_flight in runs.items():
        for in_flight, run in sorted(by_in_flight.items()):
            predicted = predictions[name](in_flight)
            rows.append(
                {
                    "commits": name,
                    "in flight (calls)": in_flight,
                    "predicted (calls/s)": predicted.value,
                    "measured (calls/s)": run.answered_per_s,
                    "measured ÷ predicted": run.answered_per_s / predicted.value,
                    "binds": predicted.binds,
                    "residence (ms)": 1e3 * run.mean_residence_s,
                }
            )
    return rounded(by_row(rows, "commits"))


def plot_throughput_by_commit(
    runs: Mapping[str, Mapping[int, Run]],
    predictions: Mapping[str, Callable[[int], Prediction]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw throughput by calls in flight: a line and dots for each kind of commit."""
    data = throughput_by_commit_table(runs, predictions)
    most = int(data["in flight (calls)"].max())
    with style.canvas(ax, height_in=6.0) as ax:
        for place, name in enumerate(runs):
            marker, colour, dashes = style.look(place)
            in_flight = np.unique(np.geomspace(1, most, 60).astype(int))
            ax.plot(
                in_flight, [predictions[name](int(n)).value for n in in_flight],
                color=style.PREDICTED, linestyle=dashes, label=f"predicted: {name}", zorder=2,
            )  # fmt: skip
            rows = data.loc[[name]]
            ax.plot(
                rows["in flight (calls)"], rows["measured (calls/s)"], marker,
                color=colour, label=f"measured: {name}", zorder=3,
            )  # fmt: skip
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set(xlabel="in flight, N (calls)", ylabel="throughput, X (calls/s)")
        _finish(ax)
    return ax


def _finish(ax: Axes) -> None:
    for axis, scale in ((ax.xaxis, ax.get_xscale()), (ax.yaxis, ax.get_yscale())):
        if scale == "log":
            style.plain_numbers(axis)
    if ax.get_yscale() == "log":
        style.close_ticks(ax.yaxis)
    else:
        style.close_ticks(ax.xaxis)
