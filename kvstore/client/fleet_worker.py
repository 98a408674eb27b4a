"""What runs in each worker of a fleet: the course's own generator, with its part of the run."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvstore.client import load
from kvstore.client.channel import Target
from kvstore.client.errors import RunFailed, RunInterrupted
from kvstore.client.fleet import Gate, Part
from kvstore.client.options import RunOptions
from kvstore.client.strategies import Strategy
from kvstore.client.workload import MethodCalls, Workload
from kvstore.measure.run import Run

READY, SAMPLE = "ready", "sample"
"""Kinds of event that a worker reports to the driver."""
STRANDED_S = 120.0
"""Seconds after which a worker gives up waiting for the start, because its driver is gone."""


@dataclass(frozen=True)
class Assignment:
    """One generator's part of a run."""

    run_id: str
    """The same for all parts; also the topic of the events."""
    part: Part
    strategy: Strategy
    target: Target
    workload: Workload | MethodCalls
    options: RunOptions


@dataclass(frozen=True)
class Report:
    """What became of one part."""

    run: Run | None = None
    """The part of the run; None if it could not begin."""
    error: Exception | None = None
    """Why it could not begin."""
    text: str = ""
    """Why it ended before its time."""
    late_s: float = 0.0
    """Seconds after the agreed time at which this worker could send."""


class AgreedStart(Gate):
    """A gate that opens at a time of this worker's clock, which the driver says later."""

    def __init__(self, when_ready: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.when_ready = when_ready
        self.late_s = 0.0
        self._known = threading.Event()
        self._opens_s = 0.0

    def open_at(self, opens_s: float) -> None:
        """Open the gate at this time of `perf_counter`."""
        self._opens_s = opens_s
        self._known.set()

    def wait(self) -> float:
        """Report that this worker is ready, and wait for the agreed time; return it."""
        self.when_ready()
        give_up_s = time.perf_counter() + STRANDED_S
        while not self._known.wait(0.05):
            if self.closed or time.perf_counter() > give_up_s:
                self.closed = True
                return time.perf_counter()
        time.sleep(max(0.0, self._opens_s - time.perf_counter()))
        self.late_s = time.perf_counter() - self._opens_s
        return self._opens_s


_gates: dict[str, AgreedStart] = {}
"""The gate of each run in this process; the driver's message may come before the assignment."""


def _gate(run_id: str) -> AgreedStart:
    return _gates.setdefault(run_id, AgreedStart())


def open_gate(run_id: str, opens_s: dict[str, float], dask_worker: Any) -> None:
    """Let the run begin at the time for this worker. Dask calls this in the worker's process."""
    _gate(run_id).open_at(opens_s[dask_worker.address])


def stop(run_id: str) -> None:
    """Stop the run in order. Dask calls this in the worker's process."""
    _gate(run_id).stop()


def read_clock() -> float:
    """Return this process's clock. Dask calls this in the worker's process."""
    return time.perf_counter()


def generate(assignment: Assignment) -> Report:
    """Make one part of a run, in a thread of a Dask worker; report samples meanwhile."""
    from distributed import get_worker

    worker = get_worker()
    gate = _gate(assignment.run_id)

    def tell(kind: str, *values: float) -> None:
        worker.log_event(assignment.run_id, [assignment.part.number, kind, *map(float, values)])

    gate.when_ready = lambda: tell(READY)
    try:
        return _report(assignment, gate, tell)
    finally:
        _gates.pop(assignment.run_id, None)


def _report(assignment: Assignment, gate: AgreedStart, tell: Callable[..., None]) -> Report:
    try:
        run = load.run(
            assignment.strategy,
            assignment.target,
            assignment.part.workload(assignment.workload),
            assignment.options,
            part=assignment.part,
            gate=gate,
            on_sample=lambda sample: tell(SAMPLE, *sample),
        )
    except (RunInterrupted, RunFailed) as ended:
        return Report(ended.run, None, str(ended), gate.late_s)
    except Exception as error:
        return Report(None, _sendable(error))
    return Report(run, None, "", gate.late_s)


def _sendable(error: Exception) -> Exception:
    """Return an error that another process can load: its kind and its text."""
    try:
        return type(error)(str(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
