"""What runs say of the machine they were made on, as tables with units."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import psutil

from kvstore.awake import kept_awake
from kvstore.course import rendering
from kvstore.measure import Run, cores, describe_host
from kvstore.measure.price import price_s, serial_s
from kvstore.model import Station

LOOPS = ("client's loop (µs/call)", "server's loop (µs/call)")
QUANTILES = {"fastest": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "slowest": 1.0}


def host() -> pd.DataFrame:
    """The machine and the versions in use, one row each."""
    told = describe_host()
    names = {
        "memory_bytes": "memory",
        "cores": "cores for this process",
        "cores_kept_awake": "cores kept awake",
    }
    shown = {names.get(name, name): _words(name, value) for name, value in told.items()}
    return pd.DataFrame({"this machine": shown})


def wanted_per_core() -> float:
    """How many programs wanted each core at once, on average over the last minute.

    Above 1, calls wait for processors, too: those of other programs' work as well as ours. What
    keeps cores awake does not count: it gives way to all others.
    """
    return max(0.0, float(psutil.getloadavg()[0]) - kept_awake()) / cores()


def cpu_per_call(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Processor microseconds per call of client and server, beside the time between two answers."""
    rows = {}
    for name, run in runs.items():
        price = price_s(run)
        rows[name] = {
            "client CPU (µs/call)": 1e6 * price.client_s,
            "server CPU (µs/call)": 1e6 * price.server_s,
            "together (µs/call)": 1e6 * price.together_s,
            **_loops(run),
            "one answer every (µs)": 1e6 / run.answered_per_s if run.answered_per_s else np.nan,
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("run").round(0).astype("Int64")
    for loop in LOOPS:
        known = table[loop].notna()
        table[loop] = table[loop].astype(object).where(known, rendering.NONE)
        if not known.any():
            table = table.drop(columns=loop)
    return table


def _loops(run: Run) -> dict[str, float]:
    """What the event loops take of the price; NaN for a side without one."""
    sides = run.client_cpu.loop_s, run.server_cpu.loop_s
    over = run.issued or np.nan
    return {loop: 1e6 * each_s / over for loop, each_s in zip(LOOPS, sides, strict=True)}


def cpu_stations(run: Run) -> list[Station]:
    """The processors as stations, each with the demand that this run showed.

    A Python process runs one thread of Python at a time, so each process counts as one core,
    for what it does in that thread. Where both sides together need more than the cores there
    are, they share those.
    """
    together_s, one = price_s(run).together_s, serial_s(run)
    if together_s / cores() > one.dearer_s:
        return [Station("all cores" if cores() > 1 else "the one core", together_s / cores())]
    return [
        Station("CPU of the client", one.client_s),
        Station("CPU of the server", one.server_s),
    ]


def round_trips(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Quantiles of the residence time of each run's calls, in microseconds."""
    rows = {
        name: {
            f"{label} (µs)": round(1e6 * float(np.quantile(run.calls["residence_s"], quantile)))
            for label, quantile in QUANTILES.items()
        }
        for name, run in runs.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def timer(runs: Mapping[str, Run]) -> pd.DataFrame:
    """The disk time that was asked for, and the one that each kind of call got, in milliseconds.

    ValueError when the server of a run was not set to tell its station times.
    """
    rows = []
    for name, run in runs.items():
        told = run.server["settings"]
        calls = run.calls.dropna(subset=["disk_s"])
        if not len(calls):
            raise ValueError(
                f"the run {name} has no station times: start its server with station_times=True"
            )
        for operation, group in calls.groupby("operation", observed=True):
            delay = "read_delay_s" if operation == "retrieve" else "write_delay_s"
            asked_ms, got_ms = 1e3 * told[delay], 1e3 * group["disk_s"]
            rows.append(
                {
                    "server": name,
                    "asked (ms)": asked_ms,
                    "got, least (ms)": got_ms.min(),
                    "got, median (ms)": got_ms.median(),
                    "got, most (ms)": got_ms.max(),
                    "off by, median (ms)": got_ms.median() - asked_ms,
                }
            )
    return pd.DataFrame(rows).set_index(["server", "asked (ms)"]).sort_index().round(3)


def _words(name: str, value: object) -> str:
    return f"{float(str(value)) / 1e9:.1f} GB" if name == "memory_bytes" else str(value)
