"""More calls than a server can serve: bursts, goodput, retries, latency, adaptive limits."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore import measure, numbers
from kvstore.client.overload import Attempts
from kvstore.course.rendering import HasValue
from kvstore.course.views import style
from kvstore.course.views.stations import stack
from kvstore.course.views.style import MB, SLICES, Runs, by_row, number, rounded, runs_by_name
from kvstore.measure import Run, goodput
from kvstore.measure.recorder import columns
from kvstore.protocol import OK

Curve = Callable[[float], HasValue | float]
"""A prediction for an offered rate in calls per second, or for a share of the calls."""

SHARES: Final = (0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)
"""The shares of the calls in a table of latencies."""
HEADINGS: Final = tuple(f"{numbers.percent(share)} (ms)" for share in SHARES)


def goodput_by_offered_table(
    runs: Mapping[str, Sequence[Run]],
    predictions: Mapping[str, Curve] | None = None,
    simulated: Mapping[str, Sequence[float]] | None = None,
    *,
    deadline_s: float | None = None,
) -> pd.DataFrame:
    """Return the goodput for each server and offered rate, and the outcomes of the other calls.

    `predictions` maps a server to a function from the offered rate to goodput, both in calls/s.
    `simulated` has one number for each run of a server. The deadline is the run's unless given.
    """
    rows: list[dict[str, Any]] = []
    for name, group in runs.items():
        for place, run in enumerate(group):
            found = goodput(run, deadline_s)
            row = {"server": name, "offered (calls/s)": found.offered_per_s}
            if predictions is not None and name in predictions:
                row["predicted (calls/s)"] = number(predictions[name](found.offered_per_s))
            if simulated is not None and name in simulated:
                row["simulated (calls/s)"] = simulated[name][place]
            rows.append(
                row
                | {
                    "in time (calls/s)": found.in_time_per_s,
                    "too late (calls)": found.late,
                    "refused (calls)": found.refused,
                    "served after their deadline (calls)": found.wasted,
                }
            )
    return rounded(by_row(rows, "server"))


def attempts_over_time_table(runs: Runs) -> pd.DataFrame:
    """Return the calls sent per second by slice of the longest run, a column for each run."""
    named = runs_by_name(runs)
    longest_s = max((run.window_s for _, run in named), default=0.0) or 1.0
    edges = np.linspace(0.0, longest_s, SLICES + 1)
    columns = {
        f"{name} (calls/s)": np.histogram(run.records["sent_s"], edges)[0] / np.diff(edges)
        for name, run in named
    }
    middle = pd.Index((edges[:-1] + edges[1:]) / 2, name="elapsed (s)")
    return rounded(pd.DataFrame(columns, index=middle))


def crowd_table(
    runs: Mapping[str, Run], operations: Mapping[str, Sequence[Attempts]]
) -> pd.DataFrame:
    """Return the attempts that clients with retries needed, and the outcomes of their operations.

    `operations` are those that `Retrying` recorded in the run of the same name.
    """
    rows = []
    for name, run in runs.items():
        recorded = operations[name]
        ends = Counter(f"ended {operation.status} (operations)" for operation in recorded)
        rows.append(
            {
                "retries": name,
                "attempts (calls)": run.issued,
                "attempts per operation": run.issued / max(1, len(recorded)),
                "last operation ended (s)": run.window_s,
            }
            | ends
        )
    table = rounded(by_row(rows, "retries"))
    counts = [str(name) for name in table if str(name).endswith("(operations)")]
    return table.fillna(0).astype(dict.fromkeys(["attempts (calls)", *counts], int))


def latency_from_table(runs: Runs, prediction: Curve | None = None) -> pd.DataFrame:
    """Return the latency of the calls answered OK, from sending and from due times, in ms.

    Each column is the latency that a share of the calls did not exceed. A closed loop has no due
    times and only one row. `prediction` is a function from the share to seconds.
    """
    rows = []
    for name, run in runs_by_name(runs):
        ok = run.records[run.records["status"] == OK]
        for word, start_s in {"sending": ok["sent_s"], "due": ok["due_s"]}.items():
            if len(ok) and not np.isnan(start_s).any():
                taken_ms = 1e3 * np.quantile(ok["done_s"] - start_s, SHARES)
                shares = {name: float(ms) for name, ms in zip(HEADINGS, taken_ms, strict=True)}
                rows.append({"run": name, "from": word} | shares)
    if prediction is not None:
        predicted_ms = [1e3 * (number(prediction(share)) or 0.0) for share in SHARES]
        predicted = {"run": "predicted", "from": "due"}
        rows.append(predicted | dict(zip(HEADINGS, predicted_ms, strict=True)))
    columns = ["run", "from", *HEADINGS]
    return rounded(pd.DataFrame(rows, columns=columns).set_index("run"))


def limit_over_time_table(
    history: Sequence[tuple[float, int]], prediction: HasValue | float | None = None
) -> pd.DataFrame:
    """Return the adaptive limit over time, beside the predicted N*."""
    table = pd.DataFrame(
        {"limit (calls)": [limit for _, limit in history]},
        index=pd.Index([at_s for at_s, _ in history], name="elapsed (s)", dtype=float),
    )
    if prediction is not None:
        table["predicted N* (calls)"] = number(prediction)
    return rounded(table)


def plot_goodput_by_offered(
    runs: Mapping[str, Sequence[Run]],
    predictions: Mapping[str, Curve] | None = None,
    simulated: Mapping[str, Sequence[float]] | None = None,
    *,
    deadline_s: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw goodput over offered rate: measured dots, predicted lines, simulated thin lines.

    `predictions` maps a server to a function from the offered rate to goodput, both in calls/s.
    `simulated` has one number for each run of a server.
    """
    data = goodput_by_offered_table(runs, predictions, simulated, deadline_s=deadline_s)
    most = 1.05 * float(data["offered (calls/s)"].max())
    with style.canvas(ax, height_in=6.0) as ax:
        for place, name in enumerate(runs):
            marker, colour, dashes = style.look(place)
            rows = data.loc[[name]].sort_values("offered (calls/s)")
            if predictions is not None and name in predictions:
                offered = np.linspace(most / 200, most, 200)
                line = [number(predictions[name](float(per_s))) or 0.0 for per_s in offered]
                ax.plot(
                    offered, line, color=style.PREDICTED, linestyle=dashes,
                    label=f"predicted: {name}", zorder=2,
                )  # fmt: skip
            if simulated is not None and name in simulated:
                ax.plot(
                    rows["offered (calls/s)"], rows["simulated (calls/s)"], "+",
                    color=style.BLACK, markersize=16, markeredgewidth=1.5, zorder=4,
                    label="simulated" if name == next(iter(simulated)) else "_",
                )  # fmt: skip
            ax.plot(
                rows["offered (calls/s)"], rows["in time (calls/s)"], marker,
                color=colour, label=f"measured: {name}", zorder=3,
            )  # fmt: skip
        ax.set(xlabel="offered (calls/s)", ylabel="in time (calls/s)")
        ax.set_xlim(0.0, most)
        ax.set_ylim(0.0, 1.15 * max(1.0, *data.filter(regex="predicted|simulated|in time").max()))
    return ax


def plot_attempts_over_time(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Draw the calls sent per second in each slice of time, as dots for each run."""
    data = attempts_over_time_table(runs)
    with style.canvas(ax, height_in=5.5) as ax:
        for place, heading in enumerate(data):
            marker, colour, _ = style.look(place)
            sent = data[heading][data[heading] > 0]
            ax.plot(
                sent.index, sent, marker, color=colour, markersize=8,
                label=str(heading).removesuffix(" (calls/s)"),
            )  # fmt: skip
        ax.set_yscale("log")
        style.plain_numbers(ax.yaxis)
        ax.set(xlabel="elapsed (s)", ylabel="attempts (calls/s)")
        ax.set_xlim(left=0.0)
    return ax


def plot_latency_from(
    runs: Runs, prediction: Curve | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw latency by the share of calls: filled dots from due times, hollow dots from sending.

    `prediction` is a function from the share to seconds for latency from due times: a line.
    """
    data = latency_from_table(runs)
    columns = [heading for heading in data.columns if heading != "from"]
    with style.canvas(ax, height_in=6.0) as ax:
        for place, name in enumerate(dict.fromkeys(data.index)):
            marker, colour, _ = style.look(place)
            for _, row in data.loc[[name]].iterrows():
                hollow = row["from"] == "sending"
                ax.plot(
                    range(len(columns)), row[columns].astype(float), marker, color=colour,
                    markerfacecolor="white" if hollow else colour, markeredgewidth=2.5,
                    markersize=13 if hollow else 8, label=f"{name}, from {row['from']}",
                )  # fmt: skip
        if prediction is not None:
            predicted_ms = [1e3 * (number(prediction(share)) or 0.0) for share in SHARES]
            ax.plot(
                range(len(SHARES)), predicted_ms, color=style.PREDICTED, zorder=1,
                label="predicted, from due",
            )  # fmt: skip
        ax.set_yscale("log")
        style.plain_numbers(ax.yaxis)
        ax.set_xticks(range(len(columns)), [f"{100 * share:g}" for share in SHARES])
        ax.set(xlabel="share of the calls (%)", ylabel="latency, at most (ms)")
    return ax


def plot_limit_over_time(
    history: Sequence[tuple[float, int]],
    prediction: HasValue | float | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the adaptive limit as dots, and the predicted N* as a line."""
    data = limit_over_time_table(history, prediction)
    predicted = number(prediction)
    with style.canvas(ax, height_in=4.5) as ax:
        ax.plot(
            data.index, data["limit (calls)"], "o", color=style.MEASURED,
            markersize=7, label="chosen",
        )  # fmt: skip
        if predicted is not None:
            ax.axhline(
                predicted,
                color=style.PREDICTED,
                label=f"predicted N* = {numbers.number(predicted)}",
                zorder=1,
            )
        ax.set(xlabel="elapsed (s)", ylabel="limit (calls in flight)")
        ax.set_ylim(0.0, 1.15 * max([*data["limit (calls)"], predicted or 1.0]))
        ax.set_xlim(left=0.0)
    return ax


SIDES = ("client", "server")


def turns_table(
    run: Run,
    prediction: HasValue | float | None = None,
    *,
    memory: Mapping[str, HasValue | float] | None = None,
) -> pd.DataFrame:
    """Return the time until each burst of a run was answered, and the memory of both processes.

    `prediction` is the predicted seconds of a burst. `memory` maps a process to megabytes.
    """
    seen = measure.turns(run)
    table = pd.DataFrame(
        {
            "answered after (s)": seen["answered_s"],
            "sent after (s)": seen["sending_s"],
            "most in flight (calls)": seen["most_in_flight"],
            "not OK (calls)": seen["calls"] - seen["ok"],
        }
    )
    if prediction is not None:
        table.insert(1, "predicted (s)", number(prediction))
    for side in SIDES:
        table[f"{side}, most (MB)"] = seen[f"{side}_bytes"] / MB
        if memory and side in memory:
            table[f"{side}, predicted (MB)"] = number(memory[side])
    return rounded(table)


def memory_in_burst_table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Return how much the server's memory grew in each run, its threads, and how calls ended."""
    rows = []
    for name, run in runs.items():
        held_bytes = run.samples["server_rss_bytes"]
        rows.append(
            {
                "server": name,
                "memory grew by (MB)": (held_bytes.max() - held_bytes.iloc[0]) / MB,
                "most threads": run.samples["server_threads"].max(),
                "answered after (s)": run.window_s,
                "OK (calls)": run.operations_ok,
                "refused (calls)": run.issued - run.operations_ok,
            }
        )
    table = rounded(by_row(rows, "server"))
    counts = ["most threads", "OK (calls)", "refused (calls)"]
    return table.astype(dict.fromkeys(counts, int))


def endings_table(runs: Runs) -> pd.DataFrame:
    """Return the number of calls of each run by status."""
    rows = [
        {"run": name} | {f"{status} (calls)": n for status, n in run.outcomes().items()}
        for name, run in runs_by_name(runs)
    ]
    table = by_row(rows, "run").fillna(0).astype(int)
    table.insert(0, "sent (calls)", [run.issued for _, run in runs_by_name(runs)])
    return table


def collections_table(runs: Runs) -> pd.DataFrame:
    """Return the garbage collections of client and server in each run, up to its last sample.

    NaN for a process that did not report them.
    """
    rows = []
    for name, run in runs_by_name(runs):
        for side in SIDES:
            counts = run.samples[columns(side)]
            young, middle, full, pause_s = counts.iloc[-1] if len(counts) else [math.nan] * 4
            rows.append(
                {
                    "run": f"{name}, {side}",
                    "young (collections)": young,
                    "middle (collections)": middle,
                    "full (collections)": full,
                    "per 1,000 calls (collections)": 1e3 * (young + middle + full) / run.issued,
                    "paused (ms)": 1e3 * pause_s,
                    "paused (% of the run)": 100 * pause_s / (run.window_s or 1.0),
                }
            )
    return rounded(by_row(rows, "run"))


ENDS = {
    "OK": (style.GREEN, ""),
    "CANCELLED": (style.RED, "xxx"),
    "RESOURCE_EXHAUSTED": (style.ORANGE, "..."),
    "DEADLINE_EXCEEDED": (style.PURPLE, "///"),
    "UNAVAILABLE": (style.GREY, "---"),
}
"""Colour and hatching of the statuses that overload causes; all others look the same."""
OTHER = (style.SKY, "")
MOST_DOTS = 60
"""The approximate number of samples drawn for a run."""


def plot_turns(
    run: Run,
    prediction: HasValue | float | None = None,
    *,
    memory: Mapping[str, HasValue | float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the time until each burst was answered or, with `memory`, the most memory in it.

    Measurements are dots. `prediction`, or each process of `memory`, is a line.
    """
    data = turns_table(run, prediction, memory=memory)
    with style.canvas(ax) as ax:
        if memory is None:
            seconds = data["answered after (s)"]
            ax.plot(data.index, seconds, "o", color=style.MEASURED, label="measured")
            predicted_s = number(prediction)
            if predicted_s is not None:
                ax.axhline(predicted_s, color=style.PREDICTED, label="predicted", zorder=1)
            ax.set(ylabel="answered after (s)", ylim=(0.0, 1.2 * max([*seconds, predicted_s or 0])))
        else:
            _memory(ax, data.filter(like="(MB)"), memory)
        ax.set(xlabel="burst (number)")
        ax.set_xlim(0.5, len(data) + 0.5)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return ax


def plot_memory_in_burst(runs: Mapping[str, Run], *, ax: Axes | None = None) -> Axes:
    """Draw how much the server's memory has grown, over time, as dots for each run."""
    most_mb = 1.0
    with style.canvas(ax, height_in=5.0) as ax:
        for place, (name, run) in enumerate(runs.items()):
            marker, colour, _ = style.look(place)
            samples = run.samples.iloc[:: max(1, len(run.samples) // MOST_DOTS)]
            grown = (samples["server_rss_bytes"] - run.samples["server_rss_bytes"].iloc[0]) / MB
            most_mb = max(most_mb, grown.max())
            ax.plot(samples["elapsed_s"], grown, marker, color=colour, markersize=7, label=name)
        ax.set(xlabel="elapsed (s)", ylabel="server memory, grown by (MB)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(0.0, 1.15 * most_mb)
    return ax


def _memory(ax: Axes, data: pd.DataFrame, memory: Mapping[str, HasValue | float]) -> None:
    for side, (marker, colour, dashes) in style.PROCESSES.items():
        held = data[f"{side}, most (MB)"]
        ax.plot(held.index, held, marker, color=colour, markersize=7, label=f"{side}, measured")
        if side in memory:
            ax.axhline(
                number(memory[side]) or 0.0, color=style.PREDICTED, linestyle=dashes,
                label=f"{side}, predicted", zorder=1,
            )  # fmt: skip
    most_mb = max([1.0, *data.max().dropna()])
    ax.set(ylabel="resident memory, most (MB)", ylim=(0.0, 1.15 * most_mb))


def plot_endings(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Draw one bar for each run: the share of its calls by status."""
    data = endings_table(runs).rename(columns=lambda heading: heading.removesuffix(" (calls)"))
    ends = 100 * data.drop(columns="sent").div(data["sent"], axis=0)
    with style.canvas(ax, height_in=2.4 + 0.8 * len(data)) as ax:
        stack(ax, ends, {str(name): ENDS.get(str(name), OTHER) for name in ends})
        ax.set(xlabel="share of the calls sent (%)", ylabel="run")
    ax.grid(visible=False, axis="y")
    return ax


def plot_collections(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Draw the garbage collections of client and server over time, on a logarithmic axis.

    All generations count. About `MOST_DOTS` samples are drawn; every second run is hollow.
    """
    with style.canvas(ax) as ax:
        for place, (name, run) in enumerate(runs_by_name(runs)):
            samples = run.samples.iloc[:: max(1, len(run.samples) // MOST_DOTS)]
            for side, (marker, colour, _) in style.PROCESSES.items():
                counts = samples[[f"{side}_{age}" for age in ("young", "middle", "full")]]
                total = counts.sum(axis=1, skipna=False)
                shown = total[total > 0]
                ax.plot(
                    samples.loc[shown.index, "elapsed_s"], shown, marker, color=colour,
                    markersize=7, markerfacecolor="white" if place % 2 else colour,
                    label=f"{name}, {side}",
                )  # fmt: skip
        ax.set_yscale("log")
        style.plain_numbers(ax.yaxis)
        ax.set(xlabel="elapsed (s)", ylabel="total (collections)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.8)
    return ax
