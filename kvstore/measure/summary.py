"""The figures of a run that people compare, with their uncertainty."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvstore.codes import OK
from kvstore.measure.accounts import accounts
from kvstore.measure.run import Run
from kvstore.measure.verdict import verdict

if TYPE_CHECKING:  # see run.py
    import pandas as pd

BATCHES = 20
"""Pieces of a run whose rates are compared for the interval."""

# Two-sided 95 % points of Student's t with BATCHES - 1 = 19 degrees of freedom.
_T_95 = 2.093


class Interval(NamedTuple):
    """A 95 % confidence interval of a rate, in operations per second."""

    low_per_s: float
    high_per_s: float


def throughput_interval(run: Run) -> Interval:
    """A 95 % interval of the throughput, by the method of batch means.

    The window is cut into `BATCHES` pieces of equal length; their rates are taken as
    independent samples (A. M. Law, "Simulation Modeling and Analysis", ch. 9). It covers
    what varies *within* a run; a second sitting can differ by more.
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
    """One column for each run, one row for each figure, as text for people."""
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
    told = accounts(run)
    figures["operations done / failed / unknown"] = (
        f"{told.ok:,} / {told.failed:,} / {told.unknown:,}"
    )
    if len(run.samples):
        figures["client memory, most"] = _mb(run.samples["client_rss_bytes"].max())
        figures["server memory, most"] = _mb(run.samples["server_rss_bytes"].max())
    if run.outcome != "complete":
        figures["ended by"] = run.outcome
    figures["verdict"] = str(verdict(run))
    return figures


def _generators(run: Run) -> dict[str, str]:
    """How many made the run, where there were several."""
    count = int(run.settings.get("processes", 1))
    return {"generator processes": f"{count}"} if count > 1 else {}


def _cpu(user_s: float, system_s: float) -> str:
    return "not known" if np.isnan(user_s) else f"{user_s:.2f} s + {system_s:.2f} s"


def _ms(seconds: float) -> str:
    return "none" if np.isnan(seconds) else f"{1e3 * seconds:,.2f} ms"


def _mb(size_bytes: float) -> str:
    return "not known" if np.isnan(size_bytes) else f"{size_bytes / 1e6:,.0f} MB"
