"""Writes that are kept, on a disk or in several copies, as numbers."""

from collections.abc import Callable, Mapping

import pandas as pd

from kvstore.course.tables.layout import by_row, rounded
from kvstore.measure import Run
from kvstore.model import Prediction

SHARES = (0.5, 0.9, 0.99)
"""The quantiles that stand in the table."""


def throughput_by_commit(
    runs: Mapping[str, Mapping[int, Run]],
    predictions: Mapping[str, Callable[[int], Prediction]],
) -> pd.DataFrame:
    """For each way to commit, and each number in flight: X predicted and measured, and R."""
    rows = []
    for name, by_in_flight in runs.items():
        for in_flight, run in sorted(by_in_flight.items()):
            predicted = predictions[name](in_flight)
            rows.append(
                {
                    "commits": name,
                    "in flight (calls)": in_flight,
                    "predicted (calls/s)": predicted.value,
                    "measured (calls/s)": run.answered_per_s,
                    "measured ÷ predicted": run.answered_per_s / predicted.value,
                    "binds": predicted.binds,
                    "residence (ms)": 1e3 * run.mean_residence_s,
                }
            )
    return rounded(by_row(rows, "commits"))


def answered_within(
    runs: Mapping[str, Run], predictions: Mapping[str, Callable[[float], float]]
) -> pd.DataFrame:
    """The time within which half, 90 % and 99 % of the calls were answered OK.

    `predictions` gives seconds for a share, by the name of the run.
    """
    rows = []
    for name, run in runs.items():
        row: dict[str, str | float] = {"answered by": name}
        for share in SHARES:
            row[f"{share:.0%} within (ms)"] = 1e3 * run.latency_s(share)
            row[f"predicted, {share:.0%} (ms)"] = 1e3 * predictions[name](share)
        rows.append(row)
    return rounded(by_row(rows, "answered by"))
