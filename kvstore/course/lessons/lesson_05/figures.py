"""The figures of lesson 05: dots are measured, lines are predicted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course import views
from kvstore.course.lessons.lesson_05.batch_ladder import ENDS, Cost
from kvstore.course.views import style
from kvstore.measure import Run
from kvstore.model import batching


def staircase_and_slab(runs: Mapping[str, Run], *, most: int, until_s: float) -> list[Axes]:
    """Draw the calls of each run as bars over the same time axis; a bar begins at sending."""
    axes = style.subplots(
        len(runs),
        title="Each bar is a call, from sending to reply",
        figsize=(style.WIDE_IN, 0.4 + 2.3 * len(runs)),
        sharex=True,
        dpi=style.DPI,
        layout="constrained",
    )
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


ENOUGH: Final = 0.9
"""The share of 1/b beyond which a larger message is not worth its residence time."""


def climbed(runs: Mapping[int, Run], cost: Cost) -> list[Axes]:
    """Draw throughput and residence time by operations in a message, side by side.

    A message of k operations takes a + b k, the `cost`. The runs of 1 and 1,024 operations gave a
    and b: their dots are hollow.
    """
    title = "Larger messages: more operations a second, and a longer stay"
    figure: dict[str, Any] = {
        "layout": "constrained",
        "figsize": (style.WIDE_IN, style.HIGH_IN),
        "dpi": style.DPI,
    }
    axes = style.subplots(1, 2, title=title, **figure)
    sizes = np.geomspace(1, 2.0 * max(runs), 100)
    message_s = cost.per_message_s + cost.per_operation_s * sizes
    in_flight = max(run.in_flight for run in runs.values())
    per_s = {size: run.throughput_per_s for size, run in runs.items()}
    stays_ms = {size: 1e3 * run.mean_residence_s for size, run in runs.items()}
    with _by_batch(axes[0], per_s, cost, "throughput, X (operations/s)") as ax:
        ax.plot(sizes, sizes / message_s, color=style.PREDICTED, label="k / (a + b·k)")
        most_per_s = 1 / cost.per_operation_s
        if max(per_s.values()) > 0.05 * most_per_s:  # else far above
            ax.axhline(most_per_s, color=style.PREDICTED, linestyle=":", linewidth=2)
            ax.annotate(
                f"1/b = {numbers.rate(most_per_s)}",
                (1.0, most_per_s),
                (0, -20),
                textcoords="offset points",
                color=style.PREDICTED,
            )
    with _by_batch(axes[1], stays_ms, cost, "residence of a message (ms)") as ax:
        residence_ms = 1e3 * in_flight * message_s
        ax.plot(sizes, residence_ms, color=style.PREDICTED, label="N·(a + b·k)")
    return axes


@contextmanager
def _by_batch(ax: Axes, measured: Mapping[int, float], cost: Cost, ylabel: str) -> Iterator[Axes]:
    """Draw the measured dots, what the block adds, and the size beyond which little is gained."""
    with style.canvas(ax) as ax:
        tests = [size for size in measured if size not in ENDS]
        for sizes, fill, label in (ENDS, "none", "gave a and b"), (tests, "full", "tests them"):
            ax.plot(
                sizes,
                [measured[size] for size in sizes],
                "o",
                color=style.MEASURED,
                fillstyle=fill,
                markeredgewidth=2.5,
                label=label,
                zorder=3,
            )
        yield ax
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set(xlabel="in a message, k (operations)", ylabel=ylabel)
        enough = batching.enough(**cost._asdict(), share=ENOUGH)
        if enough <= ax.get_xlim()[1]:
            ax.axvline(enough, color=style.INK, linestyle="--", linewidth=1.5)
            ax.annotate(
                f"{numbers.percent(ENOUGH)} of 1/b",
                (enough, 0.0),
                (-6, 8),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                color=style.INK,
                ha="right",
            )
