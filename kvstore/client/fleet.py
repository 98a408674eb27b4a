"""Several load generators that make one run together: `load.run(..., fleet=Local(4))`.

cluster        Local and Cluster: where the generators run; Dask places and collects them
clock          the difference between the clocks of two processes, and its largest error
worker         what runs in each worker: its part of the run, behind a gate
driver         starts all parts at an agreed time, monitors them, and ends them in order
combined_run   their records combined into one run, with an account of each worker
parts          how a run is divided into parts
"""

import importlib.util
import logging
import platform
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from kvstore.client.errors import FleetNotReached
from kvstore.client.workload import MethodCalls, Workload
from kvstore.protocol import generator_of

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


# ---- parts --------------------------------------------------------------------------------------
# Each generator's part of a run, and the gate at which a run waits for its start.
#
# The parts add up to the whole run: they divide the operations, calls in flight and due times.


MOST_GENERATORS = 32
"""With more generators, keys of a single byte would not reach every one of them."""
SEEDS_APART = 1_000_003
"""Distance between the seeds of two generators: larger than the seeds that users choose."""


AnyWorkload = TypeVar("AnyWorkload", bound=Workload | MethodCalls)


class Part(NamedTuple):
    """Generator `number`, from 0, of `of`. The parts of all generators add up to the whole run."""

    number: int = 0
    of: int = 1

    def count(self, whole: int) -> int:
        """Return this part of a number of calls; parts differ by one at most."""
        return whole // self.of + (self.number < whole % self.of)

    def due_times(self, whole: Iterator[float]) -> Iterator[float]:
        """Return every `of`-th due time, starting with number `number`."""
        return islice(whole, self.number, None, self.of)

    def workload(self, whole: AnyWorkload) -> AnyWorkload:
        """Return the workload of this part: the same settings, another seed.

        The keys that are created before the run are divided, at least one for each part. The calls
        of another service's method are the same for all parts.
        """
        if self.of == 1 or not isinstance(whole, Workload):
            return whole
        preload = max(1, self.count(whole.preload)) if whole.preload else 0
        return replace(whole, seed=whole.seed + self.number * SEEDS_APART, preload=preload)

    def owns(self, key: bytes) -> bool:
        """Return whether this generator may use the key: no two generators use the same."""
        return self.of == 1 or generator_of(key, self.of) == self.number


WHOLE = Part()
"""The only part of a run that one generator makes."""


def parts(generators: int) -> list[Part]:
    """Return the parts of a run of so many generators. Raises `ValueError` for a wrong number."""
    whole = isinstance(generators, int) and not isinstance(generators, bool)
    if not whole or not 1 <= generators <= MOST_GENERATORS:
        raise ValueError(
            f"a fleet has a whole number of workers from 1 to {MOST_GENERATORS}, got {generators!r}"
        )
    return [Part(number, generators) for number in range(generators)]


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
