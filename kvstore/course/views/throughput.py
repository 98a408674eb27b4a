"""Throughput of runs, of steps, and by the number of calls in flight, beside bounds and models."""

import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from kvstore import numbers
from kvstore.course.rendering import TIMES, HasValue
from kvstore.course.views import style
from kvstore.course.views.style import number
from kvstore.measure import Run
from kvstore.model import Station, bounds

MILLION = 1_000_000
FLAT = 2.0
"""A step by less than this factor looks nearly level."""


def plot_ladder(steps: Mapping[str, Run | HasValue | float]) -> Axes:
    """Draw throughput step by step on a logarithmic axis: runs as dots, predictions as lines.

    A plain number, such as a published one, is drawn as a hollow dot. From a million on, labels
    are in millions: M/s.
    """
    rates = [
        step.throughput_per_s if isinstance(step, Run) else number(step) or 0.0
        for step in steps.values()
    ]
    with style.canvas(height_in=style.HIGH_IN, title="Throughput, step by step") as ax:
        decades = max(rates) > style.LOG_FROM * min(rates)
        ax.plot(range(len(rates)), rates, color=style.INK, linewidth=1.5, zorder=1)
        for place, (step, rate) in enumerate(zip(steps.values(), rates, strict=True)):
            if isinstance(step, HasValue) and not isinstance(step, Run):
                ax.hlines(rate, place - 0.3, place + 0.3, color=style.PREDICTED)
            else:
                fill = style.MEASURED if isinstance(step, Run) else "none"
                ax.plot(place, rate, "o", color=style.MEASURED, markerfacecolor=fill)
            # Labels of seven digits would overlap.
            label = (
                f"{numbers.number(rate / MILLION)} M/s" if rate >= MILLION else numbers.rate(rate)
            )
            ax.annotate(label, (place, rate), (0, 14), textcoords="offset points", ha="center")
        for place, pair in enumerate(itertools.pairwise(rates)):
            flat = max(pair) < FLAT * min(pair)  # below both dots: beside, it would hide one
            ax.annotate(
                f"{TIMES} {numbers.number(pair[1] / pair[0])}",
                (place + 0.5, min(pair) if flat else math.sqrt(pair[0] * pair[1])),
                (-20, -32) if flat else (8, -16),
                textcoords="offset points",
                color=style.INK,
            )
        if decades:
            ax.set_yscale("log")
        ax.set(xticks=range(len(rates)), ylabel="throughput (operations/s)", xlabel="step")
        ax.set_xticklabels(list(steps))
        ax.margins(x=0.1, y=0.2)
        if not decades:
            ax.set_ylim(0.0, 1.25 * max(rates))
    return ax


PLENTY = 10**12
"""A number in flight at which only the bottleneck limits throughput."""
NEAR = 4.0
"""N* is shown up to so many times the most calls in flight."""


def plot_throughput_by_in_flight(
    runs: Sequence[Run],
    stations: Sequence[Station] = (),
) -> Axes:
    """Draw measured dots with N/D and 1/D_max, and name N*, where the two meet, and 1/D_max.

    Runs with numbers in flight that are far apart, such as 1 and 1,000, have logarithmic axes.
    """
    with style.canvas(height_in=style.HIGH_IN, title="Throughput by the calls in flight") as ax:
        most = max((run.in_flight for run in runs), default=1)
        right = draw_bounds(ax, stations, most) if stations else 1.05 * most
        ax.plot(
            [run.in_flight for run in runs],
            [run.throughput_per_s for run in runs],
            "o",
            color=style.MEASURED,
            label="measured",
            zorder=3,
        )
        ax.set(xlabel="in flight, N (calls)", ylabel="throughput, X (operations/s)")
        rates = [run.throughput_per_s for run in runs]
        if stations:
            rates.append(bounds.closed_loop(math.ceil(right), stations).value)
        if style.decades([run.in_flight for run in runs]):
            ax.set(xscale="log", yscale="log")
            ax.margins(0.08)
        else:
            ax.set_xlim(0, right)
            ax.set_ylim(0, 1.2 * max(rates, default=1.0))
    return ax


def draw_bounds(ax: Axes, stations: Sequence[Station], most: int) -> float:
    """Draw N/D and 1/D_max as a line, and name 1/D_max and N*. Return where the line ends.

    It ends at `most` calls in flight, or beyond N* where that is near.
    """
    slope = bounds.closed_loop(1, stations).value
    ceiling = bounds.closed_loop(PLENTY, stations)
    knee = bounds.knee(stations)
    near = most <= knee <= NEAR * most
    right = 1.3 * knee if near else 1.05 * most
    in_flight = np.unique(np.clip([0.0, 1.0, knee, right], 0.0, right))
    ax.plot(
        in_flight,
        np.minimum(slope * in_flight, ceiling.value),
        color=style.PREDICTED,
        label="bound",
        zorder=2,
    )
    if knee >= right:
        return right  # no station binds here
    ax.annotate(
        f"1/D_max = {numbers.rate(ceiling.value)} ({ceiling.binds})",
        (right, ceiling.value),
        (0, 8),
        textcoords="offset points",
        ha="right",
        color=style.PREDICTED,
    )
    ax.axvline(knee, color=style.INK, linestyle="--", linewidth=1.5)
    ax.annotate(
        f"N* = {numbers.number(knee)}",
        (knee, 0.0),
        (8, 8),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        color=style.INK,
    )
    return right


Points: TypeAlias = tuple[ArrayLike, ArrayLike]
"""The x and the y of several points."""


def plot_measured_over_predicted(
    measured: Mapping[str, Points],
    predicted: Mapping[str, Points] = MappingProxyType({}),
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    small: bool = False,
) -> Axes:
    """Draw dots for each measurement and a line for each prediction, by their names.

    The nth line belongs to the nth dots, where there are several. `small` dots are for many.
    """
    with style.canvas(height_in=style.HIGH_IN, title=title) as ax:
        for place, (name, (xs, ys)) in enumerate(predicted.items()):
            dashes = style.look(place)[2]
            ax.plot(xs, ys, dashes, color=style.PREDICTED, linewidth=2, label=name, zorder=2)
        for place, (name, (xs, ys)) in enumerate(measured.items()):
            marker, colour, _ = style.look(place)
            size = 6 if small else None
            ax.plot(xs, ys, marker, color=colour, markersize=size, label=name, zorder=3)
        ax.set(xlabel=xlabel, ylabel=ylabel)
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.0)
    return ax
