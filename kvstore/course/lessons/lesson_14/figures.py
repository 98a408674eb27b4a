"""The figures of lesson 14: dots are measured, lines are predicted."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes

from kvstore.course.lessons.lesson_14.etcd_runs import Failover
from kvstore.course.views import plot_measured_over_predicted, style
from kvstore.measure import Run
from kvstore.model import Prediction


def throughput_by_commit(
    runs: Mapping[str, Mapping[int, Run]], predictions: Mapping[str, Callable[[int], Prediction]]
) -> Axes:
    """Draw throughput by calls in flight: a line and dots for each kind of commit."""
    in_flight = range(1, max(max(by_in_flight) for by_in_flight in runs.values()) + 1)
    return plot_measured_over_predicted(
        {
            f"measured: {name}": (
                list(by_in_flight),
                [run.answered_per_s for run in by_in_flight.values()],
            )
            for name, by_in_flight in runs.items()
        },
        {
            f"predicted: {name}": (in_flight, [predictions[name](n).value for n in in_flight])
            for name in runs
        },
        xlabel="in flight, N (calls)",
        ylabel="throughput, X (calls/s)",
        title="Throughput by the calls in flight, for each kind of commit",
    )


def acknowledged_over_time(run: Failover) -> Axes:
    """Draw how many writes were acknowledged in each tenth of a second, and the kills."""
    width_s = 0.1
    end_s = max(run.acknowledged_s)
    edges_s = np.arange(0.0, end_s + width_s, width_s)
    counts, _ = np.histogram(run.acknowledged_s, bins=edges_s)
    with style.canvas(height_in=4.7, title="Writes acknowledged, while leaders are killed") as ax:
        ax.step(
            edges_s[:-1],
            counts / width_s,
            where="post",
            color=style.MEASURED,
            linewidth=2.0,
            label="acknowledged",
        )
        for place, kill_s in enumerate(run.kills_s):
            ax.axvline(
                kill_s,
                color=style.RED,
                linestyle="--",
                label="leader killed" if not place else None,
            )
        ax.set(xlabel="elapsed (s)", ylabel="writes acknowledged (writes/s)")
        ax.set_xlim(0.0, end_s)
        ax.set_ylim(bottom=0.0)
    return ax
