"""Throughput by the number of servers, and how many requests wait for the slowest of several."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pandas as pd

from kvstore.course.named import number
from kvstore.course.predictions import HasValue
from kvstore.course.stories.fan_out import Asked
from kvstore.course.tables.layout import by_row, rounded
from kvstore.measure import Run
from kvstore.model.scale_out import Played

ByServers: TypeAlias = Mapping[str, Mapping[int, Run | float]]
"""Runs, or operations per second, by what is asked for, and then by the number of servers."""

Simulated: TypeAlias = Mapping[str, Mapping[int, Played]]
"""The same of what was played through."""

Predicted: TypeAlias = Mapping[str, Callable[[int], HasValue | float]]
"""What is predicted for so many servers, by what is asked for."""


def throughput_by_servers(
    runs: ByServers, predicted: Predicted, simulated: Simulated | None = None
) -> pd.DataFrame:
    """One row for each number of servers and what is asked for: predicted, simulated, measured."""
    played = simulated or {}
    rows: list[dict[str, Any]] = []
    for name, predict in predicted.items():
        made, model = runs.get(name, {}), played.get(name, {})
        for servers in sorted({*made, *model}):
            run, simulation = made.get(servers), model.get(servers)
            rows.append(
                {
                    "asked for": name,
                    "servers": servers,
                    "predicted (operations/s)": number(predict(servers)),
                    "simulated (operations/s)": _rate(simulation),
                    "measured (operations/s)": _rate(run),
                }
            )
    table = by_row(rows, "asked for").set_index("servers", append=True)
    return rounded(table.dropna(axis="columns", how="all"))


def simulated_over_time(played: Played, bound: HasValue | float, slices: int = 12) -> pd.DataFrame:
    """What is answered per simulated second from the beginning on, beside the bound."""
    at_s, rates = played.rates(slices)
    table = pd.DataFrame({"simulated time (s)": at_s, "simulated (operations/s)": rates})
    table["bound (operations/s)"] = number(bound)
    return rounded(table).set_index("simulated time (s)")


def slow_by_servers(
    asked: Asked,
    longer_than_s: float,
    predicted: Callable[[int], HasValue | float],
) -> pd.DataFrame:
    """The share of the requests that take longer, by how many servers each has to wait for."""
    rows = [
        {
            "servers asked": each,
            "predicted, slow (%)": 100 * (number(predicted(each)) or 0.0),
            "measured, slow (%)": 100 * asked.slow_share(each, longer_than_s),
            "median (ms)": 1e3 * float(pd.Series(asked.residence_s(each)).median()),
        }
        for each in range(1, asked.answer_s.shape[1] + 1)
    ]
    return rounded(by_row(rows, "servers asked"))


def _rate(what: Run | Played | float | None) -> float:
    if isinstance(what, Run | Played):
        return what.throughput_per_s
    return math.nan if what is None else what
