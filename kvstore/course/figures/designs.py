"""Designs by their price, and the score of a plan as bars."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style

if TYPE_CHECKING:  # the designs draw with figures, not the other way round
    from kvstore.course.design.forecasts import Forecast
    from kvstore.course.design.score import Score


def promises(
    forecasts: "Mapping[str, Forecast]",
    needed_per_s: float | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Each design as a predicted line, one row each; the throughput that is needed across all."""
    data = tables.promises(forecasts, needed_per_s)
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
        style.key_above(ax)
    ax.grid(visible=False, axis="y")
    return ax


def _days(count: int) -> str:
    return f"{count} day" if count == 1 else f"{count} days"


def score(scores: "Mapping[str, Score]", *, ax: Axes | None = None) -> Axes:
    """What each line brought, a bar for each plan; what it could have brought is hollow."""
    data = tables.score(scores).drop(index="all")
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
        style.key_above(ax)
    ax.grid(visible=False, axis="y")
    return ax
