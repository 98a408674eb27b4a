"""The figures of lesson 09: overload with and without a limit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from kvstore.course.rendering import HasValue
from kvstore.course.views.style import MB, number
from kvstore.course.views.throughput import Points, plot_measured_over_predicted
from kvstore.measure import Run, goodput

Curve = Callable[[float], HasValue | float]
"""Predicted goodput in calls/s, for an offered rate in calls/s."""
MOST_DOTS: Final = 60
"""The approximate number of samples drawn for a run."""


def goodput_by_offered(
    runs: Mapping[str, Sequence[Run]], predictions: Mapping[str, Curve], *, from_s: float = 0.0
) -> Axes:
    """Draw goodput over offered rate: measured dots, predicted lines.

    Only the calls that were due from `from_s` seconds on count.
    """
    measured: dict[str, Points] = {}
    for name, group in runs.items():
        points = [goodput(run, from_s=from_s) for run in group]
        offered = [each.offered_per_s for each in points]
        measured[f"measured: {name}"] = (offered, [each.in_time_per_s for each in points])
    most = 1.05 * max(float(np.max(offered)) for offered, _ in measured.values())
    offered_per_s = np.linspace(most / 200, most, 200)
    predicted: dict[str, Points] = {
        f"predicted: {name}": (
            offered_per_s,
            [number(predictions[name](float(per_s))) or 0.0 for per_s in offered_per_s],
        )
        for name in runs
    }
    return plot_measured_over_predicted(
        measured,
        predicted,
        xlabel="offered (calls/s)",
        ylabel="in time (calls/s)",
        title="What is answered in time, by what is offered",
    )


def memory_in_burst(runs: Mapping[str, Run]) -> Axes:
    """Draw how much the server's memory has grown, over time, as dots for each run."""
    measured: dict[str, Points] = {}
    for name, run in runs.items():
        samples = run.samples.iloc[:: max(1, len(run.samples) // MOST_DOTS)]
        grown = (samples["server_rss_bytes"] - run.samples["server_rss_bytes"].iloc[0]) / MB
        measured[name] = (samples["elapsed_s"], grown)
    return plot_measured_over_predicted(
        measured,
        xlabel="elapsed (s)",
        ylabel="server memory, grown by (MB)",
        title="Memory of each server in a burst",
        small=True,
    )
