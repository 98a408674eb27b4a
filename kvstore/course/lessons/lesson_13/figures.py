"""The figures of lesson 13: servers side by side, and p99 over the age of the counts."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from kvstore.course.views import style
from kvstore.numbers import seconds


def side_by_side(service_s: Sequence[float], in_flight: int) -> Axes:
    """Draw one client, and a line from it to each of several servers with its service time."""
    with style.canvas(height_in=3.6) as ax:
        middle = (len(service_s) - 1) / 2
        box = {"boxstyle": "round,pad=0.6", "facecolor": "none", "linewidth": 2}
        for number, each_s in enumerate(service_s):
            y = middle - number
            ax.plot([0.24, 0.94], [0.3 * y, y], color=style.INK)
            ax.text(
                1, y, f"server {number}: lock, S = {seconds(each_s)}", va="center",
                bbox={**box, "edgecolor": style.BLUE},
            )  # fmt: skip
        ax.text(
            0, 0, f"client, N = {in_flight}\nwhich server?", ha="center", va="center",
            bbox={**box, "edgecolor": style.GREEN},
        )  # fmt: skip
        ax.set(xlim=(-0.3, 2.0), ylim=(-middle - 0.6, middle + 0.6))
        ax.axis("off")
    return ax


def p99_by_age(measured: Mapping[str, Mapping[float, float]], at_random_s: float) -> Axes:
    """Draw p99 in seconds over the age of the counts in ms, for each choice, and random's line."""
    with style.canvas(height_in=5.0) as ax:
        for place, (name, by_age) in enumerate(measured.items()):
            dot, colour, dash = style.look(place)
            ax.plot(list(by_age), list(by_age.values()), dot + dash, color=colour, label=name)
        ax.axhline(at_random_s, color=style.INK, linestyle=":", label="at random")
        ax.set(xlabel="time between two reports, T (ms)", ylabel="p99 (s)", ylim=(0, None))
    return ax
