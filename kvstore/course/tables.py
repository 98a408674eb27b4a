"""The numbers of each figure as a table: same name, same arguments.

Every number has its unit in the heading, and four significant digits.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from kvstore.course.named import (
    Predictions,
    Runs,
    forecast_by_side,
    number,
    predictions_for,
    runs_by_name,
)
from kvstore.course.predictions import HasValue
from kvstore.measure import Run, audit, throughput_interval
from kvstore.measure.audit import in_flight_steps
from kvstore.measure.codes import NO_ANSWER
from kvstore.model import Station, bounds

MB: Final = 1e6
SLICES: Final = 40
"""Into how many pieces a run is cut where a table follows it over time."""

STATIONS: Final = {
    "disk": "disk_s",
    "lock": "lock_s",
    "pool queue": "pool_s",
    "rest of the server": "rest_s",
}
"""The stations of the server and the columns of a run that hold their times."""


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
    table = _table(rows, "run")
    if isinstance(predictions, Mapping):
        table = table.drop(columns=["predicted (operations/s)", "measured ÷ predicted"])
        for name, each in predictions.items():
            table[f"{name} (operations/s)"] = number(each)
    return _rounded(table)


def ladder(steps: Mapping[str, Run | HasValue | float]) -> pd.DataFrame:
    """The throughput of one step after the other, and how many times the one before it is."""
    rates = pd.Series(
        {
            name: step.throughput_per_s if isinstance(step, Run) else number(step)
            for name, step in steps.items()
        },
        dtype=float,
    )
    return _rounded(
        pd.DataFrame(
            {"throughput (operations/s)": rates, "times the step before": rates / rates.shift()}
        ).rename_axis("step")
    )


def throughput_by_in_flight(
    runs: Sequence[Run], stations: Sequence[Station] = (), *, think_s: float = 0.0
) -> pd.DataFrame:
    """Each run's throughput by its limit in flight, with the bound and the station that binds."""
    rows = []
    for run in sorted(runs, key=lambda run: run.in_flight):
        row: dict[str, Any] = {"in flight": run.in_flight}
        if stations:
            bound = bounds.closed_loop(run.in_flight, stations, think_s=think_s)
            row |= {"bound (operations/s)": bound.value, "what binds": bound.binds}
        row |= {"measured (operations/s)": run.throughput_per_s}
        rows.append(row)
    return _rounded(_table(rows, "in flight"))


def throughput_over_time(run: Run, prediction: HasValue | float | None = None) -> pd.DataFrame:
    """Operations answered OK in each slice of the run, at the middle of the slice."""
    ok = run.calls[run.calls["ok_operations"] > 0]
    counts, edges = np.histogram(
        ok["done_s"], bins=_slices(run), range=(0.0, _window_s(run)), weights=ok["ok_operations"]
    )
    table = pd.DataFrame(
        {
            "elapsed (s)": (edges[:-1] + edges[1:]) / 2,
            "measured (operations/s)": counts / np.diff(edges),
        }
    ).set_index("elapsed (s)")
    if prediction is not None:
        table["predicted (operations/s)"] = number(prediction)
    return _rounded(table)


def in_flight_over_time(run: Run) -> pd.DataFrame:
    """The mean number of calls in flight in each slice of the run."""
    at_s, level = in_flight_steps(run.records["sent_s"], run.records["done_s"])
    edges = np.linspace(0.0, _window_s(run), _slices(run) + 1)
    if len(at_s):
        area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(at_s))])
        mean = np.diff(np.interp(edges, at_s, area, left=0.0)) / np.diff(edges)
    else:
        mean = np.zeros(len(edges) - 1)
    middles = (edges[:-1] + edges[1:]) / 2
    return _rounded(
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
    return _rounded(table)


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
    return _rounded(_table(rows, "process"))


def time_by_station(runs: Runs) -> pd.DataFrame:
    """Where the mean call spent its time, in milliseconds, over the calls the server timed.

    ValueError when the server of a run was not set to tell its station times.
    """
    rows = []
    for name, run in runs_by_name(runs):
        calls = run.calls[run.calls["disk_s"].notna()]
        if not len(calls):
            raise ValueError(
                f"the run {name} has no station times: start its server with station_times=True"
            )
        means_s = {station: float(calls[column].mean()) for station, column in STATIONS.items()}
        whole_s = float(calls["residence_s"].mean())
        outside_s = max(0.0, whole_s - sum(means_s.values()))
        means_s = {**means_s, "client and wire": outside_s, "whole residence": whole_s}
        rows.append({"run": name} | {f"{at} (ms)": 1e3 * s for at, s in means_s.items()})
    return _rounded(_table(rows, "run"))


def little_by_station(run: Run) -> pd.DataFrame:
    """Little's law for each box of a run: how long the mean call stays, and how many are there.

    ValueError as for `time_by_station`.
    """
    where = time_by_station({"W (ms)": run}).T.rename_axis(index="station", columns=None)
    where.index = where.index.str.removesuffix(" (ms)")
    where["L = λ·W (calls)"] = audit(run).sent_per_s * where["W (ms)"] / 1e3
    return _rounded(where)


def cost(runs: Runs) -> pd.DataFrame:
    """What each run got, and what it took: processor time for a call, and threads."""
    rows = [
        {
            "run": name,
            "throughput (operations/s)": run.throughput_per_s,
            "in flight, mean (calls)": audit(run).in_flight_mean,
            "client CPU (µs a call)": 1e6 * run.client_cpu.total_s / max(1, run.issued),
            "server CPU (µs a call)": 1e6 * run.server_cpu.total_s / max(1, run.issued),
            "client threads, most": run.samples["client_threads"].max(),
        }
        for name, run in runs_by_name(runs)
    ]
    return _rounded(_table(rows, "run"))


def mix(runs: Runs) -> pd.DataFrame:
    """The share of each kind of operation among the calls that were answered, in percent."""
    rows = [
        {"run": name} | {f"{kind} (%)": 100 * share for kind, share in run.mix().items()}
        for name, run in runs_by_name(runs)
    ]
    return _rounded(_table(rows, "run").fillna(0.0))


def calls_over_time(
    run: Run,
    *,
    most: int = 120,
    from_s: float = 0.0,
    until_s: float = math.inf,
    lanes: bool = False,
) -> pd.DataFrame:
    """The first `most` calls sent between `from_s` and `until_s`: when sent, when done.

    With `lanes` also the lane of each: the lowest that was free when it was sent.
    """
    calls = run.calls
    chosen = calls[(calls["sent_s"] >= from_s) & (calls["sent_s"] < until_s)].head(most)
    table = pd.DataFrame(
        {
            "operation": chosen["operation"].astype(str).to_numpy(),
            "status": chosen["status"].astype(str).to_numpy(),
            "sent (s)": chosen["sent_s"].to_numpy(),
            "done (s)": chosen["done_s"].to_numpy(),
            "residence (ms)": 1e3 * chosen["residence_s"].to_numpy(),
        },
        index=pd.RangeIndex(1, len(chosen) + 1, name="sent as number"),
    )
    if lanes:
        table.insert(0, "lane", _lanes(chosen["sent_s"], chosen["done_s"]))
    return table


def _lanes(sent_s: Iterable[float], done_s: Iterable[float]) -> list[int]:
    """For each call, sent in this order, the lowest lane from 1 that is free."""
    free_at_s: list[float] = []
    lanes = []
    for sent, done in zip(sent_s, done_s, strict=True):
        lane = next((n for n, at_s in enumerate(free_at_s) if at_s <= sent), len(free_at_s))
        free_at_s[lane : lane + 1] = [done]
        lanes.append(lane + 1)
    return lanes


def reply_order(run: Run, *, most: int = 60) -> pd.DataFrame:
    """The first `most` calls: as which they were sent, and as which they were answered."""
    calls = run.calls.head(most)
    return pd.DataFrame(
        {
            "operation": calls["operation"].astype(str).to_numpy(),
            "answered as number": calls["done_s"].rank(method="first").astype(int).to_numpy(),
            "residence (ms)": 1e3 * calls["residence_s"].to_numpy(),
        },
        index=pd.RangeIndex(1, len(calls) + 1, name="sent as number"),
    )


def _table(rows: Sequence[Mapping[str, Any]], index: str) -> pd.DataFrame:
    return pd.DataFrame(rows).set_index(index)


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Four significant digits: a reader compares, and no run is more certain than that."""
    return table.map(lambda cell: float(f"{cell:.4g}") if isinstance(cell, float) else cell)


def _slices(run: Run) -> int:
    """Fewer slices for few calls, so that a slice is not empty by chance."""
    return max(1, min(SLICES, len(run.records) // 5))


def _window_s(run: Run) -> float:
    return run.window_s or 1.0
