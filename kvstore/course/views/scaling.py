"""More in a message, in a commit, and more servers: throughput, residence time, the slowest."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course.experiments.several_servers import FanOut, Reads
from kvstore.course.rendering import HasValue
from kvstore.course.views import style
from kvstore.course.views.style import by_row, number, rounded
from kvstore.measure import Run
from kvstore.measure.cpu_cost import busy, pace_s
from kvstore.model import Prediction, batching
from kvstore.model.scaling import Played

# ---- batches and commits ------------------------------------------------------------------------


def throughput_by_batch_table(
    runs: Mapping[int, Run],
    *,
    per_message_s: float,
    per_operation_s: float,
    fitted: Collection[int] = (),
) -> pd.DataFrame:
    """Return throughput by operations in a message: X = k / (a + b k), and the measured X.

    `fitted` are the sizes from which a and b were computed.
    """
    cost = {"per_message_s": per_message_s, "per_operation_s": per_operation_s}
    rows = []
    for size, run in sorted(runs.items()):
        predicted = batching.throughput(size, **cost).value
        rows.append(
            {
                "operations in a message": size,
                "predicted (operations/s)": predicted,
                "measured (operations/s)": run.throughput_per_s,
                "measured ÷ predicted": run.throughput_per_s / predicted,
                "a + b·k (µs)": 1e6 * (per_message_s + per_operation_s * size),
                "CPU of a message (µs)": 1e6 * pace_s(run),
                "bottleneck process busy (%)": 100 * busy(run),
                "used for": "a and b" if size in fitted else "the test",
            }
        )
    return rounded(by_row(rows, "operations in a message"))


def residence_by_batch_table(
    runs: Mapping[int, Run],
    *,
    per_message_s: float,
    per_operation_s: float,
    fitted: Collection[int] = (),
) -> pd.DataFrame:
    """Return the residence time of a message by its operations: N (a + b k), and measured."""
    rows = [
        {
            "operations in a message": size,
            "messages in flight": run.in_flight,
            "predicted (ms)": 1e3 * run.in_flight * (per_message_s + per_operation_s * size),
            "residence of a message (ms)": 1e3 * run.mean_residence_s,
            "used for": "a and b" if size in fitted else "the test",
        }
        for size, run in sorted(runs.items())
    ]
    return rounded(by_row(rows, "operations in a message"))


ENOUGH = 0.9
"""The share of 1/b beyond which a larger message is not worth its residence time."""


def plot_throughput_by_batch(
    runs: Mapping[int, Run],
    *,
    per_message_s: float,
    per_operation_s: float,
    fitted: Collection[int] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw measured dots over k / (a + b k); the sizes that gave a and b are hollow."""
    cost = {"per_message_s": per_message_s, "per_operation_s": per_operation_s}
    data = throughput_by_batch_table(runs, **cost, fitted=fitted)
    with style.canvas(ax, height_in=6.0) as ax:
        sizes = _reach(data)
        ax.plot(
            sizes, sizes / (per_message_s + per_operation_s * sizes),
            color=style.PREDICTED, label="k / (a + b·k)",
        )  # fmt: skip
        _dots(ax, data, "measured (operations/s)")
        if per_operation_s * data["measured (operations/s)"].max() > 0.05:  # else far above
            most_per_s = 1 / per_operation_s
            ax.axhline(most_per_s, color=style.PREDICTED, linestyle=":", linewidth=2)
            ax.annotate(
                f"1/b = {numbers.rate(most_per_s)}", (1.0, most_per_s), (0, -20),
                textcoords="offset points", color=style.PREDICTED,
            )  # fmt: skip
        _finish(ax, batching.enough(**cost, share=ENOUGH))
        ax.set_ylabel("throughput, X (operations/s)")
    return ax


def plot_residence_by_batch(
    runs: Mapping[int, Run],
    *,
    per_message_s: float,
    per_operation_s: float,
    fitted: Collection[int] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw the residence time of a message: measured dots over N (a + b k)."""
    cost = {"per_message_s": per_message_s, "per_operation_s": per_operation_s}
    data = residence_by_batch_table(runs, **cost, fitted=fitted)
    with style.canvas(ax, height_in=6.0) as ax:
        sizes = _reach(data)
        in_flight = data["messages in flight"].max()
        ax.plot(
            sizes, 1e3 * in_flight * (per_message_s + per_operation_s * sizes),
            color=style.PREDICTED, label="N·(a + b·k)",
        )  # fmt: skip
        _dots(ax, data, "residence of a message (ms)")
        _finish(ax, batching.enough(**cost, share=ENOUGH))
        ax.set_ylabel("residence of a message (ms)")
    return ax


def _reach(data: pd.DataFrame) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.geomspace(1, max(2.0, 2.0 * data.index.max()), 100)


def _dots(ax: Axes, data: pd.DataFrame, column: str) -> None:
    """Draw hollow dots for the sizes that gave the line, full dots for those that test it."""
    for used_for, fill, label in (
        ("a and b", "none", "gave a and b"),
        ("the test", "full", "tests them"),
    ):
        chosen = data.loc[data["used for"] == used_for, column]
        ax.plot(
            chosen.index, chosen, "o", color=style.MEASURED, fillstyle=fill,
            markeredgewidth=2.5, label=label, zorder=3,
        )  # fmt: skip


def _finish(ax: Axes, enough: float) -> None:
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    style.close_ticks(ax.yaxis)
    style.plain_numbers(ax.xaxis)
    style.plain_numbers(ax.yaxis)
    ax.set_xlabel("in a message, k (operations)")
    if enough <= ax.get_xlim()[1]:
        ax.axvline(enough, color=style.GREY, linestyle="--", linewidth=1.5)
        ax.annotate(
            f"{numbers.percent(ENOUGH)} of 1/b", (enough, 0.0), (-6, 8),
            xycoords=("data", "axes fraction"), textcoords="offset points",
            color=style.GREY, ha="right",
        )  # fmt: skip


# ---- durability ---------------------------------------------------------------------------------
# Writes that are committed to a disk: one by one, and in groups.


def throughput_by_commit_table(
    runs: Mapping[str, Mapping[int, Run]],
    predictions: Mapping[str, Callable[[int], Prediction]],
) -> pd.DataFrame:
    """Return X predicted and measured, and R, for each kind of commit and number in flight."""
    rows = []
    for name, by_in_flight in runs.items():
        for in_flight, run in sorted(by_in_flight.items()):
            predicted = predictions[name](in_flight)
            rows.append(
                {
                    "commits": name,
                    "in flight (calls)": in_flight,
                    "predicted (calls/s)": predicted.value,
                    "measured (calls/s)": run.answered_per_s,
                    "measured ÷ predicted": run.answered_per_s / predicted.value,
                    "binds": predicted.binds,
                    "residence (ms)": 1e3 * run.mean_residence_s,
                }
            )
    return rounded(by_row(rows, "commits"))


def plot_throughput_by_commit(
    runs: Mapping[str, Mapping[int, Run]],
    predictions: Mapping[str, Callable[[int], Prediction]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw throughput by calls in flight: a line and dots for each kind of commit."""
    data = throughput_by_commit_table(runs, predictions)
    most = int(data["in flight (calls)"].max())
    with style.canvas(ax, height_in=6.0) as ax:
        for place, name in enumerate(runs):
            marker, colour, dashes = style.look(place)
            in_flight = np.unique(np.geomspace(1, most, 60).astype(int))
            ax.plot(
                in_flight, [predictions[name](int(n)).value for n in in_flight],
                color=style.PREDICTED, linestyle=dashes, label=f"predicted: {name}", zorder=2,
            )  # fmt: skip
            rows = data.loc[[name]]
            ax.plot(
                rows["in flight (calls)"], rows["measured (calls/s)"], marker,
                color=colour, label=f"measured: {name}", zorder=3,
            )  # fmt: skip
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set(xlabel="in flight, N (calls)", ylabel="throughput, X (calls/s)")
        _finish_commits(ax)
    return ax


def _finish_commits(ax: Axes) -> None:
    for axis, scale in ((ax.xaxis, ax.get_xscale()), (ax.yaxis, ax.get_yscale())):
        if scale == "log":
            style.plain_numbers(axis)
    if ax.get_yscale() == "log":
        style.close_ticks(ax.yaxis)
    else:
        style.close_ticks(ax.xaxis)


# ---- servers ------------------------------------------------------------------------------------


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
            numbers.rate(limit), (1.0, limit), (-4, 8 if low else -12),
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
