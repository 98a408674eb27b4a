"""What runs are made of: stations, processor time, kinds of operation."""

import pandas as pd

from kvstore.course.named import Runs, runs_by_name
from kvstore.course.tables.layout import by_row, rounded
from kvstore.measure import Run, audit
from kvstore.measure.boxes import BOXES, stands_for
from kvstore.measure.price import price_s


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
        means_s = {
            stands_for(run, station): float(calls[column].mean())
            for station, column in BOXES.items()
        }
        whole_s = float(calls["residence_s"].mean())
        outside_s = max(0.0, whole_s - sum(means_s.values()))
        means_s = {**means_s, "client and wire": outside_s, "whole residence": whole_s}
        rows.append({"run": name} | {f"{at} (ms)": 1e3 * s for at, s in means_s.items()})
    return rounded(by_row(rows, "run").fillna(0.0))


def little_by_station(run: Run) -> pd.DataFrame:
    """Little's law for each box of a run: how long the mean call stays, and how many are there.

    ValueError as for `time_by_station`.
    """
    where = time_by_station({"W (ms)": run}).T.rename_axis(index="station", columns=None)
    where.index = where.index.str.removesuffix(" (ms)")
    where["L = λ·W (calls)"] = audit(run).sent_per_s * where["W (ms)"] / 1e3
    return rounded(where)


def cost(runs: Runs) -> pd.DataFrame:
    """What each run got, and what it took: processor time for a call, and threads."""
    rows = [
        {
            "run": name,
            "throughput (operations/s)": run.throughput_per_s,
            "in flight, mean (calls)": audit(run).in_flight_mean,
            "client CPU (µs a call)": 1e6 * price_s(run).client_s,
            "server CPU (µs a call)": 1e6 * price_s(run).server_s,
            "client threads, most": run.samples["client_threads"].max(),
        }
        for name, run in runs_by_name(runs)
    ]
    return rounded(by_row(rows, "run"))


def mix(runs: Runs) -> pd.DataFrame:
    """The share of each kind of operation among the calls that were answered, in percent."""
    rows = [
        {"run": name} | {f"{kind} (%)": 100 * share for kind, share in run.mix().items()}
        for name, run in runs_by_name(runs)
    ]
    return rounded(by_row(rows, "run").fillna(0.0))
