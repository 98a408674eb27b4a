"""The figures of lesson 00: each draws on the axes it is given, and runs nothing."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.machine import facts
from kvstore.course.machine.noise import repeats
from kvstore.measure import Run

PATH = (
    ("client", "", "#FFFFFF"),
    ("wire", "", "#FFFFFF"),
    ("pool queue", "pool queue", style.SKY),
    ("rest of the\nserver", "rest of the server", style.PURPLE),
    ("lock", "lock", style.ORANGE),
    ("disk", "disk", style.GREEN),
)
"""The stations in the order of the call, the heading that has their time, and their colour."""


def draw_path(run: Run, *, ax: Axes | None = None) -> Axes:
    """The way of a call through its stations, with the mean milliseconds at each below it."""
    told = tables.time_by_station(run).iloc[0]
    with style.canvas(ax, height_in=3.0) as ax:
        for place, (name, part, colour) in enumerate(PATH):
            box = FancyBboxPatch((1.25 * place, 0.0), 0.95, 0.6, boxstyle="round,pad=0.02")
            box.set(facecolor=colour, edgecolor="black", linewidth=1.5)
            ax.add_patch(box)
            ax.text(1.25 * place + 0.475, 0.3, name, ha="center", va="center", bbox=style.PAPER)
            if part:
                ax.text(
                    1.25 * place + 0.475, -0.3, f"{told[f'{part} (ms)']:.3g} ms",
                    ha="center", va="center", weight="bold",
                )  # fmt: skip
            if place:
                ax.annotate(
                    "", (1.25 * place - 0.02, 0.3), (1.25 * place - 0.28, 0.3),
                    arrowprops={"arrowstyle": "<->", "linewidth": 2},
                )  # fmt: skip
        ax.text(
            0.475 + 0.625, -0.3, f"{told['client and wire (ms)']:.3g} ms",
            ha="center", va="center", weight="bold",
        )  # fmt: skip
        ax.set(xlim=(-0.1, 1.25 * len(PATH) - 0.2), ylim=(-0.9, 0.8))
        ax.text(
            (1.25 * len(PATH) - 0.3) / 2, -0.75, ha="center", va="center",
            s=f"the whole residence: {told['whole residence (ms)']:.4g} ms",
        )  # fmt: skip
    ax.set_axis_off()
    return ax


def draw_round_trips(run: Run, *, ax: Axes | None = None) -> Axes:
    """How many calls took how long, with p50 and p99 as lines; the longest are counted apart."""
    times_us = 1e6 * run.calls["residence_s"].to_numpy()
    p50, p99 = np.quantile(times_us, [0.5, 0.99])
    right = 1.3 * p99
    beyond = int(np.count_nonzero(times_us > right))
    with style.canvas(ax, height_in=4.5) as ax:
        left = min(times_us.min(), p50)
        ax.hist(
            times_us[times_us <= right], bins=np.linspace(0.95 * left, right, 50).tolist(),
            color=style.SKY, edgecolor="black", linewidth=0.5,
        )  # fmt: skip
        for name, value, dashes in (("p50", p50, "-"), ("p99", p99, "--")):
            ax.axvline(value, color=style.BLACK, linestyle=dashes)
            ax.annotate(
                f"{name}: {value:,.0f} µs", (value, 1.0), (0, 6), ha="center",
                xycoords=("data", "axes fraction"), textcoords="offset points",
            )  # fmt: skip
        if beyond:
            ax.annotate(
                f"{beyond} more,\nup to {times_us.max():,.0f} µs", (1.0, 0.6),
                xycoords="axes fraction", ha="right", bbox=style.PAPER,
            )  # fmt: skip
        ax.set(xlabel="round trip (µs)", ylabel="calls (number)", xlim=(0.95 * left, right))
    return ax


def draw_repeats(groups: Mapping[str, Sequence[Run]], *, ax: Axes | None = None) -> Axes:
    """The throughput of each run as a dot in the order of running, each group's median as a line.

    The groups took turns: the first run of each, then the second of each, and so on.
    """
    table = repeats(groups)
    with style.canvas(ax, height_in=4.5) as ax:
        for place, name in enumerate(groups):
            rates = [run.throughput_per_s for run in groups[name]]
            turns = [1 + place + len(groups) * turn for turn in range(len(rates))]
            marker, colour, dashes = style.look(place)
            ax.plot(turns, rates, marker, label=name, color=colour, markeredgecolor="black")
            median = float(table.loc[f"{name} (operations/s)", "median"])  # type: ignore[arg-type]
            ax.axhline(median, linestyle=dashes, linewidth=2, color=colour)
        highest = max(run.throughput_per_s for runs in groups.values() for run in runs)
        ax.set(
            xlabel="turn (number)", ylabel="throughput\n(operations/s)", ylim=(0, 1.15 * highest)
        )
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        style.key_above(ax)
    return ax


def draw_cpu_per_call(runs: Mapping[str, Run], *, ax: Axes | None = None) -> Axes:
    """One bar for each run: the processor time of the client, then of the server, end to end."""
    table = facts.cpu_per_call(runs)
    with style.canvas(ax, height_in=2.2 + 0.7 * len(table)) as ax:
        rows, left = np.arange(len(table)), np.zeros(len(table))
        for side, colour, hatch in (("client", style.SKY, "///"), ("server", style.ORANGE, "...")):
            widths = table[f"{side} CPU (µs/call)"].to_numpy(dtype=float)
            ax.barh(
                rows, widths, left=left, height=0.6, color=colour, hatch=hatch,
                edgecolor="black", linewidth=0.8, label=side,
            )  # fmt: skip
            for row, (start, width) in enumerate(zip(left, widths, strict=True)):
                ax.text(
                    start + width / 2, row, f"{width:.0f}", ha="center", va="center",
                    bbox=style.PAPER,
                )  # fmt: skip
            left = left + widths
        ax.set(xlabel="processor time (µs per call)", ylabel="run", yticks=rows)
        ax.set_yticklabels(list(runs))
        ax.set_ylim(len(table) - 0.5, -0.5)
        style.key_above(ax)
    ax.grid(visible=False, axis="y")
    return ax


def draw_timer(runs: Mapping[str, Run], *, ax: Axes | None = None) -> Axes:
    """How much later, or sooner, than asked each call was back from the disk: one dot each."""
    with style.canvas(ax, height_in=2.4 + 0.8 * len(facts.timer(runs))) as ax:
        names: list[str] = []
        for name, run in runs.items():
            told = run.server["settings"]
            for kind, group in run.calls.groupby("operation", observed=True):
                asked_s = told["read_delay_s" if kind == "retrieve" else "write_delay_s"]
                off_ms = 1e3 * (group["disk_s"] - asked_s).to_numpy()
                row = np.full(len(off_ms), len(names)) + np.linspace(-0.25, 0.25, len(off_ms))
                ax.plot(off_ms, row, "o", color=style.MEASURED, markersize=6, alpha=0.6)
                names.append(f"{name}: {1e3 * asked_s:g} ms")
        ax.axvline(0.0, color=style.PREDICTED, label="as asked", zorder=1)
        ax.set(xlabel="back from the disk later than asked (ms)", ylabel="server and time asked")
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        style.key_above(ax)
    ax.grid(visible=False, axis="y")
    return ax
