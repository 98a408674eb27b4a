"""The figures of a run that people compare: throughput with its interval, latency, goodput."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvstore.measure.audit import accounts
from kvstore.measure.bottleneck import verdict
from kvstore.measure.outcome import Outcome
from kvstore.measure.run import Run
from kvstore.protocol import DEADLINE_EXCEEDED, OK

if TYPE_CHECKING:  # see run.py
    import pandas as pd

BATCHES = 20
"""Batches of equal length into which a run is divided for its confidence interval."""

# The 97.5 % quantile of Student's t with BATCHES - 1 = 19 degrees of freedom.
_T_95 = 2.093


class Interval(NamedTuple):
    """A 95 % confidence interval of a rate, in operations per second."""

    low_per_s: float
    high_per_s: float


def throughput_interval(run: Run) -> Interval:
    """Return the 95 % confidence interval of the throughput, by the method of batch means.

    The window is divided into `BATCHES` batches of equal length, whose rates are treated as
    independent samples (A. M. Law, "Simulation Modeling and Analysis", chapter 9). The interval
    covers variation within this run. Two runs can differ by more.
    """
    ok = run.records[run.records["status"] == OK]
    if not len(ok) or not run.window_s:
        return Interval(0.0, 0.0)
    counts, _ = np.histogram(
        ok["done_s"], bins=BATCHES, range=(0.0, run.window_s), weights=ok["ok_operations"]
    )
    rates = counts / (run.window_s / BATCHES)
    half = _T_95 * float(np.std(rates, ddof=1)) / np.sqrt(BATCHES)
    return Interval(max(0.0, run.throughput_per_s - half), run.throughput_per_s + half)


def summary(*runs: Run) -> "pd.DataFrame":
    """Return the figures of the runs as text: one column for each run, one row for each figure."""
    import pandas as pd

    return pd.DataFrame(
        [_figures(run) for run in runs], index=[_title(run) for run in runs]
    ).T.fillna("")


def _title(run: Run) -> str:
    return f"{run.strategy} x{run.in_flight}" if run.in_flight else run.strategy


def _figures(run: Run) -> dict[str, str]:
    low, high = throughput_interval(run)
    ended = run.outcomes()
    figures = {
        "operations/s": f"{run.throughput_per_s:,.2f}",
        "95 % interval": f"{low:,.2f} to {high:,.2f}",
        **_generators(run),
        "real": f"{run.window_s:.2f} s",
        "client user + sys": _cpu(run.client_cpu.user_s, run.client_cpu.system_s),
        "server user + sys": _cpu(run.server_cpu.user_s, run.server_cpu.system_s),
        "mean residence": _ms(run.mean_residence_s),
        "p50": _ms(run.latency_s(0.50)),
        "p99": _ms(run.latency_s(0.99)),
        "calls sent": f"{run.issued:,}",
    }
    figures |= {f"ended {status}": f"{n:,}" for status, n in ended.items()}
    operations = accounts(run)
    figures["operations done / failed / unknown"] = (
        f"{operations.ok:,} / {operations.failed:,} / {operations.unknown:,}"
    )
    if len(run.samples):
        figures["client memory, most"] = _mb(run.samples["client_rss_bytes"].max())
        figures["server memory, most"] = _mb(run.samples["server_rss_bytes"].max())
    if run.outcome != Outcome.COMPLETE:
        figures["ended by"] = run.ended_by
    figures["verdict"] = str(verdict(run))
    return figures


def _generators(run: Run) -> dict[str, str]:
    """Return the number of generator processes if there were several."""
    count = int(run.settings.get("processes", 1))
    return {"generator processes": f"{count}"} if count > 1 else {}


def _cpu(user_s: float, system_s: float) -> str:
    return "not known" if np.isnan(user_s) else f"{user_s:.2f} s + {system_s:.2f} s"


def _ms(seconds: float) -> str:
    return "none" if np.isnan(seconds) else f"{1e3 * seconds:,.2f} ms"


def _mb(size_bytes: float) -> str:
    return "not known" if np.isnan(size_bytes) else f"{size_bytes / 1e6:,.0f} MB"


# ---- goodput --------------------------------------------------------------------------------


class Goodput(NamedTuple):
    """The calls of an open loop by their outcome.

    Rates are calls per second of the time in which calls were due. Every call sent is in time,
    late or refused.
    """

    offered_per_s: float
    """Arrival rate: calls that were due."""
    in_time_per_s: float
    """Goodput: calls answered OK within the deadline, measured from their due time."""
    late: int
    """Calls that ended with DEADLINE_EXCEEDED or were answered OK after the deadline."""
    refused: int
    """Calls that ended with any other status, most often RESOURCE_EXHAUSTED."""
    wasted: float
    """Operations that the server completed too late to count as goodput; NaN if it has not
    reported its operations."""


def goodput(run: Run, deadline_s: float | None = None) -> Goodput:
    """Return the goodput of an open loop.

    `deadline_s` is in seconds; without it the deadline of the run applies. Raises `ValueError`
    for a closed loop: its calls have no due times, because each caller waits for a reply before
    the next call.
    """
    records = run.records
    if np.isnan(records["due_s"]).any():
        raise ValueError(
            "goodput needs an open loop, got a closed loop without due times: pass due_times to"
            " load.run"
        )
    limit_s = float(run.settings["deadline_s"]) if deadline_s is None else deadline_s
    offered_s = run.settings.get("duration_s") or run.window_s or math.nan
    ok = records["status"] == OK
    in_time = ok & (records["done_s"] - records["due_s"] <= limit_s)
    out_of_time = records["status"] == DEADLINE_EXCEEDED
    late = int(np.count_nonzero(ok & ~in_time) + np.count_nonzero(out_of_time))
    counted = run.server.get("operations")
    done = math.nan if counted is None else _done(counted)
    return Goodput(
        offered_per_s=run.issued / offered_s,
        in_time_per_s=int(np.count_nonzero(in_time)) / offered_s,
        late=late,
        refused=run.issued - int(np.count_nonzero(in_time)) - late,
        wasted=done - int(np.count_nonzero(in_time)),
    )


def _done(counted: Mapping[str, int]) -> float:
    return sum(count for name, count in counted.items() if name.endswith("/OK"))
