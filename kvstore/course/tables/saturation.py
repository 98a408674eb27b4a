"""Throughput past the knee, beside what three models say of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from kvstore.course.tables.layout import rounded
from kvstore.course.tables.rates import throughput_by_in_flight
from kvstore.measure import Run
from kvstore.model import Station, mva

if TYPE_CHECKING:  # scipy is heavy, and every notebook opens this door
    from kvstore.model.usl import Fit


def saturation(
    runs: Sequence[Run],
    stations: Sequence[Station],
    *,
    think_s: float = 0.0,
    fit: "Fit | None" = None,
) -> pd.DataFrame:
    """Each run beside the bound, mean value analysis (queues included), and a fitted law.

    Stations must be single servers, or have no queue: MVA knows no others.
    """
    table = throughput_by_in_flight(runs, stations, think_s=think_s)
    queues = [mva.closed_loop(n, stations, think_s).value for n in table.index]
    table.insert(1, "with queues (operations/s)", queues)
    if fit is not None:
        table.insert(2, "fitted (operations/s)", [fit.throughput_per_s(n) for n in table.index])
    table["client, cores busy"] = [
        run.client_cpu.total_s / run.window_s if run.window_s else float("nan")
        for run in sorted(runs, key=lambda run: run.in_flight)
    ]
    return rounded(table)
