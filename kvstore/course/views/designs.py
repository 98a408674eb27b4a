"""Designs of the capstone by cost and forecast, and the score of a plan."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.views import style
from kvstore.course.views.inputs import by_row, rounded

if TYPE_CHECKING:  # the capstone imports views
    from kvstore.course.capstone.forecasts import Forecast
    from kvstore.course.capstone.score import Score


def promises_table(
    forecasts: "Mapping[str, Forecast]", needed_per_s: float | None = None
) -> pd.DataFrame:
    """Return the cost, the predicted throughput and tail latency, and the bottleneck of designs."""
    rows = [
        {
            "design": name,
            "cost (days)": found.cost_days,
            "predicted (operations/s)": found.per_s.value,
            "p99, about (ms)": 1e3 * found.p99_s,
            "in flight (calls)": found.design.in_flight,
            "binds": found.per_s.binds,
            "enough": "yes" if found.enough else "no",
        }
        for name, found in forecasts.items()
    ]
    table = rounded(by_row(rows, "design"))
    if needed_per_s is not None:
        table.insert(2, "÷ needed", (table["predicted (operations/s)"] / needed_per_s).round(2))
    return table


def score_table(scores: "Mapping[str, Score]") -> pd.DataFrame:
    """Return one row for each line of a score, one column for each plan, in points."""
    columns = {
        f"{name} (points)": {line.name: line.points for line in each.lines}
        for name, each in scores.items()
    }
    table = pd.DataFrame(columns).round(1)
    first = next(iter(scores.values()))
    table.insert(0, "of (points)", [line.of for line in first.lines])
    table.loc["all"] = table.sum()
    return table.rename_axis("line").round(1)


def plot_promises(
    forecasts: "Mapping[str, Forecast]",
    needed_per_s: float | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the predicted throughput of each design, and the needed throughput across all rows."""
    data = promises_table(forecasts, needed_per_s)
    with style.canvas(ax, height_in=2.4 + 0.75 * len(data)) as ax:
        rows = range(len(data))
        rates = data["predicted (operations/s)"]
        ax.vlines(
            rates, [row - 0.3 for row in rows], [row + 0.3 for row in rows],
            color=style.PREDICTED, label="predicted", zorder=3,
        )  # fmt: skip
        days, binds = data["cost (days)"], data["binds"]
        for row, rate in zip(rows, rates, strict=True):
            beyond = rate > 0.45 * max(rates)
            ax.annotate(
                f"{style.rate(rate)}, {_days(days.iloc[row])}: {binds.iloc[row]}", (rate, row),
                (-8 if beyond else 8, 0), textcoords="offset points", va="center",
                ha="right" if beyond else "left", bbox=style.PAPER, zorder=4,
            )  # fmt: skip
        if needed_per_s is not None:
            ax.axvline(
                needed_per_s, color=style.GREY, linestyle="--", zorder=1,
                label=f"needed: {style.rate(needed_per_s)}",
            )  # fmt: skip
        ax.set_xlim(0.0, 1.15 * max([*rates, needed_per_s or 0.0]))
        style.plain_numbers(ax.xaxis)
        ax.set(yticks=list(rows), xlabel="throughput (operations/s)", ylabel="step")
        ax.set_yticklabels(data.index)
        ax.set_ylim(len(data) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    return ax


def _days(count: int) -> str:
    return f"{count} day" if count == 1 else f"{count} days"


def plot_score(scores: "Mapping[str, Score]", *, ax: Axes | None = None) -> Axes:
    """Draw the points of each line, a bar for each plan; the possible points are hollow."""
    data = score_table(scores).drop(index="all")
    names = list(scores)
    thick = 0.8 / max(1, len(names))
    with style.canvas(ax, height_in=2.0 + 0.6 * len(data)) as ax:
        for place, name in enumerate(names):
            middles = [row + (place - (len(names) - 1) / 2) * thick for row in range(len(data))]
            ax.barh(middles, data["of (points)"], thick, color="white", edgecolor=style.GREY)
            points = data[f"{name} (points)"]
            ax.barh(
                middles, points, thick, color=style.look(place)[1], edgecolor="black",
                hatch=("", "///", "...", "xxx")[place % 4],
                label=f"{name}: {scores[name].points:.0f} of 100",
            )  # fmt: skip
            for middle, each in zip(middles, points, strict=True):
                ax.annotate(
                    f"{each:.3g}", (each, middle), (6, 0), textcoords="offset points",
                    va="center", bbox=style.PAPER,
                )  # fmt: skip
        ax.set(yticks=range(len(data)), xlabel="points (of 100)", ylabel="step")
        ax.set_yticklabels(data.index)
        ax.set_ylim(len(data) - 0.4, -0.6)
        ax.set_xlim(0.0, 1.1 * data["of (points)"].max())
    ax.grid(visible=False, axis="y")
    return ax
