"""Writes that are kept: what one fsync for many brings, and how long a quorum takes."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.measure import Run
from kvstore.model import Prediction

DOTS = np.array([0.02, *np.arange(0.1, 0.95, 0.1), 0.95, 0.99])
"""The shares of calls for which a dot is drawn."""


def throughput_by_commit(
    runs: Mapping[str, Mapping[int, Run]],
    predictions: Mapping[str, Callable[[int], Prediction]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Throughput by calls in flight: a line and dots for each way to commit."""
    data = tables.throughput_by_commit(runs, predictions)
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


def answered_within(
    runs: Mapping[str, Run],
    predictions: Mapping[str, Callable[[float], float]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """The share of calls that were answered OK by each time: lines and dots.

    `predictions` gives seconds for a share, by the name of the run.
    """
    shares = np.linspace(0.01, 0.99, 99)
    with style.canvas(ax, height_in=6.0) as ax:
        for place, (name, run) in enumerate(runs.items()):
            marker, colour, dashes = style.look(place)
            ax.plot(
                [1e3 * predictions[name](float(share)) for share in shares], 100 * shares,
                color=style.PREDICTED, linestyle=dashes, label=f"predicted: {name}", zorder=2,
            )  # fmt: skip
            ax.plot(
                [1e3 * run.latency_s(float(share)) for share in DOTS], 100 * DOTS, marker,
                color=colour, label=f"measured: {name}", zorder=3,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set(xlabel="latency (ms)", ylabel="answered (% of the calls)")
        ax.set_ylim(0, 103)
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
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
