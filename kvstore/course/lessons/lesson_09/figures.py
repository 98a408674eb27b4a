"""The figures and tables of lesson 09: retries, stalls, and the slowest of several servers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.client.overload import Attempts
from kvstore.course.experiments.several_servers import FanOut, Reads
from kvstore.course.rendering import HasValue
from kvstore.course.views import style
from kvstore.course.views.style import SLICES, Runs, by_row, number, rounded, runs_by_name
from kvstore.measure import Run
from kvstore.protocol import OK

Curve = Callable[[float], HasValue | float]
"""The predicted latency in seconds that a share of the calls does not exceed."""
SHARES: Final = (0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)
"""The shares of the calls in a table of latencies."""
HEADINGS: Final = tuple(f"{numbers.percent(share)} (ms)" for share in SHARES)


def attempts_over_time(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Draw the calls sent per second in each slice of time, as dots for each run."""
    named = runs_by_name(runs)
    longest_s = max((run.window_s for _, run in named), default=0.0) or 1.0
    edges = np.linspace(0.0, longest_s, SLICES + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    with style.canvas(ax, height_in=5.5) as ax:
        for place, (name, run) in enumerate(named):
            marker, colour, _ = style.look(place)
            per_s = np.histogram(run.records["sent_s"], edges)[0] / np.diff(edges)
            sent = per_s > 0
            ax.plot(middle[sent], per_s[sent], marker, color=colour, markersize=8, label=name)
        ax.set_yscale("log")
        style.plain_numbers(ax.yaxis)
        ax.set(xlabel="elapsed (s)", ylabel="attempts (calls/s)")
        ax.set_xlim(left=0.0)
    return ax


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


SHOWN_S: Final = 1.6
"""Seconds of a run in which each call is a dot."""


def latency_over_time(
    runs: Mapping[str, Run],
    p90: HasValue | float,
    *,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Draw the latency of each call by when it was due, or sent in a closed loop.

    Each run has axes of its own. A dashed line shows the latency that 90 % of the calls keep.
    `p90` is the predicted one for calls with due times, in seconds.
    """
    axes = axes or style.subplots(
        1, len(runs), figsize=(11.0, 4.6), sharey=True, layout="constrained", dpi=style.DPI
    )
    for place, (ax, (name, run)) in enumerate(zip(axes, runs.items(), strict=True)):
        ok = run.records[run.records["status"] == OK]
        start_s = np.where(np.isnan(ok["due_s"]), ok["sent_s"], ok["due_s"])
        taken_ms = 1e3 * (ok["done_s"] - start_s)
        first_s = run.window_s / 4
        shown = (start_s >= first_s) & (start_s < first_s + SHOWN_S)
        measured_ms = float(np.quantile(taken_ms, 0.9)) if len(ok) else 0.0
        with style.canvas(ax):
            ax.plot(
                start_s[shown], taken_ms[shown], "o", color=style.MEASURED, markersize=6,
                label="a call",
            )  # fmt: skip
            ax.axhline(
                measured_ms, color=style.MEASURED, linestyle="--",
                label=f"its p90: {numbers.number(measured_ms)} ms",
            )  # fmt: skip
            paced = not np.isnan(ok["due_s"]).all()
            if paced:
                ax.axhline(1e3 * (number(p90) or 0.0), color=style.PREDICTED, label="predicted")
            ax.set(
                xlabel=f"{'due' if paced else 'sent'} (s), {name}",
                ylabel="" if place else "latency (ms)",
            )
            ax.set_ylim(bottom=0.0)
    return list(axes)


def slow_by_servers(
    replies: FanOut,
    longer_than_s: float,
    predicted: Callable[[int], HasValue | float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of slow requests by the number of servers that each waits for."""
    servers = range(1, replies.answer_s.shape[1] + 1)
    line = [100 * (number(predicted(each)) or 0.0) for each in servers]
    dots = [100 * replies.slow_share(each, longer_than_s) for each in servers]
    with style.canvas(ax) as ax:
        ax.plot(servers, line, color=style.PREDICTED, label="predicted")
        ax.plot(servers, dots, "o", color=style.MEASURED, label="measured")
        ax.set(
            xlabel="a request waits for (servers)",
            ylabel=f"over {1e3 * longer_than_s:.0f} ms (% of requests)",
            xticks=list(servers),
        )
        ax.set_ylim(0, 1.15 * max(*line, *dots))
    return ax


def slow_by_hedging(
    reads: Mapping[str, Reads],
    longer_than_s: float,
    predicted: Mapping[str, HasValue | float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of slow reads: a dot for each kind of read, the prediction as a short line."""
    places = range(len(reads))
    lines = [100 * (number(predicted[name]) or 0.0) for name in reads]
    dots = [100 * each.slow_share(longer_than_s) for each in reads.values()]
    with style.canvas(ax, height_in=5.0) as ax:
        ax.hlines(
            lines, [each - 0.3 for each in places], [each + 0.3 for each in places],
            color=style.PREDICTED, linewidth=3, label="predicted",
        )  # fmt: skip
        ax.plot(places, dots, "o", color=style.MEASURED, label="measured")
        ax.set(xlabel="reads (kind)", ylabel=f"over {1e3 * longer_than_s:.0f} ms (% of reads)")
        ax.set_xticks(list(places), list(reads))
        ax.set_xlim(-0.5, len(reads) - 0.5)
        ax.set_ylim(0, 1.15 * max(1.0, *lines, *dots))
    return ax
