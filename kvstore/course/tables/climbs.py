"""Runs whose users joined one after the other: predicted and measured over the climb."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from kvstore.codes import OK
from kvstore.course.named import Runs, runs_by_name
from kvstore.course.tables.layout import rounded
from kvstore.measure import Run
from kvstore.model import Station, climb, simulate

PARTS: Final = 16
"""Into how many parts a climb is cut, the hold at its end included."""
LOOKS: Final = 9
"""A prediction is looked up at so many moments of a part, for its mean."""
KIB: Final = 1024

Floats: TypeAlias = npt.NDArray[np.float64]
Stations: TypeAlias = Mapping[str, Sequence[Station]]
"""For each run by its name, the stations that the prediction is made of."""
Simulated: TypeAlias = Mapping[str, Sequence[simulate.Call]]
"""For each run by its name, the calls that the simulation played."""


def throughput_in_climb(
    runs: Runs, stations: Stations | None = None, simulated: Simulated | None = None
) -> pd.DataFrame:
    """Calls answered per second in each part of the climb, beside min(N / D, 1 / D_max).

    `simulated` gives for each run by its name the calls of `simulate.joined`.
    """

    def counted(sent_s: Floats, done_s: Floats, edges: Floats) -> Floats:
        return np.histogram(done_s, bins=edges)[0] / np.diff(edges)

    return _followed(runs, stations, simulated, "calls/s", counted, climb.throughput_per_s)


def residence_in_climb(
    runs: Runs, stations: Stations | None = None, simulated: Simulated | None = None
) -> pd.DataFrame:
    """Mean milliseconds of the calls answered in each part of the climb, beside N / X.

    A part in which nothing was answered, and nothing was to be, has no row.
    `simulated` gives for each run by its name the calls of `simulate.joined`.
    """

    def mean_ms(sent_s: Floats, done_s: Floats, edges: Floats) -> Floats:
        counts, _ = np.histogram(done_s, bins=edges)
        sums, _ = np.histogram(done_s, bins=edges, weights=1e3 * (done_s - sent_s))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def predicted(joins_s: Sequence[float], parts: Sequence[Station], at_s: float) -> float:
        return 1e3 * climb.residence_s(joins_s, parts, at_s) or np.nan  # no answer yet: no time

    table = _followed(runs, stations, simulated, "ms", mean_ms, predicted)
    return table.dropna(how="all", subset=list(table.columns[1:]))


def threads_in_climb(runs: Runs, limits: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Threads of the server's process in each part of the climb, beside own + min(N, limit).

    `limits` gives the most threads of each run's pool by its name; 0 for a server without one.
    What the process had at the first look is taken for its own.
    """
    named = runs_by_name(runs)
    ends_s = part_edges(named[0][1])[1:]
    columns: dict[str, object] = {"elapsed (s)": ends_s, "users": _users(named[0][1], ends_s)}
    for name, run in named:
        if limits and name in limits:
            joins_s, own = joins_of(run), own_threads(run)
            columns[f"{name}: predicted (threads)"] = [
                climb.threads(joins_s, limits[name], at_s, own) for at_s in ends_s
            ]
        seen = run.samples.set_index("elapsed_s")["server_threads"]
        columns[f"{name}: measured (threads)"] = [seen[:at_s].max() for at_s in ends_s]
    return _by_time(columns)


def summary_report(runs: Runs) -> pd.DataFrame:
    """Each run in the columns of JMeter's summary report; times are those of all samples.

    Bytes are those of keys and values: what HTTP/2 adds is not seen from here.
    """
    rows = {}
    for name, run in runs_by_name(runs):
        calls = run.records
        took_ms = 1e3 * (calls["done_s"] - calls["sent_s"])
        samples, window_s = max(1, len(calls)), run.window_s or 1.0
        received, sent = float(calls["reply_bytes"].sum()), float(calls["request_bytes"].sum())
        rows[name] = {
            "# samples": len(calls),
            "average (ms)": took_ms.mean() if len(calls) else np.nan,
            "min (ms)": took_ms.min(initial=np.inf),
            "max (ms)": took_ms.max(initial=0.0),
            "std. dev. (ms)": took_ms.std() if len(calls) else np.nan,
            "error (%)": 100 * float(np.count_nonzero(calls["status"] != OK)) / samples,
            "throughput (calls/s)": len(calls) / window_s,
            "received (KB/s)": received / KIB / window_s,
            "sent (KB/s)": sent / KIB / window_s,
            "avg. bytes": received / samples,
        }
    return rounded(pd.DataFrame.from_dict(rows, orient="index").rename_axis("label"))


def part_edges(run: Run) -> Floats:
    """Where the parts of a climb begin and end; the calls of the drain at the end are left out."""
    ends_s = float(run.settings.get("duration_s") or run.window_s or 1.0)
    return np.linspace(0.0, ends_s, PARTS + 1)


def own_threads(run: Run) -> float:
    """Threads that the server's process had when the run began."""
    return float(run.samples["server_threads"].iloc[0]) if len(run.samples) else 0.0


def joins_of(run: Run) -> Sequence[float]:
    """When each user began; all at once where nobody joined later."""
    joins: Sequence[float] = run.settings.get("joins") or [0.0] * run.in_flight
    return joins


def _mean(values: Sequence[float]) -> float:
    """Of those that are numbers; NaN where none is."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def _by_time(columns: Mapping[str, object]) -> pd.DataFrame:
    """The table of these columns; its moments to a thousandth of a second, as they are read."""
    return rounded(pd.DataFrame(columns).round({"elapsed (s)": 3}).set_index("elapsed (s)"))


def _users(run: Run, at: Floats) -> list[int]:
    return [climb.users(joins_of(run), at_s) for at_s in at]


def _followed(
    runs: Runs,
    stations: Stations | None,
    simulated: Simulated | None,
    unit: str,
    figure: Callable[[Floats, Floats, Floats], Floats],
    predicted: Callable[[Sequence[float], Sequence[Station], float], float],
) -> pd.DataFrame:
    """One row for each part of the first run, at its middle; predictions are means over it."""
    named = runs_by_name(runs)
    edges = part_edges(named[0][1])
    middles = (edges[:-1] + edges[1:]) / 2
    columns: dict[str, object] = {"elapsed (s)": middles, "users": _users(named[0][1], middles)}
    for name, run in named:
        if stations and name in stations:
            joins_s, parts = joins_of(run), stations[name]
            columns[f"{name}: predicted ({unit})"] = [
                _mean([predicted(joins_s, parts, at_s) for at_s in np.linspace(*part, LOOKS)])
                for part in itertools.pairwise(edges)
            ]
        if simulated and name in simulated:
            played = np.array([(call.sent_s, call.done_s) for call in simulated[name]])
            columns[f"{name}: simulated ({unit})"] = figure(played[:, 0], played[:, 1], edges)
        calls = run.records
        columns[f"{name}: measured ({unit})"] = figure(calls["sent_s"], calls["done_s"], edges)
    return _by_time(columns)
