"""What a design costs and promises, and what a plan was worth."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from kvstore.course.tables.layout import by_row, rounded

if TYPE_CHECKING:  # the designs draw with figures, and figures ask the tables
    from kvstore.course.design.forecasts import Forecast
    from kvstore.course.design.score import Score


def promises(
    forecasts: "Mapping[str, Forecast]", needed_per_s: float | None = None
) -> pd.DataFrame:
    """One row for each design: its days, what the model says it gives, and what binds then."""
    rows = [
        {
            "design": name,
            "cost (days)": found.cost_days,
            "predicted (operations/s)": found.per_s.value,
            "p99, about (ms)": 1e3 * found.p99_s,
            "in flight (calls)": found.design.in_flight,
            "binds": found.per_s.binds,
            "enough": "yes" if found.enough else "no",
        }
        for name, found in forecasts.items()
    ]
    table = rounded(by_row(rows, "design"))
    if needed_per_s is not None:
        table.insert(2, "÷ needed", (table["predicted (operations/s)"] / needed_per_s).round(2))
    return table


def score(scores: "Mapping[str, Score]") -> pd.DataFrame:
    """One row for each line of a score, one column for each plan, in points."""
    columns = {
        f"{name} (points)": {line.name: line.points for line in each.lines}
        for name, each in scores.items()
    }
    table = pd.DataFrame(columns).round(1)
    first = next(iter(scores.values()))
    table.insert(0, "of (points)", [line.of for line in first.lines])
    table.loc["all"] = table.sum()
    return table.rename_axis("line").round(1)
