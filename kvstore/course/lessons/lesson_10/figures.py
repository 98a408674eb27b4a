"""The figures of lesson 10: throughput and keys by the number of servers."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes

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
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw measured dots, simulated crosses and predicted lines by the number of servers.

    Each workload has its own colour and dashes. Both axes are logarithmic: linear scaling is a
    diagonal.
    """
    with style.canvas(ax, height_in=6.0) as ax:
        for place, (name, predict) in enumerate(predicted.items()):
            dot, colour, dash = style.look(place)
            dots = measured.get(name, {})
            crosses = {s: each.throughput_per_s for s, each in simulated.get(name, {}).items()}
            most = max({*dots, *crosses})
            servers = np.unique(np.geomspace(1, most, 40).round().astype(int))
            ax.plot(
                servers, [number(predict(int(s))) or 0.0 for s in servers],
                dash, color=style.PREDICTED, label=f"predicted, {name}", zorder=2,
            )  # fmt: skip
            ax.plot(
                list(crosses), list(crosses.values()), "x", color=colour, zorder=2.5,
                label=f"simulated, {name}", markeredgewidth=3,
            )  # fmt: skip
            ax.plot(
                list(dots), list(dots.values()), dot, color=colour, zorder=3,
                label=f"measured, {name}",
            )  # fmt: skip
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set(xlabel="servers (processes)", ylabel="throughput, X (operations/s)")
        style.plain_numbers(ax.xaxis)
        style.plain_numbers(ax.yaxis)
        style.close_ticks(ax.yaxis)
        ax.margins(0.08)
    return ax


def simulated_over_time(played: Played, bound: HasValue | float, *, ax: Axes | None = None) -> Axes:
    """Draw the simulated throughput from the moment at which all callers begin, and the bound."""
    at_s, rates = played.rates(SLICES)
    limit = number(bound) or 0.0
    most = max(limit, *rates)
    with style.canvas(ax) as ax:
        ax.plot(
            at_s, rates, "x", color=style.GREEN, markeredgewidth=3, label="simulated",
        )  # fmt: skip
        ax.axhline(limit, color=style.PREDICTED, label="bound: the busiest server")
        low = limit < 0.25 * most  # there is no room below the line
        ax.annotate(
            numbers.rate(limit), (1.0, limit), (-4, 8 if low else -12),
            xycoords=("axes fraction", "data"), textcoords="offset points", ha="right",
            va="bottom" if low else "top", color=style.PREDICTED, bbox=style.PAPER,
        )  # fmt: skip
        ax.set(xlabel="simulated time (s)", ylabel="throughput (operations/s)", xlim=(0, None))
        ax.set_ylim(0, 1.1 * most)
        style.plain_numbers(ax.yaxis)
    return ax


def moved_keys(moved: Mapping[int, float], *, ax: Axes | None = None) -> Axes:
    """Draw the share of keys that move when a server is added: by remainder, and with slots."""
    servers = list(moved)
    with style.canvas(ax) as ax:
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
