"""CPU time per call of client and server.

Definitions: CPU time per call is D = CPU time of the process / calls sent (the utilisation law,
U = X * D). Its serial part is the time in which one call of a process excludes every other call
of the process: the thread of the event loop, or without one the whole process, because CPython
runs one thread at a time. gRPC's own threads run beside the interpreter, so the whole CPU time is
too much for a bound that comes from the interpreter lock.
"""

from typing import NamedTuple

import numpy as np

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


def cpu_per_call_s(run: Run) -> CpuPerCall:
    """Return the CPU seconds per call sent; NaN for a run without calls."""
    return _per(run, run.issued)


def serial_s(run: Run) -> CpuPerCall:
    """Return the serial part of the CPU seconds per call, see `Cpu.serial_s`."""
    over = run.issued or float("nan")
    return CpuPerCall(run.client_cpu.serial_s / over, run.server_cpu.serial_s / over)


def d_max_s(run: Run) -> float:
    """Return D_max, the shortest possible time between two calls, in seconds.

    It is the larger of two demands: the serial part of the busier process, and the CPU time of
    both processes divided by the number of cores. Throughput is at most 1 / D_max. NaN if
    neither process could be observed.
    """
    return float(np.fmax(serial_s(run).larger_s, cpu_per_call_s(run).together_s / _cores(run)))


def utilisation(run: Run) -> float:
    """Return the utilisation of the bottleneck: U = X * D_max, with D_max of `d_max_s`.

    In the remaining time the bottleneck waited, or another program had its core. NaN if neither
    process could be observed.
    """
    return d_max_s(run) * run.issued / (run.window_s or float("nan"))


def cores_busy(run: Run) -> float:
    """Return the mean number of cores that client and server used together.

    It is at most the number of cores: the system counts CPU time in steps of 10 ms, so a run may
    be too short for its CPU time.
    """
    return min(_per(run, run.window_s).together_s, float(_cores(run)))


def _cores(run: Run) -> int:
    return int(run.host.get("cores", cores()))


def _per(run: Run, over: float) -> CpuPerCall:
    over = over or float("nan")
    return CpuPerCall(run.client_cpu.total_s / over, run.server_cpu.total_s / over)
