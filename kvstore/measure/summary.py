"""The figures of a run, as text."""

import numpy as np

from kvstore import numbers
from kvstore.measure.audit import accounts
from kvstore.measure.figures import throughput_interval
from kvstore.measure.run import Outcome, Run
from kvstore.measure.validity import verdict


def summary(run: Run) -> str:
    """Return the figures of a run as text: one line for each."""
    low, high = throughput_interval(run)
    operations = accounts(run)
    generators = int(run.settings.get("processes", 1))
    seed = run.settings.get("seed")
    figures = {
        "strategy": f"{run.strategy} x{run.in_flight}" if run.in_flight else run.strategy,
        **({"seed of arrivals": str(seed)} if seed is not None else {}),
        "operations/s": numbers.number(run.throughput_per_s),
        "95 % interval": f"{numbers.number(low)} to {numbers.number(high)}",
        **({"generator processes": f"{generators}"} if generators > 1 else {}),
        "real": numbers.seconds(run.window_s),
        "client user + sys": _cpu(run.client_cpu.user_s, run.client_cpu.system_s),
        "server user + sys": _cpu(run.server_cpu.user_s, run.server_cpu.system_s),
        "mean residence": _or_none(run.mean_residence_s),
        "p50": _or_none(run.latency_s(0.50)),
        "p99": _or_none(run.latency_s(0.99)),
        "calls sent": f"{run.issued:,}",
        **{f"ended {status}": f"{count:,}" for status, count in run.outcomes().items()},
        "operations done / failed / unknown": (
            f"{operations.ok:,} / {operations.failed:,} / {operations.unknown:,}"
        ),
    }
    if len(run.sample_rows):
        for side in ("client", "server"):
            most_bytes = run.sample_rows[f"{side}_rss_bytes"].max()
            figures[f"{side} memory, most"] = numbers.size(most_bytes)
    if run.outcome != Outcome.COMPLETE:
        figures["ended by"] = run.ended_by
    figures["verdict"] = str(verdict(run))
    width = max(map(len, figures))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in figures.items())


def _cpu(user_s: float, system_s: float) -> str:
    if np.isnan(user_s):
        return numbers.NOT_KNOWN
    return f"{numbers.seconds(user_s)} + {numbers.seconds(system_s)}"


def _or_none(latency_s: float) -> str:
    return "none" if np.isnan(latency_s) else numbers.seconds(latency_s)
