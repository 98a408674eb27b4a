"""The figure of lesson 13: servers side by side."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from kvstore.course.views import style
from kvstore.numbers import seconds


def side_by_side(service_s: Sequence[float], in_flight: int) -> Axes:
    """Draw one client, and a line from it to each of several servers with its service time."""
    with style.canvas(height_in=3.9, title="One client, and servers side by side") as ax:
        middle = (len(service_s) - 1) / 2
        box = {"boxstyle": "round,pad=0.6", "facecolor": "none", "linewidth": 2}
        for number, each_s in enumerate(service_s):
            y = middle - number
            ax.plot([0.24, 0.94], [0.3 * y, y], color=style.INK)
            ax.text(
                1,
                y,
                f"server {number}: lock, S = {seconds(each_s)}",
                va="center",
                bbox={**box, "edgecolor": style.BLUE},
            )
        ax.text(
            0,
            0,
            f"client, N = {in_flight}\nwhich server?",
            ha="center",
            va="center",
            bbox={**box, "edgecolor": style.GREEN},
        )
        ax.set(xlim=(-0.3, 2.0), ylim=(-middle - 0.6, middle + 0.6))
        ax.axis("off")
    return ax
