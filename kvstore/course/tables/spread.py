"""Runs in the form of h2load's table: least, most, mean, and how far from it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from kvstore.codes import OK
from kvstore.course.tables.layout import by_row, rounded
from kvstore.measure import Run

SPREAD: Final = ("min", "max", "mean", "sd", "within 1 sd (%)")
"""The columns of h2load's table, which `spread` fills."""


class HasRate(Protocol):
    """A run of ours, or of a client of another make."""

    @property
    def throughput_per_s(self) -> float:
        """Operations answered OK per second."""


def spread(values: npt.NDArray[np.float64] | Sequence[float]) -> list[float]:
    """Least, most, mean, standard deviation, and percent within one of it; NaN for no value."""
    found = np.asarray(values, np.float64)
    if not len(found):
        return [np.nan] * len(SPREAD)
    mean, sd = found.mean(), found.std()
    within = np.mean(np.abs(found - mean) <= sd)
    return [float(x) for x in (found.min(), found.max(), mean, sd, 100 * within)]


def like_h2load(run: Run) -> pd.DataFrame:
    """The rows of h2load's table from one of our runs, over the calls answered OK.

    The time of a request is that of each call. The others have one value for each connection:
    until it stood, until its first answer was there (from opening it), and its calls per second.
    Where the client did not open connections for the run, the first two are not known.
    """
    ok = run.records[run.records["status"] == OK]
    numbers = range(max(1, run.connections, len(run.connect_s)))
    on = {number: ok[ok["connection"] == number] for number in numbers}
    first_s = [
        connect_s + float(mine["done_s"].min() - mine["sent_s"].min())
        for connect_s, mine in zip(run.connect_s, on.values(), strict=False)
        if len(mine)
    ]
    rows = {
        "request (ms)": spread(1e3 * (ok["done_s"] - ok["sent_s"])),
        "connect (ms)": spread(1e3 * np.array(run.connect_s)),
        "first byte (ms)": spread(1e3 * np.array(first_s)),
        "calls/s of a connection": spread(
            [len(mine) / run.window_s for mine in on.values()] if run.window_s else []
        ),
    }
    return rounded(pd.DataFrame.from_dict(rows, orient="index", columns=list(SPREAD)))


def side_by_side(
    ours: Mapping[str, Run], theirs: Mapping[str, HasRate] | None = None, *, name: str = "h2load"
) -> pd.DataFrame:
    """Our throughput and another client's by scenario, and the ratio of the two."""
    rows = []
    for scenario, run in ours.items():
        row: dict[str, Any] = {
            "scenario": scenario,
            "connections (verified)": run.connections,
            "in flight (calls)": run.in_flight,
            "ours (operations/s)": run.throughput_per_s,
        }
        other = (theirs or {}).get(scenario)
        if other is not None:
            row[f"{name} (operations/s)"] = other.throughput_per_s
            row[f"ours ÷ {name}"] = (
                run.throughput_per_s / other.throughput_per_s if other.throughput_per_s else None
            )
        rows.append(row)
    return rounded(by_row(rows, "scenario"))


def layout(runs: Iterable[Run]) -> pd.DataFrame:
    """Throughput in operations/s by connections (rows) and calls in flight on each (columns)."""
    rows = [
        {
            "connections": run.connections,
            "in flight on each": run.in_flight // max(1, run.connections),
            "operations/s": run.throughput_per_s,
        }
        for run in runs
    ]
    table = pd.DataFrame(rows).pivot_table(
        index="connections", columns="in flight on each", values="operations/s", aggfunc="mean"
    )
    return rounded(table)
