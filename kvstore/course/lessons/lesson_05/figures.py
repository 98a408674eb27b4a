"""The figures of lesson 05: dots are measured, lines are predicted."""

from collections.abc import Collection, Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore.course import views
from kvstore.course.lessons.lesson_05 import (
    batch_figures,
    batch_ladder,
    pipelining,
)
from kvstore.course.lessons.lesson_05.pipelining import Replication
from kvstore.course.views import style
from kvstore.measure import Run


def staircase_and_slab(runs: Mapping[str, Run], *, most: int, until_s: float) -> list[Axes]:
    """Draw the calls of each run as bars over the same time axis; a bar begins at sending."""
    axes = style.subplots(
        len(runs), figsize=(11.0, 2.3 * len(runs)), sharex=True, dpi=style.DPI,
        layout="constrained",
    )  # fmt: skip
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


def both_orders(run: Run, *, most: int = 24) -> Axes:
    """Draw each call as a bar until it was done, and the wait that replies in order would add."""
    data = pipelining.both_orders(run, most=most)
    begin, done = data["sent (ms)"], data["done as finished (ms)"]
    with style.canvas(height_in=7.0) as ax:
        for name, (colour, hatch) in style.OPERATIONS.items():
            own = data.index[data["operation"] == name]
            if len(own):
                ax.barh(
                    own, done[own] - begin[own], left=begin[own], height=0.75, color=colour,
                    hatch=hatch, edgecolor="black", linewidth=0.5, label=name,
                )  # fmt: skip
        ax.barh(
            data.index, data["held back (ms)"], left=done, height=0.75, color="none",
            edgecolor=style.RED, linestyle="--", linewidth=1.2,
            label="wait with replies in order",
        )  # fmt: skip
        ax.set(xlabel="elapsed (ms)", ylabel="sent as number (call)")
        ax.set_ylim(len(data) + 0.7, 0.3)
        ax.set_xlim(left=0.0)
        ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.grid(visible=False, axis="y")
    return ax


def climbed(
    runs: Mapping[int, Run], cost: batch_ladder.Cost, *, fitted: Collection[int] = batch_ladder.ENDS
) -> list[Axes]:
    """Draw throughput and residence time by operations in a message, side by side."""
    axes = style.subplots(
        1, 2, figsize=(14.0, 6.0), dpi=style.DPI, layout="constrained",
    )  # fmt: skip
    for figure, ax in zip(
        (batch_figures.throughput_by_batch, batch_figures.residence_by_batch), axes, strict=True
    ):
        figure(runs, **cost._asdict(), fitted=fitted, ax=ax)
    return axes


def commit_over_time(copies: Sequence[Replication], round_trip_s: float | None = None) -> Axes:
    """Draw the commit index over time for each copy, and the predicted t·window/D as a line."""
    with style.canvas(height_in=6.0) as ax:
        for place, copy in enumerate(copies):
            marker, colour, _ = style.look(place)
            ax.plot(
                1e3 * copy.acks["acked_s"], copy.acks["commit_index"], marker, color=colour,
                markersize=6, label=f"window {copy.window}", zorder=3,
            )  # fmt: skip
        if round_trip_s is not None:
            longest_s = max(copy.duration_s for copy in copies)
            for number, copy in enumerate(copies):
                end_s = min(longest_s, copy.entries * round_trip_s / copy.window)
                ax.plot(
                    [0.0, 1e3 * end_s], [0.0, end_s * copy.window / round_trip_s],
                    color=style.PREDICTED, label="t · window / D" if number == 0 else None,
                )  # fmt: skip
        ax.set(xlabel="elapsed (ms)", ylabel="commit index (entries)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.0)
    return ax


def stored_and_committed(copy: Replication, *, most: int = 60) -> Axes:
    """Draw the acknowledged entries over time, and the commit index, which waits at gaps."""
    acks = copy.acks.head(most)
    at_ms = 1e3 * acks["acked_s"]
    with style.canvas(height_in=6.0) as ax:
        early = acks["index"] > acks["commit_index"]
        ax.plot(
            at_ms[~early], acks.loc[~early, "index"], "o", color=style.GREEN, markersize=8,
            label="acknowledged in order",
        )  # fmt: skip
        ax.plot(
            at_ms[early], acks.loc[early, "index"], "^", color=style.ORANGE, markersize=8,
            markeredgecolor="black", label="acknowledged early, waits",
        )  # fmt: skip
        ax.step(
            at_ms, acks["commit_index"], where="post", color=style.BLUE, linewidth=2.5,
            label="commit index",
        )  # fmt: skip
        ax.set(xlabel="elapsed (ms)", ylabel="index of the entry (entries)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.0)
    return ax


def reply_order(run: Run, *, most: int = 60) -> Axes:
    """Draw each call's position in the order of replies over its position in the order of sending.

    On the line, replies come in the order of requests. A call below the line overtook others; a
    call above it was overtaken.
    """
    calls = run.calls.head(most)
    sent_as = pd.Series(range(1, len(calls) + 1), index=calls.index)
    answered_as = calls["done_s"].rank(method="first")
    with style.canvas(height_in=6.0) as ax:
        ends = [1, max(2, len(calls))]
        ax.plot(ends, ends, color=style.PREDICTED, linewidth=2, label="in the order of requests")
        for name, (colour, _) in style.OPERATIONS.items():
            own = calls.index[calls["operation"] == name]
            if len(own):
                ax.plot(
                    sent_as[own], answered_as[own], style.MARKERS[name], color=colour,
                    markeredgecolor="black", label=name,
                )  # fmt: skip
        ax.set(xlabel="sent as number (call)", ylabel="answered as number (call)")
    return ax
