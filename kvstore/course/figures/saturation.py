"""Throughput past the knee: the bound, the queues in front of it, and a fitted law."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.figures.curves import throughput_by_in_flight
from kvstore.measure import Run
from kvstore.model import Station, mva

if TYPE_CHECKING:  # scipy is heavy, and every notebook opens this door
    from kvstore.model.usl import Fit

POINTS = 60
"""Numbers in flight at which a curve is computed."""


def saturation(
    runs: Sequence[Run],
    stations: Sequence[Station],
    *,
    think_s: float = 0.0,
    fit: "Fit | None" = None,
    ax: Axes | None = None,
) -> Axes:
    """Measured dots under the bound, with N*, and the curve that queues make of the bend.

    A `fit` of the universal scalability law is a line through the dots: it predicts nothing.
    """
    data = tables.saturation(runs, stations, think_s=think_s, fit=fit)
    ax = throughput_by_in_flight(runs, stations, think_s=think_s, ax=ax)
    with style.canvas(ax) as ax:
        most = max(data.index, default=1)
        in_flight = np.unique(np.geomspace(1, most, POINTS).astype(int))
        queues = [mva.closed_loop(int(n), stations, think_s).value for n in in_flight]
        ax.plot(
            in_flight, queues, "--", color=style.ORANGE, linewidth=2.5, label="with queues (MVA)"
        )
        if fit is not None:
            fitted = [fit.throughput_per_s(float(n)) for n in in_flight]
            ax.plot(
                in_flight, fitted, ":", color=style.MEASURED, linewidth=2.5,
                label="USL, fitted to the dots",
            )  # fmt: skip
        ax.legend(loc="best")  # past the peak a fit may come down into any corner
    return ax
