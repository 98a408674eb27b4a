"""Bursts: how long each turn took, how calls ended, and the collections meanwhile."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.figures.growth import LOOKS
from kvstore.course.figures.shares import stack
from kvstore.course.named import Runs, number, runs_by_name
from kvstore.course.predictions import HasValue
from kvstore.measure import Run

ENDS = {
    "OK": (style.GREEN, ""),
    "CANCELLED": (style.RED, "xxx"),
    "RESOURCE_EXHAUSTED": (style.ORANGE, "..."),
    "DEADLINE_EXCEEDED": (style.PURPLE, "///"),
    "UNAVAILABLE": (style.GREY, "---"),
}
"""Colour and hatching of the ends that overload brings; others share one look."""
OTHER = (style.SKY, "")
MOST_DOTS = 60
"""About as many samples of a run are drawn; more would be a thick line."""


def turns(
    run: Run,
    prediction: HasValue | float | None = None,
    *,
    memory: Mapping[str, HasValue | float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Turn by turn: the seconds until it was answered or, given `memory`, the megabytes it took.

    Measured are dots, `prediction` or each side's of `memory` a line.
    """
    data = tables.turns(run, prediction, memory=memory)
    with style.canvas(ax) as ax:
        if memory is None:
            seconds = data["answered after (s)"]
            ax.plot(data.index, seconds, "o", color=style.MEASURED, label="measured")
            predicted_s = number(prediction)
            if predicted_s is not None:
                ax.axhline(predicted_s, color=style.PREDICTED, label="predicted", zorder=1)
            ax.set(ylabel="answered after (s)", ylim=(0.0, 1.2 * max([*seconds, predicted_s or 0])))
        else:
            _memory(ax, data.filter(like="(MB)"), memory)
        ax.set(xlabel="turn (number)")
        ax.set_xlim(0.5, len(data) + 0.5)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        style.key_above(ax)
    return ax


def _memory(ax: Axes, data: pd.DataFrame, memory: Mapping[str, HasValue | float]) -> None:
    for side, (marker, colour, dashes) in LOOKS.items():
        held = data[f"{side}, most (MB)"]
        ax.plot(held.index, held, marker, color=colour, markersize=7, label=f"{side}, measured")
        if side in memory:
            ax.axhline(
                number(memory[side]) or 0.0, color=style.PREDICTED, linestyle=dashes,
                label=f"{side}, predicted", zorder=1,
            )  # fmt: skip
    most_mb = max([1.0, *data.max().dropna()])
    ax.set(ylabel="resident memory, most (MB)", ylim=(0.0, 1.15 * most_mb))


def endings(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """One bar for each run: the share of its calls that ended OK, and of those that did not."""
    data = tables.endings(runs).rename(columns=lambda heading: heading.removesuffix(" (calls)"))
    ends = 100 * data.drop(columns="sent").div(data["sent"], axis=0)
    with style.canvas(ax, height_in=2.4 + 0.8 * len(data)) as ax:
        stack(ax, ends, {str(name): ENDS.get(str(name), OTHER) for name in ends})
        ax.set(xlabel="share of the calls sent (%)", ylabel="run")
    ax.grid(visible=False, axis="y")
    return ax


def collections(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Collections of both sides over time, of all generations, on a logarithmic axis.

    Dots for about `MOST_DOTS` samples; the runs differ in being filled or hollow.
    """
    with style.canvas(ax) as ax:
        for place, (name, run) in enumerate(runs_by_name(runs)):
            samples = run.samples.iloc[:: max(1, len(run.samples) // MOST_DOTS)]
            for side, (marker, colour, _) in LOOKS.items():
                told = samples[[f"{side}_{age}" for age in ("young", "middle", "full")]]
                counted = told.sum(axis=1, skipna=False)
                shown = counted[counted > 0]
                ax.plot(
                    samples.loc[shown.index, "elapsed_s"], shown, marker, color=colour,
                    markersize=7, markerfacecolor="white" if place % 2 else colour,
                    label=f"{name}, {side}",
                )  # fmt: skip
        ax.set_yscale("log")
        style.plain_numbers(ax.yaxis)
        ax.set(xlabel="elapsed (s)", ylabel="so far (collections)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.8)
        style.key_above(ax)
    return ax
