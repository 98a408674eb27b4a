"""How every figure and table looks, and the forms in which they take runs.

The style of a figure of the course is in force while that figure is drawn. Those that a lesson
draws with matplotlib itself look like them, because `lesson` sets `IN_A_LESSON`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import (
    LogFormatter,
    LogLocator,
    NullFormatter,
    ScalarFormatter,
    StrMethodFormatter,
)

from kvstore.course import alt_text, rendering
from kvstore.course.rendering import HasValue
from kvstore.measure import Run

# Okabe and Ito's palette, told apart by every common kind of colour blindness.
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

INK: Final = "#757575"
"""Text, axes and what has no colour of its own, on any page: figures have no ground, and this
grey has a contrast of 4.6 with white and of 4.1 with JupyterLab's dark theme."""

PREDICTED: Final = RED
"""Predicted is always a line, in this colour."""
MEASURED: Final = BLUE
"""Measured is always dots, in this colour."""

LOOKS: Final = (
    ("o", BLUE, "-"),
    ("s", GREEN, "--"),
    ("D", PURPLE, ":"),
    ("v", ORANGE, "-."),
)
"""Dot and colour of each of several runs, and the dashes of what is predicted for it."""

PROCESSES: Final = {"client": ("o", MEASURED, "-"), "server": ("s", GREEN, "--")}
"""Dot, colour, and the dashes of the forecast for each process."""

OPERATIONS: Final = {
    "create": (GREEN, ""),
    "retrieve": (SKY, "///"),
    "update": (ORANGE, "..."),
    "delete": (PURPLE, "xxx"),
    "batch": (INK, "---"),
}
"""Colour and hatching of each kind of operation: in black and white the hatching tells."""

MARKERS: Final = {"create": "o", "retrieve": "v", "update": "s", "delete": "D", "batch": "P"}
"""The dot of each kind of operation, where there is no room for hatching."""

STATIONS: Final = {
    "client and wire": ("#D9D9D9", ""),
    "pool queue": (SKY, "///"),
    "lock": (ORANGE, "..."),
    "disk": (GREEN, ""),
    "back end": (GREEN, "---"),
    "rest of the server": (PURPLE, "xxx"),
}
"""Colour and hatching of each place where a call spends time."""

DECADES: Final = 500.0
"""From this ratio of the largest to the smallest number in flight on, axes are logarithmic."""
LOG_FROM: Final = 12.0
"""From this ratio of the largest to the smallest throughput on, the axis is logarithmic."""
DPI: Final = 80
WIDE_IN, HIGH_IN = 9.3, 5.2
"""No figure is larger: on a slide its text has the size of the slide's own."""
PAPER: Final = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
"""The ground of a number that stands on a bar; elsewhere the page is the ground."""
TEXT_PT: Final = 14
"""No text in a figure is smaller: it is read from the back row."""

_SETTINGS: Final[dict[str, Any]] = {
    "font.size": TEXT_PT,
    "axes.labelsize": TEXT_PT + 1,
    "axes.titlesize": TEXT_PT + 1,
    "xtick.labelsize": TEXT_PT,
    "ytick.labelsize": TEXT_PT,
    "lines.linewidth": 3.0,
    "lines.markersize": 10.0,
    "hatch.linewidth": 0.8,
    "figure.constrained_layout.use": True,
    "figure.dpi": DPI,
    "text.color": INK,
    "axes.facecolor": "none",
}

IN_A_LESSON: Final[dict[str, Any]] = {
    "font.size": TEXT_PT - 1,
    "axes.titlesize": TEXT_PT + 1,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.prop_cycle": cycler(color=[BLUE, ORANGE, GREEN, PURPLE, SKY, RED]),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "grid.color"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "lines.linewidth": 2.5,
    "axes.facecolor": "none",
    "figure.figsize": (8.5, 4.6),
    "figure.dpi": DPI,
    "figure.constrained_layout.use": True,
}
"""matplotlib's own settings for what a lesson, or a learner, draws without `canvas`."""


@contextmanager
def canvas(
    ax: Axes | None = None,
    height_in: float = 5.0,
    rows: Iterable[object] | None = None,
    *,
    title: str = "",
) -> Iterator[Axes]:
    """Yield the axes to draw on, new ones when there are none; when the block ends, finish them.

    The end of the block makes every text readable and places the legend. `rows` names what is drawn
    at the heights 0, 1, 2, ..., from the top down. `title` says what is seen; a figure with axes of
    its caller has its title from the caller.
    """
    with mpl.rc_context(cast("Any", _SETTINGS)):  # matplotlib types every name it knows
        if ax is None:
            (ax,) = subplots(figsize=(WIDE_IN, min(height_in, HIGH_IN)), title=title)
        yield ax
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        # Ticks that are made later, when the figure is shown, must keep size and colour too.
        ax.tick_params(labelsize=TEXT_PT, colors=INK)
        ax.set_facecolor("none")
        for spine in ax.spines.values():
            spine.set_color(INK)
        for label in (ax.xaxis.label, ax.yaxis.label):
            label.set(fontsize=TEXT_PT + 1, color=INK)
        if rows is not None:
            names = list(map(str, rows))
            ax.set_yticks(range(len(names)), names)
            ax.set_ylim(len(names) - 0.4, -0.6)
        for axis in (ax.xaxis, ax.yaxis):
            if isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter):
                _plain_numbers(axis)
        across: Any = "both" if rows is None else "x"
        ax.grid(visible=True, axis=across, color=INK, alpha=0.25, linewidth=0.8)
        ax.set_axisbelow(True)
        key_above(ax)
        interactive = mpl.is_interactive()
    # The notebook's backend is loaded for the first figure, so inside the context, and switches
    # this on; with the context's end it would be off, and no later figure would be shown.
    mpl.interactive(interactive)


def subplots(rows: int = 1, columns: int = 1, *, title: str, **options: Any) -> list[Axes]:
    """New axes of one figure, row by row; the notebook shows the figure with its description."""
    with mpl.rc_context({"text.color": INK}):  # of titles
        figure, axes = plt.subplots(rows, columns, squeeze=False, **options)
        interactive = mpl.is_interactive()
    mpl.interactive(interactive)  # as in `canvas`
    entitle(figure, title)
    figure.set_gid(alt_text.NO_GROUND)
    alt_text.attach_alt_text()  # after the first figure, which loads the notebook's backend
    return list(axes.flat)


def entitle(figure: Figure, title: str) -> None:
    """Write what is seen above the whole figure, its legends included."""
    if title:
        figure.suptitle(title, x=0.01, ha="left", size=TEXT_PT + 2, weight="bold", color=INK)


def look(place: int) -> tuple[str, str, str]:
    """One of `LOOKS` for the run at this place, from 0; after the last the first comes again."""
    return LOOKS[place % len(LOOKS)]


def decades(values: Sequence[float]) -> bool:
    """Return whether the values of an x axis are so far apart that a linear one would hide some."""
    return min(values, default=0.0) > 0 and max(values) > DECADES * min(values)


def _plain_numbers(axis: Axis) -> None:
    """Ticks as 1,000, and not as 1000 or as a power of ten; 1, 2 and 5 where decades are few."""
    axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axis.set_minor_formatter(NullFormatter())
    low, high = axis.get_view_interval()
    if axis.get_scale() == "log" and high < 300 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def key_above(ax: Axes) -> None:
    """Put the legend above the axes, where it covers neither dots nor text.

    The legend stands above every text over the axes, such as the label of N*, and has as many
    rows as its width requires. Several runs drawn on the same axes share one entry for each name.
    `canvas` calls this: only code that adds a line to a finished figure calls it again.
    """
    if (before := ax.get_legend()) is not None:
        before.remove()
    handles, names = ax.get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    if not once:
        return
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # the layout decides how wide the axes are
    tops = [text.get_window_extent().y1 for text in ax.texts]
    over_pt = max([0.0, *(top - ax.bbox.y1 for top in tops)]) * 72 / figure.dpi
    for rows in range(1, len(once) + 1):
        legend = ax.legend(
            once.values(),
            once.keys(),
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=math.ceil(len(once) / rows),
            columnspacing=1.2,
            handletextpad=0.5,
            borderaxespad=0.2 + over_pt / TEXT_PT,
            fontsize=TEXT_PT,
            labelcolor=INK,
            frameon=False,
        )
        if legend.get_window_extent().width <= ax.bbox.width:
            break


# The forms in which tables and figures take runs and predictions, and helpers of tables.
#
# Runs are one run, a sequence, or a mapping by name. Tables have four significant digits.


Runs: TypeAlias = Run | Sequence[Run] | Mapping[str, Run]
"""One run, several, or several by name."""


def runs_by_name(runs: Runs) -> list[tuple[str, Run]]:
    """Return each run with its name; runs of the same strategy are numbered."""
    if isinstance(runs, Mapping):
        return list(runs.items())
    several = [runs] if isinstance(runs, Run) else list(runs)
    return list(zip(_apart([title(run) for run in several]), several, strict=True))


def title(run: Run) -> str:
    """Return the name of a run: its strategy, its limit if any, its connections if several."""
    name = f"{run.strategy} {rendering.TIMES}{run.in_flight}" if run.in_flight else run.strategy
    return f"{name} over {run.connections}" if run.connections > 1 else name


def number(prediction: HasValue | float | None) -> float | None:
    """Return the value of a prediction, or the number itself."""
    return prediction.value if isinstance(prediction, HasValue) else prediction


def _apart(names: Iterable[str]) -> list[str]:
    counts: dict[str, int] = {}
    apart = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        apart.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return apart


MB: Final = 1e6
SLICES: Final = 40
"""The number of slices of a run in a table over time."""


def by_row(rows: Sequence[Mapping[str, Any]], index: str) -> pd.DataFrame:
    """Return a table with one row for each mapping, indexed by the column `index`."""
    return pd.DataFrame(rows).set_index(index)


class Table(pd.DataFrame):
    """A table that shows each number with its own digits: 1,001 below 50.2, and not 1001.0."""

    @property
    def _constructor(self) -> type["Table"]:
        return Table

    def _repr_html_(self) -> str:
        return str(self.to_html(border=0, max_rows=60, float_format="{:,.10g}".format))

    def __repr__(self) -> str:
        with pd.option_context("display.float_format", "{:,.10g}".format):
            return super().__repr__()


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with four significant digits: no run is more certain than that."""
    return Table(table.map(lambda cell: float(f"{cell:.4g}") if isinstance(cell, float) else cell))


def slices(run: Run) -> int:
    """Return the number of slices: fewer for few calls, so that no slice is empty by chance."""
    return max(1, min(SLICES, len(run.records) // 5))


def window_s(run: Run) -> float:
    """Return the seconds that the run lasted; 1 for an empty run, to be divided by."""
    return run.window_s or 1.0
