"""A verdict on the measurement itself: whether the generator limited the run.

A client that has no time left measures itself. Two signs tell: its processor (a CPython process
runs one thread of Python at a time, so one core is about all it has), and in an open loop its
lateness, from when a call was due until it was sent. Without a sign it is not cleared: beside
other programs it may have wanted more than it got. B. Schroeder, A. Wierman, M.
Harchol-Balter, "Open Versus Closed: A Cautionary Tale" (NSDI 2006) on why the loop matters.
"""

import math
from dataclasses import dataclass

import numpy as np
import psutil

from kvstore.measure.host import cores
from kvstore.measure.run import Run

BUSY = 0.85
"""From this share of its core on, a generator may be what limits the run."""
FULL = 0.95
"""From this share of all cores on, client and server take each other's time."""
LATE = 0.25
"""A generator is late when calls are sent so late, as a share of their residence time."""
LATE_S = 0.005
"""Less than this is the grain of timers and of the scheduler."""
CROWDED = 0.5
"""With fewer idle cores than this, other programs took time that the run may have wanted."""
STOLEN = 0.05
"""More of a core than this, taken by the host, is more than a quiet one takes."""
SHORT_S = 0.2
"""The system counts processor time in steps of 10 ms: in less than this it tells too little."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the generator limited a run, and from what that is told."""

    client_cores: float
    """Cores that each process of the generator kept busy with what it cannot share out (see
    `Cpu.serial_s`); NaN where that is not known."""
    server_cores: float
    """Cores the server kept busy; NaN where it cannot be seen from here."""
    machine_share: float
    """Share of this machine's cores that both took together; NaN where that is not known."""
    others_cores: float
    """Cores that all other programs kept busy meanwhile; NaN where that is not known."""
    stolen_cores: float
    """Cores that the host of a virtual machine took away meanwhile; 0 where nobody tells."""
    late_s: float
    """Seconds from when a call was due until it was sent that 99 % of the calls did not
    exceed; NaN in a closed loop, where no call is due."""
    generator_binds: bool
    """Whether the generator may have been the bottleneck."""
    reason: str
    """Why, in words."""

    def __str__(self) -> str:
        return self.reason


def verdict(run: Run) -> Verdict:
    """Judge the generator of one run by its processor time and its lateness."""
    window_s = run.window_s or math.nan
    client = run.client_cpu.total_s / window_s
    server = run.server_cpu.total_s / window_s
    each = run.client_cpu.serial_s / window_s / int(run.settings.get("processes", 1))
    machine = (client + server) / int(run.host.get("cores", cores()))
    stolen = run.stolen_cores
    others = float(np.maximum(0.0, run.machine_cpu_s / window_s - stolen - client - server))
    late_s = _late_s(run)
    binds, reason = _by_lateness(run, late_s)
    if not binds and run.window_s >= SHORT_S and not math.isnan(client):
        binds, reason = _by_processor(each, server, machine)
        reason += _crowd(others, client, server)
    if stolen > STOLEN:
        reason += f"; but the host of this virtual machine took {stolen:.2f} of a core away"
    return Verdict(each, server, machine, others, stolen, late_s, binds, reason)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:.3g}"


def _late_s(run: Run) -> float:
    late_s = run.records["sent_s"] - run.records["due_s"]
    late_s = late_s[~np.isnan(late_s)]
    return float(np.quantile(late_s, 0.99)) if len(late_s) else math.nan


def _by_lateness(run: Run, late_s: float) -> tuple[bool, str]:
    if late_s > max(LATE_S, LATE * run.mean_residence_s):
        return True, (
            "the generator was late: 1 % of the calls were sent more than"
            f" {_ms(late_s)} ms after they were due, so less was asked for than it says"
        )
    return False, "too short, or too far away, to tell whether the generator was the limit"


def _by_processor(client: float, server: float, machine: float) -> tuple[bool, str]:
    told = f"the generator kept {client:.2f} of a core busy"
    if client >= BUSY:
        also = f", the server {server:.2f}" if server >= BUSY else ""
        return True, f"{told}{also}: it may be the generator that was measured"
    if machine >= FULL:
        return True, (
            f"{told}, but with the server it took {machine:.0%} of this machine: each took the"
            " other's time"
        )
    return False, f"{told}: no sign that it was the limit"


def _crowd(others: float, client: float, server: float) -> str:
    """A warning where other programs left too little of the machine."""
    there = psutil.cpu_count() or 1
    if others >= CROWDED and others + client + server > there - CROWDED:
        return f"; but other programs kept {others:.1f} of {there} cores busy"
    return ""
