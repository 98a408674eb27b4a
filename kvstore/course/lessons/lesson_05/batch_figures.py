"""Figures and the table of lesson 05: throughput and residence time by operations in a message."""

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course.views import style
from kvstore.course.views.style import by_row, rounded
from kvstore.measure import Run
from kvstore.measure.cpu_cost import d_max_s, utilisation
from kvstore.model import batching


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
                "CPU of a message (µs)": 1e6 * d_max_s(run),
                "bottleneck process busy (%)": 100 * utilisation(run),
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


def throughput_by_batch(
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
            sizes,
            sizes / (per_message_s + per_operation_s * sizes),
            color=style.PREDICTED,
            label="k / (a + b·k)",
        )
        _dots(ax, data, "measured (operations/s)")
        if per_operation_s * data["measured (operations/s)"].max() > 0.05:  # else far above
            most_per_s = 1 / per_operation_s
            ax.axhline(most_per_s, color=style.PREDICTED, linestyle=":", linewidth=2)
            ax.annotate(
                f"1/b = {numbers.rate(most_per_s)}",
                (1.0, most_per_s),
                (0, -20),
                textcoords="offset points",
                color=style.PREDICTED,
            )
        _finish(ax, batching.enough(**cost, share=ENOUGH))
        ax.set_ylabel("throughput, X (operations/s)")
    return ax


def residence_by_batch(
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
            sizes,
            1e3 * in_flight * (per_message_s + per_operation_s * sizes),
            color=style.PREDICTED,
            label="N·(a + b·k)",
        )
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
            chosen.index,
            chosen,
            "o",
            color=style.MEASURED,
            fillstyle=fill,
            markeredgewidth=2.5,
            label=label,
            zorder=3,
        )


def _finish(ax: Axes, enough: float) -> None:
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("in a message, k (operations)")
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
