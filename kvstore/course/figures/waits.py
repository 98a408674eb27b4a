"""How long each call waited in a queue that formed at once."""

import numpy as np
from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.predictions import HasValue
from kvstore.measure import Run


def latency_by_answer(
    run: Run, prediction: HasValue | float | None = None, *, ax: Axes | None = None
) -> Axes:
    """Latency over the number of the answer as dots; k / X for a predicted throughput as a line."""
    data = tables.latency_by_answer(run, prediction)
    every = max(1, len(data) // 100)
    dots = data["measured (s)"].iloc[::every]
    with style.canvas(ax) as ax:
        ax.plot(
            dots.index, dots, "o", color=style.MEASURED, markersize=6, label="measured", zorder=3
        )
        if "predicted (s)" in data:
            ends = np.array([0, len(data)])
            line = [0.0, *data["predicted (s)"].iloc[-1:]]
            ax.plot(ends[: len(line)], line, color=style.PREDICTED, label="predicted: k / X")
        ax.set(xlabel="answered as number, k (call)", ylabel="latency (s)")
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0.0)
        style.key_above(ax)
    return ax
