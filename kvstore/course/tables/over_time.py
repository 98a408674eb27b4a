"""A run from its start to its end: throughput, in flight, latencies, memory."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from kvstore.codes import NO_ANSWER
from kvstore.course.named import forecast_by_side, number
from kvstore.course.predictions import HasValue
from kvstore.course.tables.layout import MB, by_row, rounded, slices, window_s
from kvstore.measure import Run
from kvstore.measure.audit import in_flight_between


def throughput_over_time(run: Run, prediction: HasValue | float | None = None) -> pd.DataFrame:
    """Operations answered OK in each slice of the run, at the middle of the slice."""
    ok = run.calls[run.calls["ok_operations"] > 0]
    counts, edges = np.histogram(
        ok["done_s"], bins=slices(run), range=(0.0, window_s(run)), weights=ok["ok_operations"]
    )
    table = pd.DataFrame(
        {
            "elapsed (s)": (edges[:-1] + edges[1:]) / 2,
            "measured (operations/s)": counts / np.diff(edges),
        }
    ).set_index("elapsed (s)")
    if prediction is not None:
        table["predicted (operations/s)"] = number(prediction)
    return rounded(table)


def in_flight_over_time(run: Run) -> pd.DataFrame:
    """The mean number of calls in flight in each slice of the run."""
    edges = np.linspace(0.0, window_s(run), slices(run) + 1)
    mean = in_flight_between(run.records["sent_s"], run.records["done_s"], edges)
    middles = (edges[:-1] + edges[1:]) / 2
    return rounded(
        pd.DataFrame({"elapsed (s)": middles, "in flight (calls)": mean}).set_index("elapsed (s)")
    )


def latency_by_answer(run: Run, prediction: HasValue | float | None = None) -> pd.DataFrame:
    """The latency of each call that was answered, in the order of the answers.

    `prediction` is a throughput X in calls per second: when all calls were sent at once, the
    k-th answer is predicted to come after k / X.
    """
    answered = run.records[run.records["status"] != NO_ANSWER]
    number_of = np.arange(1, len(answered) + 1)
    table = pd.DataFrame(
        {"measured (s)": answered["done_s"] - answered["sent_s"]},
        index=pd.Index(number_of, name="answered as number"),
    )
    if prediction is not None:
        table["predicted (s)"] = number_of / (number(prediction) or math.nan)
    return rounded(table)


def memory(
    run: Run,
    forecast: Mapping[str, HasValue | float] | HasValue | float | None = None,
    *,
    ceiling_bytes: float | None = None,
) -> pd.DataFrame:
    """Memory of client and server at the start and the end, and when the ceiling was met.

    `forecast` is the seconds after which the client, or in a dict each process by its name,
    is predicted to reach the ceiling.
    """
    samples = run.samples
    rows = []
    for side in ("client", "server"):
        held = samples[f"{side}_rss_bytes"]
        row: dict[str, Any] = {
            "process": side,
            "at the start (MB)": held.iloc[0] / MB if len(held) else math.nan,
            "at the end (MB)": held.iloc[-1] / MB if len(held) else math.nan,
            "most (MB)": held.max() / MB,
        }
        if ceiling_bytes is not None:
            above = samples.loc[held >= ceiling_bytes, "elapsed_s"]
            row["ceiling (MB)"] = ceiling_bytes / MB
            row["ceiling met (s)"] = above.iloc[0] if len(above) else math.nan
        if forecast is not None:
            row["forecast (s)"] = number(forecast_by_side(forecast).get(side))
        rows.append(row)
    return rounded(by_row(rows, "process"))
