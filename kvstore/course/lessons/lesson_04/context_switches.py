"""What more threads do to a server that only computes: who hands the interpreter to whom.

X = U / D, cores busy over the CPU time of a call. So when the number of threads changes
the throughput by some factor, that factor is the one of U over the one of d, and nothing is left
over. Beside it stand the context switches: each time a thread of the server stops because it
waits (for the interpreter's lock, for a call, for a socket) or is stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import psutil

from kvstore.client import load, strategies
from kvstore.client.workload import Workload
from kvstore.measure import Run
from kvstore.measure.cpu_cost import price_s
from kvstore.server import Server


@dataclass(frozen=True)
class Watched:
    """A run, and the context switches of the server process during it."""

    run: Run
    switches: int

    @property
    def price_s(self) -> float:
        """Return d: CPU seconds of the server per call."""
        return price_s(self.run).server_s

    @property
    def busy(self) -> float:
        """Return U: the cores that the server kept busy."""
        return self.run.server_cpu.total_s / self.run.window_s


def watched(server: Server, workload: Workload, *, in_flight: int, duration_s: float) -> Watched:
    """Make a bounded run against this server, and count the switches of all its threads."""
    before = context_switches(server.pid)
    run = load.run(strategies.bounded, server, workload, in_flight=in_flight, duration_s=duration_s)
    return Watched(run, context_switches(server.pid) - before)


def context_switches(pid: int) -> int:
    """Return the switches of all current threads of the process, since each began.

    On Linux, psutil.Process.num_ctx_switches counts the first thread only; there, each thread has
    its own file (proc(5)).
    """
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.is_dir():
        return sum(psutil.Process(pid).num_ctx_switches())
    return sum(_switches_of(task) for task in tasks.iterdir())


def account(seen: Mapping[str, Watched]) -> pd.DataFrame:
    """Return X = U / D, the client's CPU time, and the switches per call for each server."""
    rows = {
        name: {
            "X (calls/s)": one.run.issued / one.run.window_s,
            "U: server (cores busy)": one.busy,
            "D: server (µs/call)": 1e6 * one.price_s,
            "client (cores busy)": one.run.client_cpu.total_s / one.run.window_s,
            "client (µs/call)": 1e6 * price_s(one.run).client_s,
            "server switches (per call)": one.switches / one.run.issued,
        }
        for name, one in seen.items()
    }
    return pd.DataFrame(rows).T.rename_axis("server")


def _switches_of(task: Path) -> int:
    try:
        lines = (task / "status").read_text().splitlines()
    except OSError:
        return 0  # the thread has ended meanwhile
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
