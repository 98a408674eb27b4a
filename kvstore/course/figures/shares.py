"""Stacked bars: where a call's time went, and which operations were sent."""

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.named import Runs
from kvstore.course.rendering import number

ROOM = 0.07
"""A part with less than this share of the widest bar has no number written into it."""


def time_by_station(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """One bar for each run: the mean call's milliseconds at each station, end to end."""
    data = tables.time_by_station(runs)
    frame = data.rename(columns=lambda heading: heading.removesuffix(" (ms)"))
    parts = {name: look for name, look in style.STATIONS.items() if name in frame}
    with style.canvas(ax, height_in=2.4 + 0.8 * len(data)) as ax:
        stack(ax, frame[list(parts)], parts)
        for row, whole_ms in enumerate(data["whole residence (ms)"]):
            ax.annotate(
                f"{whole_ms:.4g} ms", (whole_ms, row), (6, 0),
                textcoords="offset points", va="center",
            )  # fmt: skip
        ax.set(xlabel="mean residence of a call (ms)", ylabel="run")
        ax.set_xlim(0.0, 1.15 * data["whole residence (ms)"].max())
    ax.grid(visible=False, axis="y")
    return ax


def mix(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """One bar for each run: the share of each kind of operation that was sent."""
    data = tables.mix(runs).rename(columns=lambda heading: heading.removesuffix(" (%)"))
    parts = {name: look for name, look in style.OPERATIONS.items() if name in data}
    with style.canvas(ax, height_in=2.2 + 0.8 * len(data)) as ax:
        stack(ax, data[list(parts)], parts)
        ax.set(xlabel="share of operations (%)", ylabel="run")
    ax.grid(visible=False, axis="y")
    return ax


def stack(ax: Axes, data: pd.DataFrame, parts: dict[str, tuple[str, str]]) -> None:
    """Draw the columns of each row end to end; `parts` gives each its colour and hatching."""
    left = pd.Series(0.0, index=data.index)
    widest = float(data.sum(axis=1).max())
    for name, (colour, hatch) in parts.items():
        widths = data[name]
        ax.barh(
            range(len(data)), widths, left=left, height=0.6, color=colour,
            hatch=hatch, edgecolor="black", linewidth=0.8, label=name,
        )  # fmt: skip
        for row, (start, width) in enumerate(zip(left, widths, strict=True)):
            if width >= ROOM * widest:
                ax.text(
                    start + width / 2, row, number(width), ha="center", va="center",
                    bbox=style.PAPER,
                )  # fmt: skip
        left = left + widths
    ax.set_yticks(range(len(data)), list(data.index))
    ax.set_ylim(len(data) - 0.5, -0.5)
    style.key_above(ax)
