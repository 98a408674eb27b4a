"""The figures of the experiments of lessons 05 and 11: dots are measured, lines are predicted."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore.course import views
from kvstore.course.lessons.lesson_05 import batch_ladder, pipelining, rpc_pipeline
from kvstore.course.lessons.lesson_05.pipelining import Replication
from kvstore.course.lessons.lesson_11.etcd_runs import Failover, Puts
from kvstore.course.views import style
from kvstore.measure import Run


def race(runs: Mapping[str, Sequence[Run]], ax: Axes | None = None) -> Axes:
    """Draw real time over the pipelined client's: each round a dot, published ratios hollow."""
    base = runs[rpc_pipeline.PIPELINED]
    published = rpc_pipeline.PUBLISHED
    with style.canvas(ax, height_in=1.8 + 0.8 * len(runs)) as ax:
        for row, (name, repeated) in enumerate(runs.items()):
            here = [a.window_s / b.window_s for a, b in zip(repeated, base, strict=True)]
            ax.plot(
                here, [row] * len(here), "o", color=style.MEASURED, zorder=3,
                label="here, each round" if row == 0 else None,
            )  # fmt: skip
            if name in published:
                there = published[name].real_s / published[rpc_pipeline.PIPELINED].real_s
                ax.plot(
                    there, row, "D", color=style.BLACK, fillstyle="none", markersize=13,
                    markeredgewidth=2, label="published (Go)" if row == 0 else None,
                )  # fmt: skip
        ax.axvline(1.0, color=style.GREY, linestyle="--", linewidth=1.5)
        ax.set(yticks=range(len(runs)), xlabel="real time ÷ pipelined client's (times)")
        ax.set_yticklabels(runs)
        ax.set_ylabel("client")
        ax.set_ylim(len(runs) - 0.4, -0.6)
        ax.set_xlim(left=0.0)
    ax.grid(visible=False, axis="y")
    return ax


def staircase_and_slab(runs: Mapping[str, Run], *, most: int, until_s: float) -> list[Axes]:
    """Draw the calls of each run as bars over the same time axis; a bar begins at sending."""
    axes = style.subplots(
        len(runs), figsize=(11.0, 2.3 * len(runs)), sharex=True, dpi=style.DPI,
        layout="constrained",
    )  # fmt: skip
    for ax, (name, run) in zip(axes, runs.items(), strict=True):
        views.plot_calls_over_time(run, most=most, until_s=until_s, ax=ax)
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()  # there is only one kind of call
        ax.set_title(name, loc="left", fontsize=style.TEXT_PT + 1)
        ax.set_xlim(0.0, until_s)
        ax.set_ylim(most + 0.7, 0.3)
    for ax in axes[:-1]:
        ax.set_xlabel("")
    return axes


def both_orders(run: Run, *, most: int = 24, ax: Axes | None = None) -> Axes:
    """Draw each call as a bar until it was done, and the wait that replies in order would add."""
    data = pipelining.both_orders(run, most=most)
    begin, done = data["sent (ms)"], data["done as finished (ms)"]
    with style.canvas(ax, height_in=7.0) as ax:
        for name, (colour, hatch) in style.OPERATIONS.items():
            own = data.index[data["operation"] == name]
            if len(own):
                ax.barh(
                    own, done[own] - begin[own], left=begin[own], height=0.75, color=colour,
                    hatch=hatch, edgecolor="black", linewidth=0.5, label=name,
                )  # fmt: skip
        ax.barh(
            data.index, data["held back (ms)"], left=done, height=0.75, color="white",
            edgecolor=style.RED, linestyle="--", linewidth=1.2,
            label="wait with replies in order",
        )  # fmt: skip
        ax.set(xlabel="elapsed (ms)", ylabel="sent as number (call)")
        ax.set_ylim(len(data) + 0.7, 0.3)
        ax.set_xlim(left=0.0)
        ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.grid(visible=False, axis="y")
    return ax


def climbed(
    runs: Mapping[int, Run], cost: batch_ladder.Cost, *, fitted: Collection[int] = batch_ladder.ENDS
) -> list[Axes]:
    """Draw throughput and residence time by operations in a message, side by side."""
    axes = style.subplots(
        1, 2, figsize=(14.0, 6.0), dpi=style.DPI, layout="constrained",
    )  # fmt: skip
    for figure, ax in zip(
        (views.plot_throughput_by_batch, views.plot_residence_by_batch), axes, strict=True
    ):
        figure(runs, **cost._asdict(), fitted=fitted, ax=ax)
    return axes


def commits(
    runs: batch_ladder.Commits, predicted: batch_ladder.Predicted, ax: Axes | None = None
) -> Axes:
    """Draw writes per second by writes in a message, with a commit for each write and for all."""
    with style.canvas(ax) as ax:
        for group_commit, by_size in runs.items():
            name = "one commit for the group" if group_commit else "a commit for each write"
            sizes = sorted(by_size)
            ax.plot(
                sizes,
                [predicted[group_commit][size].value for size in sizes],
                color=style.PREDICTED, linestyle="-" if group_commit else "--",
                label="predicted" if group_commit else None,
            )  # fmt: skip
            ax.plot(
                sizes, [by_size[k].throughput_per_s for k in sizes],
                "o" if group_commit else "s", color=style.MEASURED, label=name, zorder=3,
                fillstyle="full" if group_commit else "none", markeredgewidth=2.5,
            )  # fmt: skip
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        style.close_ticks(ax.yaxis)
        style.plain_numbers(ax.xaxis)
        style.plain_numbers(ax.yaxis)
        ax.set(xlabel="in a message, k (writes)", ylabel="throughput (operations/s)")
        ax.margins(0.1)
    return ax


def commit_over_time(
    copies: Sequence[Replication], round_trip_s: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the commit index over time for each copy, and the predicted t·window/D as a line."""
    with style.canvas(ax, height_in=6.0) as ax:
        for place, copy in enumerate(copies):
            marker, colour, _ = style.look(place)
            ax.plot(
                1e3 * copy.acks["acked_s"], copy.acks["commit_index"], marker, color=colour,
                markersize=6, label=f"window {copy.window}", zorder=3,
            )  # fmt: skip
        if round_trip_s is not None:
            longest_s = max(copy.duration_s for copy in copies)
            for number, copy in enumerate(copies):
                end_s = min(longest_s, copy.entries * round_trip_s / copy.window)
                ax.plot(
                    [0.0, 1e3 * end_s], [0.0, end_s * copy.window / round_trip_s],
                    color=style.PREDICTED, label="t · window / D" if number == 0 else None,
                )  # fmt: skip
        ax.set(xlabel="elapsed (ms)", ylabel="commit index (entries)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.0)
    return ax


def stored_and_committed(copy: Replication, *, most: int = 60, ax: Axes | None = None) -> Axes:
    """Draw the acknowledged entries over time, and the commit index, which waits at gaps."""
    acks = copy.acks.head(most)
    at_ms = 1e3 * acks["acked_s"]
    with style.canvas(ax, height_in=6.0) as ax:
        early = acks["index"] > acks["commit_index"]
        ax.plot(
            at_ms[~early], acks.loc[~early, "index"], "o", color=style.GREEN, markersize=8,
            label="acknowledged in order",
        )  # fmt: skip
        ax.plot(
            at_ms[early], acks.loc[early, "index"], "^", color=style.ORANGE, markersize=8,
            markeredgecolor="black", label="acknowledged early, waits",
        )  # fmt: skip
        ax.step(
            at_ms, acks["commit_index"], where="post", color=style.BLUE, linewidth=2.5,
            label="commit index",
        )  # fmt: skip
        ax.set(xlabel="elapsed (ms)", ylabel="index of the entry (entries)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.0)
    return ax


def acknowledged(copy: Replication, *, most: int = 12) -> pd.DataFrame:
    """Return the first acknowledgements in their order, and the commit index after each."""
    acks = copy.acks.head(most)
    return pd.DataFrame(
        {
            "entry": acks["index"].to_numpy(),
            "sent (ms)": 1e3 * acks["sent_s"].to_numpy(),
            "acknowledged (ms)": 1e3 * acks["acked_s"].to_numpy(),
            "committed up to (entry)": acks["commit_index"].to_numpy(),
            "is committed": (acks["index"] <= acks["commit_index"]).to_numpy(),
        },
        index=pd.RangeIndex(1, len(acks) + 1, name="acknowledged as number"),
    ).round(2)


def puts_by_in_flight(puts: Puts, ax: Axes | None = None) -> Axes:
    """Draw the puts per second of an etcd cluster: dots over the line of the model."""
    in_flight = [run.in_flight for run in puts.runs]
    line = sorted({*in_flight, *(2**n for n in range(1, 10) if 2**n < max(in_flight))})
    with style.canvas(ax, height_in=5.0) as ax:
        ax.plot(
            line, [puts.predicted(n).value for n in line], color=style.PREDICTED, zorder=2,
            label="predicted",
        )  # fmt: skip
        ax.plot(
            in_flight, [run.puts_per_s for run in puts.runs], "o", color=style.MEASURED, zorder=3,
            label="measured" + (" (recorded)" if puts.recorded else ""),
        )  # fmt: skip
        ax.set_xscale("log", base=2)
        ax.set_xticks(in_flight, [f"{n}" for n in in_flight])
        ax.set(xlabel="in flight, N (puts)", ylabel="throughput, X (puts/s)")
        ax.set_ylim(bottom=0.0)
    return ax


def acknowledged_over_time(run: Failover, ax: Axes | None = None) -> Axes:
    """Draw how many writes were acknowledged in each tenth of a second, and the kills."""
    width_s = 0.1
    end_s = max(run.acknowledged_s)
    edges_s = np.arange(0.0, end_s + width_s, width_s)
    counts, _ = np.histogram(run.acknowledged_s, bins=edges_s)
    with style.canvas(ax, height_in=4.5) as ax:
        ax.step(
            edges_s[:-1], counts / width_s, where="post", color=style.MEASURED, linewidth=2.0,
            label="acknowledged" + (" (recorded)" if run.recorded else ""),
        )  # fmt: skip
        for place, kill_s in enumerate(run.kills_s):
            ax.axvline(
                kill_s,
                color=style.RED,
                linestyle="--",
                label="leader killed" if not place else None,
            )
        ax.set(xlabel="elapsed (s)", ylabel="writes acknowledged (writes/s)")
        ax.set_xlim(0.0, end_s)
        ax.set_ylim(bottom=0.0)
    return ax


def by_setting(
    measured: Mapping[str, float],
    predicted: Mapping[str, float],
    *,
    xlabel: str,
    ylabel: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw a dot for each setting, and its prediction as a short line."""
    places = range(len(predicted))
    with style.canvas(ax, height_in=5.0) as ax:
        ax.hlines(
            list(predicted.values()), [each - 0.3 for each in places],
            [each + 0.3 for each in places], color=style.PREDICTED, linewidth=3, label="predicted",
        )  # fmt: skip
        ax.plot(
            places, [measured[name] for name in predicted], "o", color=style.MEASURED,
            label="measured", zorder=3,
        )  # fmt: skip
        ax.set(xlabel=xlabel, ylabel=ylabel)
        ax.set_xticks(list(places), list(predicted))
        ax.set_xlim(-0.5, len(predicted) - 0.5)
        ax.set_ylim(bottom=0.0)
        style.plain_numbers(ax.yaxis)
    return ax
