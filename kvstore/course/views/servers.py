"""Throughput by the number of servers, and the latency of requests that need several servers."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.experiments.several_servers import FanOut, Reads
from kvstore.course.predictions import HasValue
from kvstore.course.views import style
from kvstore.course.views.style import by_row, number, rounded
from kvstore.measure import Run
from kvstore.model.scaling import Played

ByServers: TypeAlias = Mapping[str, Mapping[int, Run | float]]
"""Runs, or operations per second, by workload and then by the number of servers."""

Simulated: TypeAlias = Mapping[str, Mapping[int, Played]]
"""Simulations by workload and then by the number of servers."""

Predicted: TypeAlias = Mapping[str, Callable[[int], HasValue | float]]
"""A function from the number of servers to the prediction, for each workload."""


def throughput_by_servers_table(
    runs: ByServers, predicted: Predicted, simulated: Simulated | None = None
) -> pd.DataFrame:
    """Return throughput by workload and number of servers: predicted, simulated, measured."""
    played = simulated or {}
    rows: list[dict[str, Any]] = []
    for name, predict in predicted.items():
        made, model = runs.get(name, {}), played.get(name, {})
        for servers in sorted({*made, *model}):
            run, simulation = made.get(servers), model.get(servers)
            rows.append(
                {
                    "workload": name,
                    "servers": servers,
                    "predicted (operations/s)": number(predict(servers)),
                    "simulated (operations/s)": _rate(simulation),
                    "measured (operations/s)": _rate(run),
                }
            )
    table = by_row(rows, "workload").set_index("servers", append=True)
    return rounded(table.dropna(axis="columns", how="all"))


def simulated_over_time_table(
    played: Played, bound: HasValue | float, slices: int = 12
) -> pd.DataFrame:
    """Return the simulated throughput over time from the start, beside the bound."""
    at_s, rates = played.rates(slices)
    table = pd.DataFrame({"simulated time (s)": at_s, "simulated (operations/s)": rates})
    table["bound (operations/s)"] = number(bound)
    return rounded(table).set_index("simulated time (s)")


def slow_by_servers_table(
    replies: FanOut,
    longer_than_s: float,
    predicted: Callable[[int], HasValue | float],
) -> pd.DataFrame:
    """Return the share of slow requests by the number of servers that each waits for."""
    rows = [
        {
            "servers": each,
            "predicted, slow (%)": 100 * (number(predicted(each)) or 0.0),
            "measured, slow (%)": 100 * replies.slow_share(each, longer_than_s),
            "median (ms)": 1e3 * float(pd.Series(replies.residence_s(each)).median()),
        }
        for each in range(1, replies.answer_s.shape[1] + 1)
    ]
    return rounded(by_row(rows, "servers"))


def slow_by_hedging_table(
    reads: Mapping[str, Reads],
    longer_than_s: float,
    predicted: Mapping[str, HasValue | float],
) -> pd.DataFrame:
    """Return the share of slow reads and of second calls, a row for each kind of read."""
    rows = [
        {
            "read": name,
            "predicted, slow (%)": 100 * (number(predicted[name]) or 0.0),
            "measured, slow (%)": 100 * each.slow_share(longer_than_s),
            "sent to a second server (%)": 100 * each.hedged_share,
            "median (ms)": 1e3 * float(pd.Series(each.took_s).median()),
        }
        for name, each in reads.items()
    ]
    return rounded(by_row(rows, "read"))


def _rate(what: Run | Played | float | None) -> float:
    if isinstance(what, Run | Played):
        return what.throughput_per_s
    return math.nan if what is None else what


SLICES = 60
"""The number of slices of the simulated time."""


def plot_throughput_by_servers(
    runs: ByServers,
    predicted: Predicted,
    simulated: Simulated | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw measured dots, simulated crosses and predicted lines by the number of servers.

    Each workload has its own colour and dashes. Both axes are logarithmic: linear scaling is a
    diagonal.
    """
    data = throughput_by_servers_table(runs, predicted, simulated)
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
        ax.margins(0.08)
    return ax


def plot_simulated_over_time(
    played: Played, bound: HasValue | float, slices: int = SLICES, *, ax: Axes | None = None
) -> Axes:
    """Draw the simulated throughput from the moment at which all callers begin, and the bound."""
    data = simulated_over_time_table(played, bound, slices)
    with style.canvas(ax) as ax:
        ax.plot(
            data.index, data["simulated (operations/s)"], "x",
            color=style.GREEN, markeredgewidth=3, label="simulated",
        )  # fmt: skip
        limit = float(data["bound (operations/s)"].iloc[0])
        ax.axhline(limit, color=style.PREDICTED, label="bound: the busiest server")
        low = limit < 0.25 * float(data.to_numpy().max())  # there is no room below the line
        ax.annotate(
            style.rate(limit), (1.0, limit), (-4, 8 if low else -12),
            xycoords=("axes fraction", "data"), textcoords="offset points", ha="right",
            va="bottom" if low else "top", color=style.PREDICTED, bbox=style.PAPER,
        )  # fmt: skip
        ax.set(xlabel="simulated time (s)", ylabel="throughput (operations/s)", xlim=(0, None))
        ax.set_ylim(0, 1.1 * float(data.to_numpy().max()))
        style.plain_numbers(ax.yaxis)
    return ax


def moved_keys_table(moved: Mapping[int, float]) -> pd.DataFrame:
    """Return the share of keys that move when a server is added to s, beside that of slots."""
    rows = [
        {
            "servers before": servers,
            "remainder, counted (%)": 100 * share,
            "remainder, s/(s + 1) (%)": 100 * servers / (servers + 1),
            "slots, 1/(s + 1) (%)": 100 / (servers + 1),
        }
        for servers, share in moved.items()
    ]
    return rounded(by_row(rows, "servers before"))


def plot_moved_keys(moved: Mapping[int, float], *, ax: Axes | None = None) -> Axes:
    """Draw the share of keys that move when a server is added: by remainder, and with slots."""
    data = moved_keys_table(moved)
    with style.canvas(ax) as ax:
        for column, dash in (("remainder, s/(s + 1)", "-"), ("slots, 1/(s + 1)", "--")):
            ax.plot(
                data.index, data[f"{column} (%)"], dash, color=style.PREDICTED,
                label=f"predicted, {column}",
            )  # fmt: skip
        ax.plot(
            data.index, data["remainder, counted (%)"], "o", color=style.MEASURED,
            label="counted, remainder",
        )  # fmt: skip
        ax.set(
            xlabel="servers before (number)", ylabel="keys that move (%)", xticks=list(data.index),
            ylim=(0, 105),
        )  # fmt: skip
    return ax


def plot_slow_by_hedging(
    reads: Mapping[str, Reads],
    longer_than_s: float,
    predicted: Mapping[str, HasValue | float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of slow reads: a dot for each kind of read, the prediction as a short line."""
    data = slow_by_hedging_table(reads, longer_than_s, predicted)
    places = range(len(data))
    with style.canvas(ax, height_in=5.0) as ax:
        ax.hlines(
            data["predicted, slow (%)"], [each - 0.3 for each in places],
            [each + 0.3 for each in places], color=style.PREDICTED, linewidth=3, label="predicted",
        )  # fmt: skip
        ax.plot(
            places, data["measured, slow (%)"], "o", color=style.MEASURED, label="measured",
        )  # fmt: skip
        ax.set(xlabel="reads (kind)", ylabel=f"over {1e3 * longer_than_s:.0f} ms (% of reads)")
        ax.set_xticks(list(places), [str(name) for name in data.index])
        ax.set_xlim(-0.5, len(data) - 0.5)
        ax.set_ylim(0, 1.15 * max(1.0, float(data.iloc[:, :2].to_numpy().max())))
    return ax


def plot_slow_by_servers(
    replies: FanOut,
    longer_than_s: float,
    predicted: Callable[[int], HasValue | float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of slow requests by the number of servers that each waits for."""
    data = slow_by_servers_table(replies, longer_than_s, predicted)
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
    return ax
