"""Throughput against the number in flight, under its bounds."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.measure import Run
from kvstore.model import Station, bounds

PLENTY = 10**12
"""So many in flight that only the busiest station matters."""
EARLY = 0.4
"""An N* in this part of the axis leaves no room beside it for the words on the ceiling."""


def throughput_by_in_flight(
    runs: Sequence[Run],
    stations: Sequence[Station] = (),
    *,
    think_s: float = 0.0,
    simulated: Mapping[int, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Measured dots on logarithmic axes, under N/(D+Z), 1/D_max and the N* where they meet.

    `simulated` gives operations per second by the number in flight: a third series, for where
    the bound is known to promise too much.
    """
    data = tables.throughput_by_in_flight(runs, stations, think_s=think_s)
    with style.canvas(ax, height_in=6.0) as ax:
        if stations:
            _bounds(ax, stations, think_s, most=max(data.index, default=1))
        if simulated:
            ax.plot(
                list(simulated), list(simulated.values()), "--", marker="x", markeredgewidth=3,
                color=style.GREEN, label="simulated", zorder=2.5,
            )  # fmt: skip
        ax.plot(
            data.index, data["measured (operations/s)"], "o",
            color=style.MEASURED, label="measured", zorder=3,
        )  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set(xlabel="in flight, N (calls)", ylabel="throughput, X (operations/s)")
        style.plain_numbers(ax.xaxis)
        style.plain_numbers(ax.yaxis)
        style.close_ticks(ax.yaxis)
        _key(ax)
        ax.margins(0.08)
    return ax


def _key(ax: Axes) -> None:
    """The legend, with each name once: two servers may be drawn on the same axes."""
    handles, names = ax.get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    ax.legend(once.values(), once.keys(), loc="lower right")


def _bounds(ax: Axes, stations: Sequence[Station], think_s: float, most: int) -> None:
    slope = bounds.closed_loop(1, stations, think_s=think_s).value
    ceiling = bounds.closed_loop(PLENTY, stations, think_s=think_s)
    knee = bounds.knee(stations, think_s)
    right = 1.5 * (max(most, 2 * knee) if math.isfinite(knee) else most)
    in_flight = np.geomspace(1, right, 200)
    ax.plot(
        in_flight, np.minimum(slope * in_flight, ceiling.value),
        color=style.PREDICTED, label="bound", zorder=2,
    )  # fmt: skip
    if not math.isfinite(knee):
        return  # no station ever binds
    beyond = np.array([knee, min(right, 3 * knee)])
    ax.plot(beyond, slope * beyond, color=style.PREDICTED, linestyle=":", linewidth=2)
    ax.annotate(
        "N/(D+Z)", (beyond[1], slope * beyond[1]), (8, -4),
        textcoords="offset points", color=style.PREDICTED,
    )  # fmt: skip
    early = math.log(max(knee, 1.0)) < EARLY * math.log(right)  # no room left of N*
    ax.annotate(
        f"1/D_max = {style.rate(ceiling.value)} ({ceiling.binds})",
        (right if early else 1.0, ceiling.value), (0, 8), ha="right" if early else "left",
        textcoords="offset points", color=style.PREDICTED,
    )  # fmt: skip
    ax.plot([1.0, knee], [ceiling.value] * 2, color=style.PREDICTED, linestyle=":", linewidth=2)
    ax.axvline(knee, color=style.GREY, linestyle="--", linewidth=1.5)
    ax.annotate(
        f"N* = {knee:.3g}", (knee, 1.0), (0, 6), xycoords=("data", "axes fraction"),
        textcoords="offset points", color=style.GREY, ha="center",
    )  # fmt: skip
