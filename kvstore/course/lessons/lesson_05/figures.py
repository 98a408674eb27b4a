"""The figures of lesson 05: dots are measured, lines are predicted."""

from collections.abc import Collection, Mapping

from matplotlib.axes import Axes

from kvstore.course import views
from kvstore.course.lessons.lesson_05 import (
    batch_figures,
    batch_ladder,
)
from kvstore.course.views import style
from kvstore.measure import Run


def staircase_and_slab(runs: Mapping[str, Run], *, most: int, until_s: float) -> list[Axes]:
    """Draw the calls of each run as bars over the same time axis; a bar begins at sending."""
    axes = style.subplots(
        len(runs),
        figsize=(11.0, 2.3 * len(runs)),
        sharex=True,
        dpi=style.DPI,
        layout="constrained",
    )
    for ax, (name, run) in zip(axes, runs.items(), strict=True):
        views.plot_calls_over_time(run, most=most, until_s=until_s, ax=ax)
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()  # there is only one kind of call
        ax.set_title(name, loc="left", fontsize=style.TEXT_PT + 1)
        ax.set_xlim(0.0, until_s)
        ax.set_ylim(most + 0.7, 0.3)
    for ax in axes[:-1]:
        ax.set_xlabel("")
    return axes


def climbed(
    runs: Mapping[int, Run], cost: batch_ladder.Cost, *, fitted: Collection[int] = batch_ladder.ENDS
) -> list[Axes]:
    """Draw throughput and residence time by operations in a message, side by side."""
    axes = style.subplots(
        1,
        2,
        figsize=(14.0, 6.0),
        dpi=style.DPI,
        layout="constrained",
    )
    for figure, ax in zip(
        (batch_figures.throughput_by_batch, batch_figures.residence_by_batch), axes, strict=True
    ):
        figure(runs, **cost._asdict(), fitted=fitted, ax=ax)
    return axes
