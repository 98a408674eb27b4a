"""The figures of lesson 12: throughput and keys by the number of servers."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore import numbers
from kvstore.course.rendering import HasValue
from kvstore.course.views import style
from kvstore.course.views.style import number
from kvstore.model.scaling import Played

ByServers: TypeAlias = Mapping[str, Mapping[int, float]]
"""Operations per second, by workload and then by the number of servers."""
SLICES = 60
"""The number of slices of the simulated time."""


def throughput_by_servers(
    measured: ByServers,
    predicted: Mapping[str, Callable[[int], HasValue | float]],
    simulated: Mapping[str, Mapping[int, Played]],
) -> list[Axes]:
    """Draw measured dots, simulated crosses and a predicted line by the number of servers.

    Each workload has axes of its own; all have the same scale.
    """
    axes = style.subplots(
        1, len(predicted), figsize=(11.0, 4.8), sharey=True, layout="constrained", dpi=style.DPI
    )
    for place, (ax, (name, predict)) in enumerate(zip(axes, predicted.items(), strict=True)):
        dots = measured.get(name, {})
        crosses = {s: each.throughput_per_s for s, each in simulated.get(name, {}).items()}
        servers = range(1, max({*dots, *crosses}) + 1)
        with style.canvas(ax):
            ax.plot(
                servers, [number(predict(s)) or 0.0 for s in servers], color=style.PREDICTED,
                label="predicted", zorder=2,
            )  # fmt: skip
            ax.plot(
                list(crosses), list(crosses.values()), "x", color=style.GREEN, zorder=2.5,
                label="simulated", markeredgewidth=3,
            )  # fmt: skip
            ax.plot(
                list(dots), list(dots.values()), "o", color=style.MEASURED, zorder=3,
                label="measured",
            )  # fmt: skip
            ax.set(
                xlabel=f"servers, {name}", ylabel="" if place else "throughput, X (operations/s)"
            )
            ax.set_xlim(left=0.0)
            ax.set_ylim(bottom=0.0)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return axes


def simulated_over_time(played: Played, bound: HasValue | float) -> Axes:
    """Draw the simulated throughput from the moment at which all callers begin, and the bound."""
    at_s, rates = played.rates(SLICES)
    limit = number(bound) or 0.0
    most = max(limit, *rates)
    with style.canvas() as ax:
        ax.plot(
            at_s, rates, "x", color=style.GREEN, markeredgewidth=3, label="simulated",
        )  # fmt: skip
        ax.axhline(limit, color=style.PREDICTED, label="bound: the busiest server")
        low = limit < 0.25 * most  # there is no room below the line
        ax.annotate(
            numbers.rate(limit), (1.0, limit), (-4, 8 if low else -12),
            xycoords=("axes fraction", "data"), textcoords="offset points", ha="right",
            va="bottom" if low else "top", color=style.PREDICTED,
        )  # fmt: skip
        ax.set(xlabel="simulated time (s)", ylabel="throughput (operations/s)", xlim=(0, None))
        ax.set_ylim(0, 1.1 * most)
    return ax


def moved_keys(moved: Mapping[int, float]) -> Axes:
    """Draw the share of keys that move when a server is added: by remainder, and with slots."""
    servers = list(moved)
    with style.canvas() as ax:
        ax.plot(
            servers, [100 * s / (s + 1) for s in servers], color=style.PREDICTED,
            label="predicted, remainder, s/(s + 1)",
        )  # fmt: skip
        ax.plot(
            servers, [100 / (s + 1) for s in servers], "--", color=style.PREDICTED,
            label="predicted, slots, 1/(s + 1)",
        )  # fmt: skip
        ax.plot(
            servers, [100 * share for share in moved.values()], "o", color=style.MEASURED,
            label="counted, remainder",
        )  # fmt: skip
        ax.set(
            xlabel="servers before (number)", ylabel="keys that move (%)", xticks=servers,
            ylim=(0, 105),
        )  # fmt: skip
    return ax
