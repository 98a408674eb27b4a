"""Throughput of runs beside its prediction, and step after step."""

import math
from collections.abc import Mapping

from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.named import Predictions, Runs, number
from kvstore.course.predictions import HasValue
from kvstore.course.rendering import TIMES
from kvstore.measure import Run

MILLION = 1_000_000
FLAT = 2.0
"""A step of less than this factor is drawn nearly level."""


def throughput(runs: Runs, predictions: Predictions = None, *, ax: Axes | None = None) -> Axes:
    """Measured dots with their 95 % interval, one row for each run, and predicted lines.

    Predictions in a sequence belong to the runs in their order; named ones are drawn
    across all rows.
    """
    data = tables.throughput(runs, predictions)
    across = predictions if isinstance(predictions, Mapping) else {}
    with style.canvas(ax, height_in=1.8 + 0.8 * len(data) + 0.5 * bool(across)) as ax:
        rows = range(len(data))
        measured = data["measured (operations/s)"]
        below = measured - data["95 % from (operations/s)"]
        above = data["95 % to (operations/s)"] - measured
        ax.errorbar(
            measured, rows, xerr=(below, above), fmt="o", color=style.MEASURED,
            capsize=6, elinewidth=2, label="measured, with 95 % interval", zorder=3,
        )  # fmt: skip
        for row, rate in zip(rows, measured, strict=True):
            ax.annotate(
                f"measured {style.rate(rate)}" if across else style.rate(rate), (rate, row),
                (0, 14), textcoords="offset points", ha="center", bbox=style.PAPER, zorder=4,
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
        ax.set(yticks=list(rows), xlabel="throughput (operations/s)", ylabel="run")
        ax.set_yticklabels(data.index)
        ax.set_ylim(len(data) - 0.4, -0.6)
        if not across:
            style.key_above(ax)
    ax.grid(visible=False, axis="y")
    return ax


def ladder(steps: Mapping[str, Run | HasValue | float], *, ax: Axes | None = None) -> Axes:
    """Throughput step by step on a logarithmic axis: runs as dots, predictions as lines.

    A plain number, such as a published one, is drawn as a hollow dot. From a million on, numbers
    stand in millions: M/s.
    """
    data = tables.ladder(steps)
    with style.canvas(ax, height_in=5.5) as ax:
        rates = data["throughput (operations/s)"]
        ax.plot(range(len(data)), rates, color="#BBBBBB", linewidth=1.5, zorder=1)
        for place, (step, rate) in enumerate(zip(steps.values(), rates, strict=True)):
            if isinstance(step, HasValue) and not isinstance(step, Run):
                ax.hlines(rate, place - 0.3, place + 0.3, color=style.PREDICTED)
            else:
                fill = style.MEASURED if isinstance(step, Run) else "white"
                ax.plot(place, rate, "o", color=style.MEASURED, markerfacecolor=fill)
            # Seven digits would run into those of the next step.
            told = f"{rate / MILLION:.3g} M/s" if rate >= MILLION else style.rate(rate)
            ax.annotate(told, (place, rate), (0, 14), textcoords="offset points", ha="center")
        for place, factor in enumerate(data["times the step before"]):
            if place:
                pair = rates.iloc[place - 1], rates.iloc[place]
                flat = max(pair) < FLAT * min(pair)  # then below both dots: beside, it hides one
                ax.annotate(
                    f"{TIMES} {factor:.3g}",
                    (place - 0.5, min(pair) if flat else math.sqrt(pair[0] * pair[1])),
                    (-20, -32) if flat else (8, -16),
                    textcoords="offset points", color=style.GREY,
                )  # fmt: skip
        ax.set_yscale("log")
        style.plain_numbers(ax.yaxis)
        ax.set(xticks=range(len(data)), ylabel="throughput (operations/s)", xlabel="step")
        ax.set_xticklabels(data.index)
        ax.margins(x=0.1, y=0.2)
    return ax


def _line_across(ax: Axes, name: str, value: float, place: int) -> None:
    dashes = ("-", "--", ":", "-.")[place % 4]
    ax.axvline(value, color=style.PREDICTED, linestyle=dashes, zorder=2)
    ax.annotate(
        f"{name}: {style.rate(value)}", (value, 1.0), (0, 6 + 20 * place),
        xycoords=("data", "axes fraction"), textcoords="offset points",
        ha="center", color=style.PREDICTED,
    )  # fmt: skip


def _value(named: tuple[str, HasValue | float]) -> float:
    return number(named[1]) or 0.0
