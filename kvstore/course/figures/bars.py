"""The calls themselves: as bars over time, and in the order of their replies."""

import math

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.measure import Run

HATCHED_ROWS = 40
"""With more rows bars are too thin for hatching: a marker at the start tells the kind instead."""


def calls_over_time(
    run: Run,
    *,
    most: int = 120,
    from_s: float = 0.0,
    until_s: float = math.inf,
    lanes: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Each call as a bar from sent to done, the first one on top.

    Blocking is a staircase: each call begins where the last one ended. Pipelined is a
    slab. With `lanes` a call takes the topmost row that is free, so that the number of
    rows in use is the number in flight. At most `most` calls are drawn, the first that
    were sent between `from_s` and `until_s`.
    """
    data = tables.calls_over_time(run, most=most, from_s=from_s, until_s=until_s, lanes=lanes)
    place = data["lane"] if lanes else data.index.to_series()
    rows = int(place.max()) if len(data) else 1
    with style.canvas(ax, height_in=min(7.0, 2.2 + 0.2 * max(rows, 5))) as ax:
        for name, (colour, hatch) in style.OPERATIONS.items():
            calls = data[data["operation"] == name]
            if not len(calls):
                continue
            ax.barh(
                place[calls.index], calls["done (s)"] - calls["sent (s)"], left=calls["sent (s)"],
                height=0.8, color=colour, hatch=hatch if rows <= HATCHED_ROWS else "",
                edgecolor="black", linewidth=0.5 if rows <= HATCHED_ROWS else 0.1, label=name,
            )  # fmt: skip
            if rows > HATCHED_ROWS:
                ax.plot(
                    calls["sent (s)"], place[calls.index], style.MARKERS[name], color=colour,
                    markersize=5, markeredgecolor="black", markeredgewidth=0.6,
                )  # fmt: skip
        failed = data[data["status"] != "OK"]
        if len(failed):
            ax.plot(
                failed["done (s)"], place[failed.index], "x", color=style.BLACK,
                markersize=8, linewidth=2, label="not OK",
            )  # fmt: skip
        ax.set(xlabel="elapsed (s)", ylabel="lane (call in flight)" if lanes else "call (number)")
        ax.set_ylim(max(rows, 3) + 0.7, 0.3)
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        style.key_above(ax)
    ax.grid(visible=False, axis="y")
    return ax


def reply_order(run: Run, *, most: int = 60, ax: Axes | None = None) -> Axes:
    """As which number each call was answered, over as which number it was sent.

    On the line, replies come in the order of asking; below it a call overtook others,
    above it the call was overtaken.
    """
    data = tables.reply_order(run, most=most)
    with style.canvas(ax, height_in=6.0) as ax:
        ends = [1, max(2, len(data))]
        ax.plot(ends, ends, color=style.PREDICTED, linewidth=2, label="in the order of asking")
        for name, (colour, _) in style.OPERATIONS.items():
            calls = data[data["operation"] == name]
            if len(calls):
                ax.plot(
                    calls.index, calls["answered as number"], style.MARKERS[name], color=colour,
                    markeredgecolor="black", label=name,
                )  # fmt: skip
        ax.set(xlabel="sent as number (call)", ylabel="answered as number (call)")
        ax.legend(loc="upper left")
    return ax
