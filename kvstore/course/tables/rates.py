"""Throughput as numbers: of runs, of steps, by the limit in flight."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from kvstore.course.named import Predictions, Runs, number, predictions_for, runs_by_name
from kvstore.course.predictions import HasValue
from kvstore.course.tables.layout import by_row, rounded
from kvstore.measure import Run, throughput_interval
from kvstore.model import Station, bounds


def throughput(runs: Runs, predictions: Predictions = None) -> pd.DataFrame:
    """Each run's throughput with its 95 % interval, and the predictions for it."""
    named = runs_by_name(runs)
    rows = []
    for (name, run), predicted in zip(named, predictions_for(predictions, len(named)), strict=True):
        low, high = throughput_interval(run)
        rows.append(
            {
                "run": name,
                "predicted (operations/s)": predicted,
                "measured (operations/s)": run.throughput_per_s,
                "95 % from (operations/s)": low,
                "95 % to (operations/s)": high,
                "measured ÷ predicted": run.throughput_per_s / predicted if predicted else None,
            }
        )
    table = by_row(rows, "run")
    if isinstance(predictions, Mapping):
        table = table.drop(columns=["predicted (operations/s)", "measured ÷ predicted"])
        for name, each in predictions.items():
            table[f"{name} (operations/s)"] = number(each)
    return rounded(table)


def ladder(steps: Mapping[str, Run | HasValue | float]) -> pd.DataFrame:
    """The throughput of one step after the other, and how many times the one before it is."""
    rates = pd.Series(
        {
            name: step.throughput_per_s if isinstance(step, Run) else number(step)
            for name, step in steps.items()
        },
        dtype=float,
    )
    return rounded(
        pd.DataFrame(
            {"throughput (operations/s)": rates, "times the step before": rates / rates.shift()}
        ).rename_axis("step")
    )


def throughput_by_in_flight(
    runs: Sequence[Run],
    stations: Sequence[Station] = (),
    *,
    think_s: float = 0.0,
    simulated: Mapping[int, float] | None = None,
) -> pd.DataFrame:
    """Each run's throughput by its limit in flight, with the bound and the station that binds.

    `simulated` gives operations per second by the number in flight.
    """
    rows = []
    for run in sorted(runs, key=lambda run: run.in_flight):
        row: dict[str, Any] = {"in flight": run.in_flight}
        if stations:
            bound = bounds.closed_loop(run.in_flight, stations, think_s=think_s)
            row |= {"bound (operations/s)": bound.value, "what binds": bound.binds}
        if simulated is not None:
            row |= {"simulated (operations/s)": simulated.get(run.in_flight, math.nan)}
        row |= {"measured (operations/s)": run.throughput_per_s}
        rows.append(row)
    return rounded(by_row(rows, "in flight"))
