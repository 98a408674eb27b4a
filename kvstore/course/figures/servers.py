"""More servers: throughput by their number, what uneven keys make of it, and the slowest of all."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.named import number
from kvstore.course.predictions import HasValue
from kvstore.course.stories.fan_out import Asked
from kvstore.course.tables.servers import ByServers, Predicted, Simulated
from kvstore.model.scale_out import Played

SLICES = 60
"""Into how many pieces the simulated time is cut."""


def throughput_by_servers(
    runs: ByServers,
    predicted: Predicted,
    simulated: Simulated | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Measured dots and simulated crosses by the number of servers, with what is predicted.

    Each kind of question has a colour and a dash of its own. Logarithmic axes: where twice the
    servers bring twice the throughput, the line is a diagonal.
    """
    data = tables.throughput_by_servers(runs, predicted, simulated)
    with style.canvas(ax, height_in=6.0) as ax:
        for place, (name, predict) in enumerate(predicted.items()):
            dot, colour, dash = style.look(place)
            rows = data.loc[name]
            most = max(rows.index)
            servers = np.unique(np.geomspace(1, most, 40).round().astype(int))
            ax.plot(
                servers, [number(predict(int(s))) or 0.0 for s in servers],
                dash, color=style.PREDICTED, label=f"predicted, {name}", zorder=2,
            )  # fmt: skip
            for column, shape, order in (("simulated", "x", 2.5), ("measured", dot, 3)):
                heading = f"{column} (operations/s)"
                if heading in rows and rows[heading].notna().any():
                    ax.plot(
                        rows.index, rows[heading], shape, color=colour, zorder=order,
                        label=f"{column}, {name}", markeredgewidth=3 if shape == "x" else 1,
                    )  # fmt: skip
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set(xlabel="servers (processes)", ylabel="throughput, X (operations/s)")
        style.plain_numbers(ax.xaxis)
        style.plain_numbers(ax.yaxis)
        style.close_ticks(ax.yaxis)
        ax.legend(loc="upper left")
        ax.margins(0.08)
    return ax


def simulated_over_time(
    played: Played, bound: HasValue | float, slices: int = SLICES, *, ax: Axes | None = None
) -> Axes:
    """What is answered per second from the moment at which all callers begin, above the bound."""
    data = tables.simulated_over_time(played, bound, slices)
    with style.canvas(ax) as ax:
        ax.plot(
            data.index, data["simulated (operations/s)"], "x",
            color=style.GREEN, markeredgewidth=3, label="simulated",
        )  # fmt: skip
        limit = float(data["bound (operations/s)"].iloc[0])
        ax.axhline(limit, color=style.PREDICTED, label="bound: the busiest server")
        ax.annotate(
            style.rate(limit), (1.0, limit), (-4, -12), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", va="top", color=style.PREDICTED,
            bbox=style.PAPER,
        )  # fmt: skip
        ax.set(xlabel="simulated time (s)", ylabel="throughput (operations/s)", xlim=(0, None))
        ax.set_ylim(0, 1.1 * float(data.to_numpy().max()))
        style.plain_numbers(ax.yaxis)
        ax.legend(loc="upper right")
    return ax


def slow_by_servers(
    asked: Asked,
    longer_than_s: float,
    predicted: Callable[[int], HasValue | float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """The share of the requests that are slow, by how many servers each of them waits for."""
    data = tables.slow_by_servers(asked, longer_than_s, predicted)
    with style.canvas(ax) as ax:
        ax.plot(
            data.index, data["predicted, slow (%)"], color=style.PREDICTED, label="predicted"
        )  # fmt: skip
        ax.plot(
            data.index, data["measured, slow (%)"], "o", color=style.MEASURED, label="measured",
        )  # fmt: skip
        ax.set(
            xlabel="a request waits for (servers)",
            ylabel=f"over {1e3 * longer_than_s:.0f} ms (% of requests)",
            xticks=list(data.index),
        )
        ax.set_ylim(0, 1.15 * float(data.drop(columns="median (ms)").to_numpy().max()))
        ax.legend(loc="lower right")
    return ax
