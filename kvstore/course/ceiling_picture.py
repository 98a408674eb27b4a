"""What a call in flight costs in memory: dots from a run, and the lines that a probe drew."""

import numpy as np
from matplotlib.axes import Axes

from kvstore.course.ceiling import Probe, stopped_s
from kvstore.course.figures import style
from kvstore.course.figures.growth import LOOKS
from kvstore.course.tables import MB
from kvstore.measure import Run


def memory_by_in_flight(run: Run, seen: Probe, *, ax: Axes | None = None) -> Axes:
    """Memory of client and server over the calls in flight, while the run was sending."""
    sending = run.samples[run.samples["elapsed_s"] <= stopped_s(run)]
    ends = np.array([0.0, sending["in_flight"].max()])
    with style.canvas(ax) as ax:
        for side, (marker, colour, dashes) in LOOKS.items():
            line = seen.lines[side]
            ax.plot(
                sending["in_flight"], sending[f"{side}_rss_bytes"] / MB, marker, color=colour,
                markersize=6, label=side,
            )  # fmt: skip
            ax.plot(
                ends, (line.base_bytes + line.bytes_per_call * ends) / MB, linestyle=dashes,
                color=style.PREDICTED, linewidth=2,
                label=f"{line.bytes_per_call / 1e3:,.0f} kB a call",
            )  # fmt: skip
        ax.set(xlabel="in flight (calls)", ylabel="resident memory (MB)")
        ax.set_xlim(left=0.0)
        style.key_above(ax)
    return ax
