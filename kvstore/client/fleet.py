"""Several load generators that make one run together: `load.run(..., fleet=Local(4))`.

cluster        Local and Cluster: where the generators run; Dask places and collects them
worker         what runs in each worker: its part of the run, behind a gate
combined run   the parts of a run put together, with an account of each generator
clock, driver  start all parts at an agreed time, and see each of them end
"""

import dataclasses
import importlib.util
import logging
import platform
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from kvstore.client import load
from kvstore.client.address import is_loopback
from kvstore.client.channel import Tls
from kvstore.client.errors import FleetNotReached, RunFailed, RunInterrupted, ServerGone
from kvstore.client.monitor import (
    Gate,
    OnSample,
    Servers,
    connected_servers,
    server_report,
    status_after,
)
from kvstore.client.plan import MOST_GENERATORS, Plan, parts
from kvstore.measure.parts import merge, merge_samples
from kvstore.measure.recorder import Sample
from kvstore.measure.run import Outcome, Run
from kvstore.subprocesses import programs_of, shielded

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
    """Return whether Dask is installed here, and what its encryption needs."""
    return all(map(importlib.util.find_spec, ("distributed", "cryptography")))


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

    def run(self, plan: Plan, on_sample: OnSample | None = None) -> Run:
        """Make the run of a plan with every worker; `load.run(..., fleet=self)` calls this.

        Raises:
            ValueError: a count is too small to be divided.
            FleetNotReached: the fleet cannot be used.
            RunFailed: also when a worker was lost; `.run` has the calls of all others, and the
                calls of the lost one in `Run.unrecorded`.
            and whatever `load.run` raises.
        """
        options, target = plan.options, plan.target
        with self.connected() as connected, connected_servers(target) as servers:
            if target.tls is not None:
                refuse_to_publish(target.tls, str(connected.client.scheduler.address))
            run_id = f"kvstore-{secrets.token_hex(6)}"
            shares = plan.divided(len(connected.places))
            driver = _Driver(connected, run_id, shares, servers, on_sample)
            driver.drive()
            settings_of_all = {
                "workload": plan.workload.as_dict(),
                "calls": options.calls,
                "in_flight": options.in_flight,
                "rate_per_s": options.rate_per_s,
            }
            return combine(driver, settings_of_all)

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
                "a fleet needs Dask, which is not installed here: `pip install distributed bokeh"
                " cryptography` in the environment of the course. Without `fleet`, `load.run` makes"
                " the run from one process"
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
        scheduler = client.scheduler.address
        with suppress(TimeoutError):
            client.wait_for_workers(needed, timeout=max(0.1, until_s - time.perf_counter()))
        try:
            addresses = sorted(client.nthreads())
            if len(addresses) < needed:
                raise FleetNotReached(
                    f"{needed} workers are needed, and the scheduler at {scheduler} knows"
                    f" {len(addresses)}: start more with `dask worker ADDRESS`, or ask for fewer"
                )
            addresses = addresses[: self.workers or MOST_GENERATORS]
            return [_checked(client, each, self._is_local) for each in addresses]
        # A busy scheduler drops a connection and takes the next one, and it does not know yet of a
        # worker that ended a moment ago.
        except OSError as error:
            if time.perf_counter() > until_s:
                raise FleetNotReached(
                    f"the scheduler at {scheduler} closed the connection ({error}):"
                    " is it still running?"
                ) from error
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
        from distributed import LocalCluster, Security

        folder = stack.enter_context(programs_of("kvstore-fleet-"))
        settings = {**LOCAL_SETTINGS, "temporary-directory": str(folder)}  # the scheduler's as well
        stack.enter_context(dask.config.set(settings))
        with shielded():  # an interrupt in its start would leave the workers that run already
            try:
                cluster = LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    protocol="tls://",
                    security=Security.temporary(),  # else other users could run code as this one
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": self._has_dashboard},
                    memory_limit=0,  # a run has a limit of its own
                    silence_logs=logging.CRITICAL,
                )
            except RuntimeError as error:
                raise FleetNotReached(
                    f"a worker of this machine ended in its start ({error}): was it killed for its"
                    " memory? Make the run again, with fewer workers"
                ) from error
            stack.enter_context(cluster)
        return _client(cluster, START_S, stack)


class Cluster(Fleet):
    """A fleet on an existing Dask cluster: the workers that its scheduler knows.

    `address` is that of the scheduler, such as tls://10.0.0.1:8786; docs/fleet.md says how to start
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

    log = logging.getLogger("distributed")
    stack.callback(log.setLevel, log.level)
    log.setLevel(logging.CRITICAL)  # what matters becomes an error of the run
    try:
        client = Client(cluster, timeout=within_s, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:  # TypeError: no certificate
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


# ---- worker -------------------------------------------------------------------------------------
# What runs in each worker of a fleet: the course's own generator, with its part of the run.


READY, SAMPLE = "ready", "sample"
"""Kinds of event that a worker reports to the driver."""
STRANDED_S = 120.0
"""Seconds after which a worker gives up waiting for the start, because its driver is gone."""


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


def generate(run_id: str, plan: Plan) -> Report:
    """Make one part of a run, in a thread of a Dask worker; report samples meanwhile.

    `run_id` is the same for all parts, and the topic of the events.
    """
    from distributed import get_worker

    worker = get_worker()
    gate = _gate(run_id)

    def tell(kind: str, *values: float) -> None:
        worker.log_event(run_id, [plan.part.number, kind, *map(float, values)])

    gate.when_ready = lambda: tell(READY)
    try:
        run = load.generate(plan, lambda sample: tell(SAMPLE, *sample), gate)
    except (RunInterrupted, RunFailed) as ended:
        return Report(ended.run, None, str(ended), gate.late_s)
    except Exception as error:
        return Report(None, _sendable(error))
    finally:
        _gates.pop(run_id, None)
    return Report(run, None, "", gate.late_s)


def _sendable(error: Exception) -> Exception:
    """Return an error that another process can load: its kind and its text."""
    try:
        return type(error)(str(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


# ---- combined run -------------------------------------------------------------------------------
# Combine the runs of several generators into one, with an account of each.


LOST = "lost"
"""The outcome of a generator that did not send its run."""


class Generator:
    """One generator of a run: where it is, and what the driver knows of it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.clock = Clock(0.0, 0.0)
        self.ready = False
        self.heard_s = time.perf_counter()
        """When its last event came."""
        self.sample: Sample | None = None
        self.is_new = False
        """Whether its latest sample has not been shown yet."""
        self.report: Report | None = None
        self.lost = False
        """Whether its worker ended, or fell silent, before it sent its run."""

    @property
    def running(self) -> bool:
        """Whether its part has not ended."""
        return self.report is None and not self.lost

    @property
    def run(self) -> Run | None:
        """Its part of the run, if it sent one."""
        return None if self.report is None else self.report.run

    @property
    def failed(self) -> bool:
        """Whether the others have to end.

        If the server stops answering, each generator ends by itself at the deadlines of its calls.
        """
        ends_alone = (Outcome.COMPLETE, Outcome.SERVER_UNRESPONSIVE)
        ended = self.report is not None
        return self.lost or (ended and (self.run is None or self.run.outcome not in ends_alone))

    @property
    def issued(self) -> int:
        """Calls that it sent; if it is lost, at its last sample."""
        if self.run is not None:
            return self.run.issued
        return 0 if self.sample is None else int(self.sample.issued)

    def account(self) -> dict[str, Any]:
        """Return how it ended, its calls, and the errors of its start, ready for JSON."""
        report = self.report or Report()
        return {
            "worker": self.place.address,
            "host": self.place.host,
            "outcome": LOST if self.run is None else str(self.run.outcome),
            "issued": self.issued,
            "recorded": 0 if self.run is None else len(self.run.records),
            "unknown": self.issued if self.lost else 0,
            "clock_error_s": self.clock.error_s,
            "late_s": report.late_s,
        }


def combine(driver: "_Driver", settings: Mapping[str, Any]) -> Run:
    """Return the run of which the generators made the parts; `settings` are those of the whole.

    Percentiles and throughput follow from the union of all records, and are not averages. The
    run's settings have the number of `processes`, and under `workers` the account of each. Calls of
    a lost worker are in `Run.unrecorded`.

    Raises as `load.run` does, and `RunFailed` when a worker was lost.
    """
    generators = driver.generators
    runs = [each.run for each in generators if each.run is not None]
    lost = [each for each in generators if each.lost]
    if not runs:
        if driver.interrupted:
            raise KeyboardInterrupt  # before the run began: there is nothing to account for
        raise _start_error(generators)
    unrecorded = sum(each.issued for each in lost)
    merged = merge(runs)
    outcome = merged.outcome
    if len(runs) < len(generators) and outcome is not Outcome.SERVER_GONE:
        outcome = Outcome.FAILED
    merged = dataclasses.replace(
        merged,
        outcome=Outcome.INTERRUPTED if driver.interrupted else outcome,
        # One generator cannot count the operations: it would include calls that others send after
        # its end, and their preloads.
        server=server_report(driver.before, status_after(driver.servers, outcome)),
        issued=merged.issued + unrecorded,
        operations_sent=merged.issued_operations + unrecorded,
        unrecorded=unrecorded,
        settings={
            **merged.settings,
            **settings,
            "processes": len(generators),
            "workers": [each.account() for each in generators],
        },
    )
    if merged.outcome is Outcome.INTERRUPTED:
        raise RunInterrupted(merged)
    if lost:
        raise RunFailed(_lost_message(lost, generators, merged), merged)
    if merged.outcome in (Outcome.SERVER_GONE, Outcome.FAILED):
        kind = ServerGone if merged.outcome is Outcome.SERVER_GONE else RunFailed
        raise kind(f"{_first_text(generators)}; of all workers together: {merged!r}", merged)
    return merged


def _start_error(generators: Sequence[Generator]) -> Exception:
    """Return why the run could not begin."""
    for each in generators:
        if each.report is not None and each.report.error is not None:
            return each.report.error
    names = ", ".join(each.place.address for each in generators)
    return FleetNotReached(
        f"the workers {names} ended before they sent a run: was one killed for its memory? Make the"
        " same run without a fleet to see its error"
    )


def _first_text(generators: Sequence[Generator]) -> str:
    """Return the first text that says why a part ended early."""
    reports = [each.report for each in generators if each.report is not None]
    texts = [each.text or str(each.error or "") for each in reports]
    return next((text for text in texts if text), "a worker failed")


def _lost_message(lost: Sequence[Generator], generators: Sequence[Generator], run: Run) -> str:
    words = [
        f"worker {list(generators).index(each) + 1} of {len(generators)} ({each.place.address} on"
        f" {each.place.host}) was lost: it had sent {each.issued:,} calls or more, and how they"
        " ended is unknown"
        for each in lost
    ]
    counted = run.server["operations"]
    if counted is not None:
        words.append(
            f"the server answered {sum(counted.values()):,} operations in all, of which"
            f" {int(run.records['operations'].sum()):,} are recorded"
        )
    return f"{'; '.join(words)}; the run of the other workers: {run!r}"


# ---- clock --------------------------------------------------------------------------------------
# The clocks of several processes, which may be on several machines.
#
# A reading of `perf_counter` means nothing in another process. So the driver reads the clock of
# each worker several times. In each round trip, the worker's clock was read at an unknown moment
# between request and reply. The middle of the shortest round trip is the estimate, and half of
# that round trip is the largest error (F. Cristian, Distributed Computing 3, 1989).


ROUNDS = 10


class Clock(NamedTuple):
    """How far a worker's clock is ahead of the driver's."""

    ahead_s: float
    """The estimated difference, in seconds; a large number for another machine."""
    error_s: float
    """The largest possible error of it: half of the shortest round trip."""

    def there(self, here_s: float) -> float:
        """Return the worker's reading at a time of this process's clock."""
        return here_s + self.ahead_s


def compare(read: Callable[[], float], rounds: int = ROUNDS) -> Clock:
    """Return the difference of another clock, which `read` reads in one round trip."""
    found = []
    for _ in range(rounds):
        before_s = time.perf_counter()
        there_s = read()
        half_s = (time.perf_counter() - before_s) / 2
        found.append(Clock(there_s - before_s - half_s, half_s))
    return min(found, key=lambda clock: clock.error_s)


# ---- driver -------------------------------------------------------------------------------------


LOOK_S = 0.1
LEAD_S = 0.1
"""Seconds from the message that opens the gates to their opening, plus the time of the message."""
SILENT_S = 20.0
"""Seconds without a sample after which a worker counts as lost: its machine may have stopped."""
END_S = 30.0
"""Seconds after a request to stop in which the workers may send their runs."""


def refuse_to_publish(tls: Tls, scheduler: str) -> None:
    """Raise `ValueError` if the token of the run would go over a network in plain text."""
    scheme, _, place = scheduler.partition("://")
    if (tls.token or tls.key) and scheme != "tls" and not is_loopback(place.rpartition(":")[0]):
        raise ValueError(
            f"the workers would get the server's token in plain text over {scheduler}: run Dask"
            " with TLS as docs/fleet.md says, and give the address of its scheduler as tls://HOST:PORT"
        )


class _Driver:
    """The workers of one run, as seen from the process that started it."""

    def __init__(
        self,
        connected: Connected,
        run_id: str,
        shares: Sequence[Plan],
        servers: Servers,
        on_sample: OnSample | None,
    ) -> None:
        self._client, places = connected
        self._run_id = run_id
        self._shares = shares
        self.servers = servers
        self.before = servers.before
        """The status of the servers when the gates opened."""
        self._on_sample = on_sample
        self.generators = [Generator(place) for place in places]
        self.interrupted = False
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._futures: list[Any] = []
        self._began = False
        self._end_s = float("inf")

    def drive(self) -> None:
        """Start all parts, and return when each has ended or is lost."""
        self._client.subscribe_topic(self._run_id, self._events.put)
        try:
            self._futures = [
                self._client.submit(
                    generate,
                    self._run_id,
                    share,
                    workers=[generator.place.address],
                    allow_other_workers=False,
                    pure=False,
                    retries=0,
                    key=f"{self._run_id}-{share.part.number}",
                )
                for share, generator in zip(self._shares, self.generators, strict=True)
            ]
            self._watch()
        finally:
            if left := self._running():  # it did not end in time, or `on_sample` failed
                self._stop_all()
                for generator in left:
                    generator.lost = True
            with suppress(Exception, KeyboardInterrupt), shielded():
                self._client.unsubscribe_topic(self._run_id)
                self._client.cancel(self._futures, force=True)

    def _watch(self) -> None:
        while self._running() and time.perf_counter() < self._end_s:
            try:
                with suppress(Empty):
                    self._receive(self._events.get(timeout=LOOK_S)[1])
                    while True:
                        self._receive(self._events.get_nowait()[1])
                self._collect()
                self._show_sample()
                self._open_the_gates()
                self._stop_if_one_failed()
            except KeyboardInterrupt:
                if self.interrupted:
                    break
                self.interrupted = True
                with suppress(KeyboardInterrupt), shielded():  # a second one loses no account
                    self._stop_all()

    def _running(self) -> list[Generator]:
        return [each for each in self.generators if each.running]

    def _receive(self, event: list[Any]) -> None:
        number, kind, *values = event
        generator = self.generators[number]
        generator.heard_s = time.perf_counter()
        if kind == READY:
            generator.ready = True
        else:
            generator.sample, generator.is_new = Sample(*values), True

    def _collect(self) -> None:
        """Take the reports of parts that have ended, and note the workers that are lost."""
        try:
            there = set(self._client.nthreads())
        except Exception:  # the scheduler is gone, so no worker can be reached
            there = set()
        for generator, future in zip(self.generators, self._futures, strict=True):
            if not generator.running:
                continue
            if future.status == "finished":
                with suppress(Exception):  # the worker was lost while it sent its run
                    generator.report = future.result(timeout=END_S)
                generator.lost = generator.report is None
            elif future.status == "error":
                error = future.exception(timeout=END_S)
                generator.lost = type(error).__name__ == "KilledWorker"
                generator.report = None if generator.lost else Report(None, error)
            else:
                silent_s = time.perf_counter() - generator.heard_s
                most_s = SILENT_S if self._began else STRANDED_S
                is_there = generator.place.address in there and future.status == "pending"
                generator.lost = not is_there or silent_s > most_s

    def _show_sample(self) -> None:
        """Show one combined sample when each running worker has a new one."""
        samples = [each.sample for each in self.generators if each.sample is not None]
        running = self._running()
        if self._on_sample and running and samples and all(each.is_new for each in running):
            for each in self.generators:
                each.is_new = False
            self._on_sample(merge_samples(samples))

    def _open_the_gates(self) -> None:
        if self._began or not all(each.ready for each in self.generators):
            return
        try:
            for each in self.generators:
                each.clock = self._clock_of(each.place)
        except OSError:  # a worker was lost a moment ago: `_collect` will note it
            return
        self.before = self.servers.status(5.0)
        self._began = True
        message_s = 4 * sum(each.clock.error_s for each in self.generators)
        opens_s = time.perf_counter() + LEAD_S + message_s
        self._tell(
            open_gate, {each.place.address: each.clock.there(opens_s) for each in self.generators}
        )
        for each in self.generators:
            each.heard_s = time.perf_counter()

    def _clock_of(self, place: Place) -> Clock:
        address = place.address
        return compare(lambda: self._client.run(time.perf_counter, workers=[address])[address])

    def _stop_if_one_failed(self) -> None:
        if self._end_s == float("inf") and any(each.failed for each in self.generators):
            self._stop_all()

    def _stop_all(self) -> None:
        self._end_s = min(self._end_s, time.perf_counter() + END_S)
        self._tell(stop)

    def _tell(self, message: Any, *arguments: Any) -> None:
        """Call a function in the process of each worker that still runs its part."""
        there = [each.place.address for each in self._running()]
        with suppress(Exception):  # of a worker that is lost at this moment
            self._client.run(message, self._run_id, *arguments, workers=there, on_error="ignore")
