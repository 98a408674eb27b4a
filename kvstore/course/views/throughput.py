"""Throughput of runs, of steps, and by the number of calls in flight, beside bounds and models."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course.rendering import TIMES, HasValue
from kvstore.course.views import style
from kvstore.course.views.style import (
    Predictions,
    Runs,
    by_row,
    number,
    predictions_for,
    rounded,
    runs_by_name,
)
from kvstore.measure import Run, throughput_interval
from kvstore.model import Station, bounds


def throughput_table(runs: Runs, predictions: Predictions = None) -> pd.DataFrame:
    """Return each run's throughput with its 95 % interval, and the predictions for it."""
    named = runs_by_name(runs)
    rows = []
    for (name, run), predicted in zip(named, predictions_for(predictions, len(named)), strict=True):
        low, high = throughput_interval(run)
        rows.append(
            {
                "run": name,
                "predicted (operations/s)": predicted,
                "measured (operations/s)": run.throughput_per_s,
                "95 % from (operations/s)": low,
                "95 % to (operations/s)": high,
                "measured ÷ predicted": run.throughput_per_s / predicted if predicted else None,
            }
        )
    table = by_row(rows, "run")
    if isinstance(predictions, Mapping):
        table = table.drop(columns=["predicted (operations/s)", "measured ÷ predicted"])
        for name, each in predictions.items():
            table[f"{name} (operations/s)"] = number(each)
    return rounded(table)


def ladder_table(steps: Mapping[str, Run | HasValue | float]) -> pd.DataFrame:
    """Return the throughput of each step, and its ratio to the step before."""
    rates = pd.Series(
        {
            name: step.throughput_per_s if isinstance(step, Run) else number(step)
            for name, step in steps.items()
        },
        dtype=float,
    )
    return rounded(
        pd.DataFrame(
            {"throughput (operations/s)": rates, "times the step before": rates / rates.shift()}
        ).rename_axis("step")
    )


MILLION = 1_000_000
FLAT = 2.0
"""A step by less than this factor looks nearly level."""


def plot_throughput(runs: Runs, predictions: Predictions = None) -> Axes:
    """Draw measured dots with their 95 % interval, one row for each run, and predicted lines.

    Predictions in a sequence belong to the runs in their order. Named predictions are drawn
    across all rows.
    """
    data = throughput_table(runs, predictions)
    across = predictions if isinstance(predictions, Mapping) else {}
    height_in = 1.8 + 0.8 * len(data) + 0.5 * bool(across)
    with style.canvas(height_in=height_in, rows=data.index) as ax:
        rows = range(len(data))
        measured = data["measured (operations/s)"]
        below = measured - data["95 % from (operations/s)"]
        above = data["95 % to (operations/s)"] - measured
        ax.errorbar(
            measured, rows, xerr=(below, above), fmt="o", color=style.MEASURED,
            capsize=6, elinewidth=2, zorder=3,
            label=None if across else "measured, with 95 % interval",
        )  # fmt: skip
        for row, rate in zip(rows, measured, strict=True):
            ax.annotate(
                f"measured {numbers.rate(rate)}" if across else numbers.rate(rate), (rate, row),
                (0, 14), textcoords="offset points", ha="center", zorder=4,
            )  # fmt: skip
        if "predicted (operations/s)" in data and data["predicted (operations/s)"].notna().any():
            ax.vlines(
                data["predicted (operations/s)"], [row - 0.38 for row in rows],
                [row + 0.38 for row in rows], color=style.PREDICTED, label="predicted", zorder=2,
            )  # fmt: skip
        shown = [*measured, *data.get("predicted (operations/s)", measured).dropna()]
        for place, (name, value) in enumerate(sorted(across.items(), key=_value)):
            _line_across(ax, name, number(value) or 0.0, place)
            shown.append(number(value) or 0.0)
        style.rates(ax, shown)
        ax.set(xlabel="throughput (operations/s)", ylabel="run")
    return ax


def plot_ladder(steps: Mapping[str, Run | HasValue | float]) -> Axes:
    """Draw throughput step by step on a logarithmic axis: runs as dots, predictions as lines.

    A plain number, such as a published one, is drawn as a hollow dot. From a million on, labels
    are in millions: M/s.
    """
    data = ladder_table(steps)
    with style.canvas(height_in=5.5) as ax:
        rates = data["throughput (operations/s)"]
        decades = rates.max() > style.LOG_FROM * rates.min()
        ax.plot(range(len(data)), rates, color=style.INK, linewidth=1.5, zorder=1)
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
        for place, factor in enumerate(data["times the step before"]):
            if place:
                pair = rates.iloc[place - 1], rates.iloc[place]
                flat = max(pair) < FLAT * min(pair)  # below both dots: beside, it would hide one
                ax.annotate(
                    f"{TIMES} {numbers.number(factor)}",
                    (place - 0.5, min(pair) if flat else math.sqrt(pair[0] * pair[1])),
                    (-20, -32) if flat else (8, -16),
                    textcoords="offset points", color=style.INK,
                )  # fmt: skip
        if decades:
            ax.set_yscale("log")
        ax.set(xticks=range(len(data)), ylabel="throughput (operations/s)", xlabel="step")
        ax.set_xticklabels(data.index)
        ax.margins(x=0.1, y=0.2)
        if not decades:
            ax.set_ylim(0.0, 1.25 * rates.max())
    return ax


def _line_across(ax: Axes, name: str, value: float, place: int) -> None:
    dashes = ("-", "--", ":", "-.")[place % 4]
    ax.axvline(value, color=style.PREDICTED, linestyle=dashes, zorder=2)
    ax.annotate(
        f"{name}: {numbers.rate(value)}", (value, 1.0), (0, 6 + 20 * place),
        xycoords=("data", "axes fraction"), textcoords="offset points",
        ha="center", color=style.PREDICTED,
    )  # fmt: skip


def _value(named: tuple[str, HasValue | float]) -> float:
    return number(named[1]) or 0.0


PLENTY = 10**12
"""A number in flight at which only the bottleneck limits throughput."""
NEAR = 4.0
"""N* is shown up to so many times the most calls in flight."""


def plot_throughput_by_in_flight(
    runs: Sequence[Run],
    stations: Sequence[Station] = (),
    *,
    simulated: Mapping[int, float] | None = None,
    notes: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw measured dots with N/D and 1/D_max; `notes` name N*, where they meet, and 1/D_max.

    Runs with numbers in flight that are far apart, such as 1 and 1,000, have logarithmic axes.

    `simulated` gives operations per second by the number in flight. It is a third series, for
    cases in which the bound is known to be too high.
    """
    with style.canvas(ax, height_in=6.0) as ax:
        before, right = ax.get_ylim()[1] if ax.has_data() else 0.0, 1.05 * _most(runs)
        if stations:
            right = draw_bounds(ax, stations, most=_most(runs), notes=notes)
        if simulated:
            ax.plot(
                list(simulated), list(simulated.values()), "--", marker="x", markeredgewidth=3,
                color=style.GREEN, label="simulated", zorder=2.5,
            )  # fmt: skip
        ax.plot(
            [run.in_flight for run in runs], [run.throughput_per_s for run in runs], "o",
            color=style.MEASURED, label="measured", zorder=3,
        )  # fmt: skip
        ax.set(xlabel="in flight, N (calls)", ylabel="throughput, X (operations/s)")
        rates = [run.throughput_per_s for run in runs]
        if stations:
            rates.append(bounds.closed_loop(math.ceil(right), stations).value)
        if style.decades([run.in_flight for run in runs]):
            ax.set(xscale="log", yscale="log")
            ax.margins(0.08)
        else:
            ax.set_xlim(0, right)
            ax.set_ylim(0, max(before, 1.2 * max(rates, default=1.0)))
    return ax


def _most(runs: Sequence[Run]) -> int:
    return max((run.in_flight for run in runs), default=1)


def draw_bounds(ax: Axes, stations: Sequence[Station], most: int, *, notes: bool = True) -> float:
    """Draw N/D and 1/D_max as a line; `notes` name 1/D_max and N*. Return where the line ends.

    It ends at `most` calls in flight, or beyond N* where that is near.
    """
    slope = bounds.closed_loop(1, stations).value
    ceiling = bounds.closed_loop(PLENTY, stations)
    knee = bounds.knee(stations)
    near = notes and most <= knee <= NEAR * most
    right = 1.3 * knee if near else 1.05 * most
    in_flight = np.unique(np.clip([0.0, 1.0, knee, right], 0.0, right))
    ax.plot(
        in_flight, np.minimum(slope * in_flight, ceiling.value),
        color=style.PREDICTED, label="bound", zorder=2,
    )  # fmt: skip
    if knee >= right or not notes:
        return right  # no station binds here, or there is no room
    ax.annotate(
        f"1/D_max = {numbers.rate(ceiling.value)} ({ceiling.binds})", (right, ceiling.value),
        (0, 8), textcoords="offset points", ha="right", color=style.PREDICTED,
    )  # fmt: skip
    ax.axvline(knee, color=style.INK, linestyle="--", linewidth=1.5)
    ax.annotate(
        f"N* = {numbers.number(knee)}", (knee, 0.0), (8, 8), xycoords=("data", "axes fraction"),
        textcoords="offset points", color=style.INK,
    )  # fmt: skip
    return right


def plot_by_setting(
    measured: Mapping[str, float],
    predicted: Mapping[str, float],
    *,
    xlabel: str,
    ylabel: str,
) -> Axes:
    """Draw a dot for each setting, and its prediction as a short line."""
    places = range(len(predicted))
    with style.canvas(height_in=5.0) as ax:
        ax.hlines(
            list(predicted.values()), [each - 0.3 for each in places],
            [each + 0.3 for each in places], color=style.PREDICTED, linewidth=3, label="predicted",
        )  # fmt: skip
        ax.plot(
            places, [measured[name] for name in predicted], "o", color=style.MEASURED,
            label="measured", zorder=3,
        )  # fmt: skip
        ax.set(xlabel=xlabel, ylabel=ylabel)
        ax.set_xticks(list(places), list(predicted))
        ax.set_xlim(-0.5, len(predicted) - 0.5)
        ax.set_ylim(bottom=0.0)
    return ax
