"""The table and the figure of lesson 16: the levels of a calibration."""

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.views import style
from kvstore.course.views.style import by_row, rounded
from kvstore.course.views.throughput import draw_bounds
from kvstore.load_test import Calibration
from kvstore.measure import Run


def levels_table(calibration: Calibration) -> pd.DataFrame:
    """Return X and R of each level of a calibration, with the bounds, and the processor time."""
    rows = [
        {
            "in flight": level.in_flight,
            "bound on X (calls/s)": calibration.closed_loop(level.in_flight).value,
            "X (calls/s)": level.throughput_per_s,
            "bound on R (ms)": 1e3 * calibration.residence_bound_s(level.in_flight),
            "R (ms)": 1e3 * level.residence_s,
            "generator (cores)": level.cores.generator,
            "server (cores)": level.cores.server,
        }
        for level in calibration.levels
    ]
    return rounded(by_row(rows, "in flight"))


def levels(calibration: Calibration, run: Run) -> Axes:
    """Draw X against N: a dot for each level and for `run`, the bounds as lines that meet at N*."""
    in_flight = [level.in_flight for level in calibration.levels]
    with style.canvas(height_in=6.0) as ax:
        most = max(*in_flight, run.in_flight)
        right = draw_bounds(ax, calibration.stations, most=most)
        ax.plot(
            in_flight, [level.throughput_per_s for level in calibration.levels], "o",
            color=style.MEASURED, label="calibration", zorder=3,
        )  # fmt: skip
        ax.plot(
            run.in_flight, run.answered_per_s, "s", color=style.GREEN,
            label="run", zorder=4,
        )  # fmt: skip
        ax.set(xlabel="in flight, N (calls)", ylabel="throughput, X (calls/s)")
        rates = [level.throughput_per_s for level in calibration.levels]
        ax.set_xlim(0.0, right)
        ax.set_ylim(0.0, 1.2 * max(*rates, run.answered_per_s))
    return ax
