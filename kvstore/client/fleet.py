"""Several load generators that make one run together: `load.run(..., fleet=Local(4))`.

cluster    Local and Cluster: where the generators run; Dask places and collects them
worker     what runs in each worker: its part of the run, behind a gate

`fleet_driver` starts all parts at an agreed time and combines their runs. `options` says how a run
is divided into parts.
"""

import importlib.util
import logging
import platform
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvstore.client.channel import Target
from kvstore.client.errors import FleetNotReached, RunFailed, RunInterrupted
from kvstore.client.options import MOST_GENERATORS, Part, RunOptions, parts
from kvstore.client.strategies import Strategy
from kvstore.client.workload import MethodCalls, Workload
from kvstore.measure.run import Run
from kvstore.subprocesses import shielded

__all__ = ["Cluster", "Fleet", "Local", "fleet_of"]


# ---- cluster ------------------------------------------------------------------------------------
# Where the load generators of a run are: processes of this machine, or an existing Dask cluster.
#
# Dask places the generators and collects their runs. It never stands between a client and a
# server. This module imports it only when a fleet is used, because most runs need none.


CONNECT_S = 10.0
"""Seconds to wait for the scheduler of a cluster and for its workers."""
START_S = 60.0
"""Seconds in which the workers of a `Local` fleet must start; each imports Dask and the course."""

LOCAL_SETTINGS = {
    "distributed.worker.profile.enabled": False,  # it would stop the generator 100 times a second
    "distributed.scheduler.allowed-failures": 0,  # a part of a run is never made a second time
}


class Place(NamedTuple):
    """One worker of a fleet."""

    address: str
    """How the scheduler names it, such as tcp://10.0.0.7:40123."""
    host: str
    """The name of its machine."""


class Connected(NamedTuple):
    """A fleet that is ready for a run."""

    client: Any
    """The `distributed.Client`."""
    places: list[Place]


def available() -> bool:
    """Return whether Dask is installed here."""
    return importlib.util.find_spec("distributed") is not None


class Fleet:
    """Several load generators; see `Local` and `Cluster`.

    A run connects the fleet for itself. With `with fleet:`, it stays connected for several runs.
    """

    _within_s = CONNECT_S
    _is_local = False
    _has_dashboard = True

    def __init__(self, workers: int | None) -> None:
        self.workers = workers
        self._stack = ExitStack()
        self._client: Any = None

    @contextmanager
    def connected(self) -> Iterator[Connected]:
        """Yield the connected fleet; outside of a `with` block it is closed afterwards.

        Raises `FleetNotReached` with the next step.
        """
        with nullcontext() if self._client is not None else self:
            yield Connected(self._client, self._places(time.perf_counter() + self._within_s))

    def __enter__(self) -> "Fleet":
        if self._client is not None:
            raise RuntimeError("this fleet is open already: use it in one `with` block at a time")
        if not available():
            raise FleetNotReached(
                "a fleet needs Dask, which is not installed here: `pip install distributed bokeh`"
                " in the environment of the course. Without `fleet`, `load.run` makes the run from"
                " one process"
            )
        with ExitStack() as stack:
            self._client = self._open(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._client = None
        with shielded():
            self._stack.close()

    @property
    def dashboard(self) -> str:
        """The address of Dask's dashboard in a browser, in a `with` block; "" if there is none."""
        has_one = self._client is not None and self._has_dashboard
        return str(self._client.dashboard_link or "") if has_one else ""

    def _open(self, stack: ExitStack) -> Any:
        """Return a client of the cluster."""
        raise NotImplementedError

    def _places(self, until_s: float) -> list[Place]:
        """Return the workers that are there now: a lost one may have been replaced."""
        client, needed = self._client, self.workers or 1
        with suppress(TimeoutError):
            client.wait_for_workers(needed, timeout=max(0.1, until_s - time.perf_counter()))
        try:
            addresses = sorted(client.nthreads())
        except OSError as error:  # a busy scheduler drops a connection, and takes the next one
            if time.perf_counter() > until_s:
                raise FleetNotReached(
                    f"the scheduler at {client.scheduler.address} closed the connection ({error}):"
                    " is it still running?"
                ) from error
            time.sleep(0.2)
            return self._places(until_s)
        if len(addresses) < needed:
            raise FleetNotReached(
                f"{needed} workers are needed, and the scheduler at {client.scheduler.address}"
                f" knows {len(addresses)}: start more with `dask worker ADDRESS`, or ask for fewer"
            )
        addresses = addresses[: self.workers or MOST_GENERATORS]
        try:
            return [_checked(client, each, self._is_local) for each in addresses]
        except OSError:  # it ended a moment ago, and the scheduler does not know yet
            if time.perf_counter() > until_s:
                raise
        time.sleep(0.2)
        return self._places(until_s)


class Local(Fleet):
    """A fleet of processes on this machine, which start with the run or the `with` block.

    Their start takes seconds. They end with the block, and when this process ends in any way. In a
    script, the run has to stand below `if __name__ == "__main__":`, because each worker imports
    the script. Raises `ValueError` for a number of workers below 1 or above 32.
    """

    _within_s = START_S
    _is_local = True

    def __init__(self, workers: int, *, dashboard: bool = False) -> None:
        super().__init__(len(parts(workers)))
        self._has_dashboard = dashboard and importlib.util.find_spec("bokeh") is not None

    def __repr__(self) -> str:
        return f"Local({self.workers})"

    def _open(self, stack: ExitStack) -> Any:
        import dask
        from distributed import LocalCluster

        stack.enter_context(dask.config.set(LOCAL_SETTINGS))
        with shielded():  # an interrupt in its start would leave the workers that run already
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": self._has_dashboard},
                    memory_limit=0,  # a run has a limit of its own
                    silence_logs=logging.CRITICAL,
                )
            )
        return _client(cluster, START_S, stack)


class Cluster(Fleet):
    """A fleet on an existing Dask cluster: the workers that its scheduler knows.

    `address` is that of the scheduler, such as tls://10.0.0.1:8786; README.md says how to start
    it. On a network that you trust it may be tcp://10.0.0.1:8786. `workers` is how many of its
    workers make the run; by default all of them, at most 32. The course must be installed on each,
    in the same version of Python. Raises `ValueError` for an address or a number that makes no
    sense.
    """

    def __init__(self, address: str, workers: int | None = None) -> None:
        super().__init__(None if workers is None else len(parts(workers)))
        if not isinstance(address, str) or "://" not in address:
            raise ValueError(
                f"the address of a scheduler is like tcp://10.0.0.1:8786, got {address!r}"
            )
        self.address = address

    def __repr__(self) -> str:
        return f"Cluster({self.address!r})"

    def _open(self, stack: ExitStack) -> Any:
        return _client(self.address, CONNECT_S, stack)


def fleet_of(text: str | None) -> Fleet | None:
    """Return the fleet that a flag names: "4" local processes, or the address of a scheduler."""
    if text is None:
        return None
    return Local(int(text)) if text.isdigit() else Cluster(text)


def _client(cluster: Any, within_s: float, stack: ExitStack) -> Any:
    """Return a client of a cluster, which ends with the stack. Raises `FleetNotReached`."""
    from distributed import Client

    stack.enter_context(_quiet())
    try:
        client = Client(cluster, timeout=within_s, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise FleetNotReached(
            f"no Dask scheduler answers at {cluster} within {within_s:g} s ({error}). Is it"
            " running? `dask scheduler` starts one, and `dask worker ADDRESS` a worker"
        ) from None
    stack.callback(client.close, timeout=5)
    return client


def _checked(client: Any, address: str, local: bool) -> Place:
    """Return the place of a worker that can run a generator.

    Raises `FleetNotReached` if it cannot, and `OSError` if the worker is not there.
    """
    try:
        found: tuple[str, str] = client.run(introduce, local, workers=[address])[address]
    except OSError:
        raise
    except Exception as error:
        raise FleetNotReached(
            f"the worker {address} cannot run a generator ({type(error).__name__}: {error}):"
            " install the course there, in the same version as here"
        ) from error
    host, python = found
    here = platform.python_version_tuple()[:2]
    if python.split(".")[:2] != list(here):
        raise FleetNotReached(
            f"the worker {address} runs Python {python}, and this process {'.'.join(here)}: a"
            " strategy cannot be sent from one to the other. Use the same version on both"
        )
    return Place(address, host)


def introduce(local: bool) -> tuple[str, str]:
    """Return the host and the Python of a worker; runs in the main thread of its process.

    A local worker ignores Ctrl-C from now on: a notebook's interrupt reaches its whole process
    group, and the driver ends the run in order.
    """
    if local:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return socket.gethostname(), platform.python_version()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's log in this process: what matters becomes an error of the run."""
    log = logging.getLogger("distributed")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


# ---- worker -------------------------------------------------------------------------------------
# What runs in each worker of a fleet: the course's own generator, with its part of the run.


class Gate:
    """Where a run waits for its start, and where another thread can stop it.

    No signal is used to stop a run: in the middle of a call, gRPC may then wait for ever when its
    channel is closed, and at the end of a run its records may be lost.
    """

    def __init__(self) -> None:
        self.closed = False
        """Whether the run has to stop."""
        self.inside = False
        """Whether a run has begun, whose monitor checks `closed`."""

    def stop(self) -> None:
        """Close the gate: the run sends no further call, and ends in order."""
        self.closed = True

    def wait(self) -> float:
        """Wait until the run may send its first call; return that time of `perf_counter`."""
        return time.perf_counter()


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
    from kvstore.client import load  # late: it imports this module

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
