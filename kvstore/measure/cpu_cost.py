"""CPU time per call of client and server, and whether the load generator was the bottleneck.

Definitions: CPU time per call is D = CPU time of the process / calls sent (the utilisation law,
U = X * D). Its serial part is the time in which one call of a process excludes every other call
of the process: the thread of the event loop, or without one the whole process, because CPython
runs one thread at a time. gRPC's own threads run beside the interpreter, so the whole CPU time is
too much for a bound that comes from the interpreter lock.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import psutil

from kvstore.measure.host import cores
from kvstore.measure.run import Run


class CpuPerCall(NamedTuple):
    """CPU seconds per call of client and server; NaN for a process that cannot be observed."""

    client_s: float
    server_s: float

    @property
    def together_s(self) -> float:
        """CPU seconds per call of client and server together."""
        return self.client_s + self.server_s

    @property
    def larger_s(self) -> float:
        """CPU seconds per call of the process that uses more, of those that can be observed."""
        return max((each_s for each_s in self if not np.isnan(each_s)), default=float("nan"))


def price_s(run: Run) -> CpuPerCall:
    """Return the CPU seconds per call sent; NaN for a run without calls."""
    return _per(run, run.issued)


def serial_s(run: Run) -> CpuPerCall:
    """Return the serial part of the CPU seconds per call, see `Cpu.serial_s`."""
    over = run.issued or float("nan")
    return CpuPerCall(run.client_cpu.serial_s / over, run.server_cpu.serial_s / over)


def pace_s(run: Run) -> float:
    """Return D_max, the shortest possible time between two calls, in seconds.

    It is the larger of two demands: the serial part of the busier process, and the CPU time of
    both processes divided by the number of cores. Throughput is at most 1 / D_max. NaN if
    neither process could be observed.
    """
    return float(np.fmax(serial_s(run).larger_s, price_s(run).together_s / _cores(run)))


def paced_s(run: Run) -> CpuPerCall:
    """Return the serial parts of client and server, scaled so that the larger equals `pace_s`.

    If there are too few cores, no process has a whole core for its thread, and its serial part
    takes longer than its CPU time.
    """
    serial = serial_s(run)
    stretch = pace_s(run) / serial.larger_s
    return CpuPerCall(serial.client_s * stretch, serial.server_s * stretch)


def busy(run: Run) -> float:
    """Return the utilisation of the bottleneck: U = X * D_max, with D_max from `pace_s`.

    In the remaining time the bottleneck waited, or another program had its core. NaN if neither
    process could be observed.
    """
    return pace_s(run) * run.issued / (run.window_s or float("nan"))


def cores_busy(run: Run) -> float:
    """Return the mean number of cores that client and server used together."""
    return _per(run, run.window_s).together_s


def _cores(run: Run) -> int:
    return int(run.host.get("cores", cores()))


def _per(run: Run, over: float) -> CpuPerCall:
    over = over or float("nan")
    return CpuPerCall(run.client_cpu.total_s / over, run.server_cpu.total_s / over)


# ---- bottleneck ---------------------------------------------------------------------------------
# Judge whether the load generator, and not the server, limited a run.
#
# A saturated load generator measures itself. Two signs show it. The first is its CPU time:
# CPython runs one thread at a time, so a process has about one core. The second is its lateness
# in an open loop: the time from when a call was due until it was sent. Without a sign the
# generator may still be the bottleneck, because other programs can take CPU time that it needed.
# On why open and closed loops differ: B. Schroeder, A. Wierman, M. Harchol-Balter, "Open Versus
# Closed: A Cautionary Tale" (NSDI 2006).


BUSY = 0.85
"""A generator that uses this share of a core or more may limit the run."""
FULL = 0.95
"""If client and server use this share of all cores, they compete for CPU time."""
LATE = 0.25
"""A generator is late if it sends calls later than this share of their residence time."""
LATE_S = 0.005
"""Seconds. Timers and the scheduler cause smaller delays on any machine."""
CROWDED = 0.5
"""With fewer idle cores than this, other programs may have taken CPU time from the run."""
STOLEN = 0.05
"""Cores. A host that takes more than this from its virtual machine is busy."""
SHORT_S = 0.2
"""Seconds. The system counts CPU time in steps of 10 ms, too coarse for shorter runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """Whether the load generator limited a run, and the figures behind the verdict."""

    client_cores: float
    """Cores that the serial part of each generator process used (`Cpu.serial_s`); NaN if it is
    not known."""
    stolen_cores: float
    """Cores that the host took from its virtual machine (`steal`); 0 if the system does not
    report it."""
    late_s: float
    """99th percentile of the seconds from the due time of a call until it was sent; NaN in a
    closed loop, whose calls have no due times."""
    generator_binds: bool
    """Whether the generator may have been the bottleneck."""
    reason: str
    """The reason, in words."""
    crowd: str = ""
    """A warning if other programs may have taken CPU time from the run; else empty."""
    other_cores: float = math.nan
    """Cores that other programs on the client's machine used."""

    def __str__(self) -> str:
        return self.reason


def verdict(run: Run) -> Verdict:
    """Judge the load generator of one run by its CPU time and its lateness."""
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
        binds, reason = _by_cpu_time(each, server, machine)
    crowd = _crowd(others, client, server)
    if crowd and not binds:
        reason += f"; but {crowd}"
    if stolen > STOLEN:
        reason += f"; but the host of this virtual machine took {stolen:.2f} of a core"
    return Verdict(each, stolen, late_s, binds, reason, crowd, others)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:.3g}"


def _late_s(run: Run) -> float:
    late_s = run.records["sent_s"] - run.records["due_s"]
    late_s = late_s[~np.isnan(late_s)]
    return float(np.quantile(late_s, 0.99)) if len(late_s) else math.nan


def _by_lateness(run: Run, late_s: float) -> tuple[bool, str]:
    if late_s > max(LATE_S, LATE * run.mean_residence_s):
        return True, (
            "the load generator was late: it sent 1 % of the calls more than"
            f" {_ms(late_s)} ms after they were due, so the arrival rate was lower than requested"
        )
    return False, (
        "unknown whether the load generator was the bottleneck: the run was too short, or its CPU"
        " time is not known"
    )


def _by_cpu_time(client: float, server: float, machine: float) -> tuple[bool, str]:
    used = f"the load generator used {client:.2f} of a core"
    if client >= BUSY:
        also = f", the server {server:.2f}" if server >= BUSY else ""
        return True, f"{used}{also}: it may be the bottleneck"
    if machine >= FULL:
        return True, (
            f"{used}; together with the server it used {machine:.0%} of this machine, so the two"
            " competed for CPU time"
        )
    return False, f"{used}: no sign that it was the bottleneck"


def _crowd(others: float, client: float, server: float) -> str:
    """Return a warning if other programs used so much CPU time that too little was left."""
    client, server = np.nan_to_num([client, server])
    count = psutil.cpu_count() or 1
    if others >= CROWDED and others + client + server > count - CROWDED:
        return f"other programs used {others:.1f} of {count} cores"
    return ""
