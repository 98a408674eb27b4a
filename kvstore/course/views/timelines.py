"""One run over time: throughput, calls in flight, latency, memory, and its single calls."""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore import numbers
from kvstore.course.rendering import HasValue
from kvstore.course.views import style
from kvstore.course.views.style import (
    number,
    slices,
    window_s,
)
from kvstore.measure import Run
from kvstore.measure.audit import in_flight_between
from kvstore.protocol import OK

ANSWERED = "Calls answered OK, over time"
SLICE_S = 0.25
"""The length of a slice in which answered calls are counted, in seconds."""


def plot_answered_over_time(
    runs: Mapping[str, Run],
    prediction: HasValue | float | None = None,
    *,
    cause_s: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the calls answered OK per second over time, as dots for each run.

    More than two runs have axes of their own, with the same scale; those of the first are returned.
    Drawn is the time in which calls were sent: in an open loop, until its duration is over.
    `prediction` in calls/s is a line. `cause_s` is when the cause of a failure began and ended, in
    seconds: that time is shaded.
    """
    if ax is None and len(runs) > 2:
        return _side_by_side(runs, prediction, cause_s)
    predicted, most = number(prediction), 1.0
    longest_s = max(run.settings.get("duration_s") or run.window_s for run in runs.values())
    edges = np.arange(0.0, max(longest_s, SLICE_S) + SLICE_S / 2, SLICE_S)
    with style.canvas(ax, height_in=5.0, title=ANSWERED) as ax:
        for place, (name, run) in enumerate(runs.items()):
            ok = run.records[run.records["status"] == OK]
            per_s = np.histogram(ok["done_s"], edges)[0] / SLICE_S
            marker, colour, _ = style.look(place)
            ax.plot(
                (edges[:-1] + edges[1:]) / 2, per_s, marker, color=colour, markersize=8, label=name
            )
            most = max(most, *per_s)
        if predicted is not None:
            ax.axhline(predicted, color=style.PREDICTED, label="predicted", zorder=1)
        if cause_s is not None:
            ax.axvspan(*cause_s, color=style.INK, alpha=0.25, label="the peak", zorder=0)
        ax.set(xlabel="elapsed (s)", ylabel="answered OK (calls/s)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(0.0, 1.15 * max(most, predicted or 0.0))
    return ax


def _side_by_side(
    runs: Mapping[str, Run],
    prediction: HasValue | float | None,
    cause_s: tuple[float, float] | None,
) -> Axes:
    tops = []
    axes = style.subplots(
        1,
        len(runs),
        title=ANSWERED,
        figsize=(style.WIDE_IN, 4.5),
        sharey=True,
        dpi=style.DPI,
        layout="constrained",
    )
    for ax, (name, run) in zip(axes, runs.items(), strict=True):
        plot_answered_over_time({name: run}, prediction, cause_s=cause_s, ax=ax)
        tops.append(ax.get_ylim()[1])
    axes[0].set_ylim(0.0, max(tops))
    for ax in axes[1:]:
        ax.set_ylabel("")
    return axes[0]


FAR = 4.0
"""A learner's number this many times above what was measured stands at the edge, with an arrow."""


def plot_throughput_over_time(
    run: Run, *, yours: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the operations answered OK in each slice of the run.

    `yours` is the learner's prediction, in operations/s, as a line.
    """
    ok = run.calls[run.calls["ok_operations"] > 0]
    counts, edges = np.histogram(
        ok["done_s"], bins=slices(run), range=(0.0, window_s(run)), weights=ok["ok_operations"]
    )
    per_s = counts / np.diff(edges)
    top = max([*per_s, 1e-9])
    with style.canvas(ax, height_in=4.0, title="Operations answered OK, over time") as ax:
        ax.plot(
            (edges[:-1] + edges[1:]) / 2,
            per_s,
            "o",
            color=style.MEASURED,
            markersize=7,
            label="measured",
        )
        if yours is not None:
            far = yours > FAR * top
            top = max(top, 0.0 if far else yours)
            ax.axhline(
                1.1 * top if far else yours,
                color=style.PREDICTED,
                linestyle="--",
                zorder=1,
                label=f"you said {numbers.rate(yours)}" + (", far above" if far else ""),
            )
            if far:
                ax.annotate(
                    "↑",
                    (0.5, 1.1 * top),
                    (0, 2),
                    xycoords=("axes fraction", "data"),
                    textcoords="offset points",
                    ha="center",
                    color=style.PREDICTED,
                )
        ax.set(xlabel="elapsed (s)", ylabel="throughput\n(operations/s)")
        ax.set_ylim(0.0, 1.15 * top)
        ax.set_xlim(left=0.0)
    return ax


def plot_in_flight_over_time(run: Run, *, ax: Axes | None = None) -> Axes:
    """Draw the calls in flight in each slice of the run, and the strategy's limit as a line."""
    edges = np.linspace(0.0, window_s(run), slices(run) + 1)
    mean = in_flight_between(run.records["sent_s"], run.records["done_s"], edges)
    with style.canvas(ax, height_in=4.0, title="Calls in flight, over time") as ax:
        ax.plot(
            (edges[:-1] + edges[1:]) / 2,
            mean,
            "o",
            color=style.MEASURED,
            markersize=7,
            label="measured",
        )
        if run.in_flight:
            ax.axhline(run.in_flight, color=style.INK, linestyle="--", label="limit", zorder=1)
        ax.set(xlabel="elapsed (s)", ylabel="in flight\n(calls)")
        ax.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
        ax.set_ylim(0.0, 1.15 * max([*mean, run.in_flight, 1]))
        ax.set_xlim(left=0.0)
    return ax


def _lanes(sent_s: Iterable[float], done_s: Iterable[float]) -> list[int]:
    """Return the lowest free lane, from 1, for each call in the order of sending."""
    free_at_s: list[float] = []
    lanes = []
    for sent, done in zip(sent_s, done_s, strict=True):
        lane = next((n for n, at_s in enumerate(free_at_s) if at_s <= sent), len(free_at_s))
        free_at_s[lane : lane + 1] = [done]
        lanes.append(lane + 1)
    return lanes


HATCHED_ROWS = 40
"""With more rows, bars are too thin for hatching: a marker at the start shows the kind."""


def plot_calls_over_time(
    run: Run,
    *,
    most: int = 120,
    until_s: float = math.inf,
    lanes: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw each call as a bar from sent to done, the first one on top.

    Blocking calls look like a staircase: each begins where the last one ended. Pipelined calls
    look like a slab. With `lanes`, a call is drawn in the topmost free row, so the number of rows
    in use is the number in flight. Drawn are the first `most` calls that were sent before
    `until_s`.
    """
    calls = run.calls
    shown = calls[calls["sent_s"] < until_s].head(most)
    row_of = _lanes(shown["sent_s"], shown["done_s"]) if lanes else range(1, len(shown) + 1)
    place = pd.Series(row_of, index=shown.index, dtype=int)
    rows = int(place.max()) if len(shown) else 1
    height_in = 2.5 + 0.2 * max(rows, 5)
    with style.canvas(ax, height_in, title="Each bar is a call, from sending to reply") as ax:
        for name, (colour, hatch) in style.OPERATIONS.items():
            bars = shown[shown["operation"] == name]
            if not len(bars):
                continue
            ax.barh(
                place[bars.index],
                bars["residence_s"],
                left=bars["sent_s"],
                height=0.8,
                color=colour,
                hatch=hatch if rows <= HATCHED_ROWS else "",
                edgecolor="black",
                linewidth=0.5 if rows <= HATCHED_ROWS else 0.1,
                label=name,
            )
            if rows > HATCHED_ROWS:
                ax.plot(
                    bars["sent_s"],
                    place[bars.index],
                    style.MARKERS[name],
                    color=colour,
                    markersize=5,
                    markeredgecolor="black",
                    markeredgewidth=0.6,
                )
        failed = shown[shown["status"] != "OK"]
        if len(failed):
            ax.plot(
                failed["done_s"],
                place[failed.index],
                "x",
                color=style.INK,
                markersize=8,
                linewidth=2,
                label="not OK",
            )
        ax.set(xlabel="elapsed (s)", ylabel="lane (call in flight)" if lanes else "call (number)")
        ax.set_ylim(max(rows, 3) + 0.7, 0.3)
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.grid(visible=False, axis="y")
    return ax
