"""What more threads do to a server that only computes: who hands the interpreter to whom.

X = U / d, cores busy over the processor time of a call. So when the number of threads changes
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
from kvstore.measure.price import price_s
from kvstore.server import Server


@dataclass(frozen=True)
class Watched:
    """A run, and how often a thread of the server's process was switched off meanwhile."""

    run: Run
    switches: int

    @property
    def price_s(self) -> float:
        """d: processor seconds of the server for a call."""
        return price_s(self.run).server_s

    @property
    def busy(self) -> float:
        """U: cores that the server kept busy."""
        return self.run.server_cpu.total_s / self.run.window_s


def watched(server: Server, workload: Workload, *, in_flight: int, duration_s: float) -> Watched:
    """A bounded run against this server, with the switches of all its threads counted."""
    before = context_switches(server.pid)
    run = load.run(strategies.bounded, server, workload, in_flight=in_flight, duration_s=duration_s)
    return Watched(run, context_switches(server.pid) - before)


def context_switches(pid: int) -> int:
    """Switches of all threads that the process has now, since they began.

    psutil.Process.num_ctx_switches tells those of the whole process, but on Linux of its first
    thread alone; there, each thread has a file of its own (proc(5)).
    """
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.is_dir():
        return sum(psutil.Process(pid).num_ctx_switches())
    return sum(_switches_of(task) for task in tasks.iterdir())


def account(seen: Mapping[str, Watched]) -> pd.DataFrame:
    """One row for each server: X = U / d, the other side's part, and the switches of a call."""
    rows = {
        name: {
            "X (calls/s)": one.run.issued / one.run.window_s,
            "U: server (cores busy)": one.busy,
            "d: server (µs a call)": 1e6 * one.price_s,
            "client (cores busy)": one.run.client_cpu.total_s / one.run.window_s,
            "client (µs a call)": 1e6 * price_s(one.run).client_s,
            "server switches (a call)": one.switches / one.run.issued,
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
