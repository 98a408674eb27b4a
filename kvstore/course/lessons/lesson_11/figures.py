"""The figures and the table of lesson 11: a stall, and the slowest of several servers."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course.experiments.several_servers import FanOut, Reads
from kvstore.course.rendering import HasValue
from kvstore.course.views import style
from kvstore.course.views.style import Runs, number, rounded, runs_by_name
from kvstore.measure import Run
from kvstore.protocol import OK

Seconds = npt.NDArray[np.float64]
SHARES: Final = (0.50, 0.90, 0.99)
"""The shares of the calls in a table of latencies."""
HEADINGS: Final = tuple(f"{numbers.percent(share)} (ms)" for share in SHARES)
WINDOW_S: Final = 0.6
"""So much of each run is drawn around its slowest call."""
SLOW: Final = 3
"""A call is slow that takes so many times as long as the median of those drawn."""


def through_a_stall(runs: Runs) -> list[Axes]:
    """Draw the calls of each run around its slowest one: a line for each call, in its own row.

    A line begins when the call was due; it is thin until the call was sent, and thick until the
    reply. A closed loop has no due times. Slow calls are orange.
    """
    named = runs_by_name(runs)
    axes = style.subplots(
        len(named), 1, figsize=(11.0, 1.0 + 1.9 * len(named)), sharex=True, layout="constrained"
    )
    for ax, (name, run) in zip(axes, named, strict=True):
        due_s, sent_s, done_s = _around_the_slowest(run)
        slow = done_s - due_s > SLOW * np.median(done_s - due_s)
        rows = np.arange(len(due_s))
        with style.canvas(ax) as ax:
            for which, colour, word in (
                (~slow, style.MEASURED, "quick"),
                (slow, style.ORANGE, "slow"),
            ):
                ax.hlines(
                    rows[which], 1e3 * sent_s[which], 1e3 * done_s[which], color=colour,
                    linewidth=4, label=f"{name}, {word}: {np.sum(which):,}",
                )  # fmt: skip
                ax.hlines(
                    rows[which], 1e3 * due_s[which], 1e3 * sent_s[which], color=colour, linewidth=1
                )
            ax.set(ylabel="call", yticks=[], xlim=(0, 1e3 * WINDOW_S))
            ax.set_ylim(len(rows) - 0.4, -0.6)
    axes[-1].set_xlabel("time (ms)")
    return axes


def _around_the_slowest(run: Run) -> tuple[Seconds, Seconds, Seconds]:
    """Return when the calls around the slowest one were due, sent and answered, from 0."""
    records = run.records[run.records["status"] == OK]
    due_s = np.where(np.isnan(records["due_s"]), records["sent_s"], records["due_s"])
    done_s = records["done_s"]
    slowest = int(np.argmax(done_s - due_s))
    begin_s = due_s[slowest] - (WINDOW_S - (done_s - due_s)[slowest]) / 2
    near = np.flatnonzero((done_s > begin_s) & (due_s < begin_s + WINDOW_S))
    near = near[np.argsort(due_s[near])]
    return due_s[near] - begin_s, records["sent_s"][near] - begin_s, done_s[near] - begin_s


def latency_from_table(runs: Runs) -> pd.DataFrame:
    """Return the latency of the calls answered OK, from sending and from due times, in ms.

    Each column is the latency that a share of the calls did not exceed. A closed loop has no due
    times and only one row.
    """
    rows = []
    for name, run in runs_by_name(runs):
        ok = run.records[run.records["status"] == OK]
        for word, start_s in {"sending": ok["sent_s"], "due": ok["due_s"]}.items():
            if len(ok) and not np.isnan(start_s).any():
                taken_ms = 1e3 * np.quantile(ok["done_s"] - start_s, SHARES)
                shares = {name: float(ms) for name, ms in zip(HEADINGS, taken_ms, strict=True)}
                rows.append({"run": name, "from": word} | shares)
    columns = ["run", "from", *HEADINGS]
    return rounded(pd.DataFrame(rows, columns=columns).set_index("run"))


def slow_by_servers(
    replies: FanOut,
    longer_than_s: float,
    predicted: Callable[[int], HasValue | float],
) -> Axes:
    """Draw the share of slow requests by the number of servers that each waits for."""
    servers = range(1, replies.answer_s.shape[1] + 1)
    line = [100 * (number(predicted(each)) or 0.0) for each in servers]
    dots = [100 * replies.slow_share(each, longer_than_s) for each in servers]
    with style.canvas() as ax:
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
) -> Axes:
    """Draw the share of slow reads: a dot for each kind of read, the prediction as a short line."""
    places = range(len(reads))
    lines = [100 * (number(predicted[name]) or 0.0) for name in reads]
    dots = [100 * each.slow_share(longer_than_s) for each in reads.values()]
    with style.canvas(height_in=5.0) as ax:
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
