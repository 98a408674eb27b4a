"""Several load generators that make one run together: `load.run(..., fleet=Local(4))`.

Dask does what is not a measurement: it starts the generators (`LocalCluster`), places one part of
the run on each worker (`submit`), carries their samples (events), notices a lost worker (its
heartbeats), and returns the parts. It never stands between a client and a server. It is imported
only when a fleet is used, because most runs need none.
"""

import dataclasses
import importlib.util
import logging
import secrets
import threading
import time
from collections import defaultdict
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

CONNECT_S = 10.0
"""Seconds to wait for the scheduler of a cluster and for its workers."""
START_S = 60.0
"""Seconds in which the workers of a `Local` fleet must start; each imports Dask and the course."""
STRANDED_S = 120.0
"""Seconds after which a worker gives up waiting for the start, because its driver is gone."""
END_S = 30.0
"""Seconds after a request to stop in which the workers may send their runs."""
LOOK_S = 0.1
"""Seconds between two looks at which workers are there."""

LOCAL_SETTINGS = {
    "distributed.worker.profile.enabled": False,  # it would stop the generator 100 times a second
    "distributed.scheduler.allowed-failures": 0,  # a part of a run is never made a second time
    "distributed.deploy.lost-worker-timeout": f"{START_S:g}s",  # so long may the next one start
    "distributed.scheduler.worker-ttl": "20s",  # one without a heartbeat for so long is lost
}
NO_INTERRUPT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""What a local worker does first: Ctrl-C reaches it too, and the driver ends the run in order."""


def available() -> bool:
    """Return whether Dask is installed here, and what its encryption needs."""
    return all(map(importlib.util.find_spec, ("distributed", "cryptography")))


class Fleet:
    """Several load generators; see `Local` and `Cluster`.

    A run connects the fleet for itself. With `with fleet:`, it stays connected for several runs.
    """

    _within_s = CONNECT_S

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
        target = plan.target
        with self.connected() as addresses, connected_servers(target) as servers:
            if target.tls is not None:
                refuse_to_publish(target.tls, str(self._client.scheduler.address))
            shares = plan.divided(len(addresses))
            driver = _Driver(self._client, addresses, servers, on_sample)
            driver.make(shares)
            return driver.combined(plan)

    @contextmanager
    def connected(self) -> Iterator[list[str]]:
        """Connect the fleet, and yield the addresses of its workers.

        Outside of a `with` block it is closed afterwards. Raises `FleetNotReached`.
        """
        with nullcontext() if self._client is not None else self:
            yield self._ready_workers()

    def __enter__(self) -> "Fleet":
        if self._client is not None:
            raise RuntimeError("this fleet is open already: use it in one `with` block at a time")
        if not available():
            raise FleetNotReached(
                "a fleet needs Dask, which is not installed here: `pip install distributed"
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

    def _open(self, stack: ExitStack) -> Any:
        """Return a client of the cluster."""
        raise NotImplementedError

    def _ready_workers(self) -> list[str]:
        """Return the workers that are there now: a lost one may have been replaced."""
        client, needed = self._client, self.workers or 1
        scheduler = client.scheduler.address
        try:
            with suppress(TimeoutError):
                client.wait_for_workers(needed, timeout=self._within_s)
            addresses = sorted(client.nthreads())
        except OSError as error:
            raise FleetNotReached(
                f"the scheduler at {scheduler} does not answer ({error}): is it still running?"
            ) from error
        if len(addresses) < needed:
            raise FleetNotReached(
                f"{needed} workers are needed, and the scheduler at {scheduler} knows"
                f" {len(addresses)}: start more with `dask worker ADDRESS`, or ask for fewer"
            )
        return addresses[: self.workers or MOST_GENERATORS]


class Local(Fleet):
    """A fleet of processes on this machine, which start with the run or the `with` block.

    Their start takes seconds. They end with the block, and when this process ends in any way. In a
    script, the run has to stand below `if __name__ == "__main__":`, because each worker imports
    the script. Raises `ValueError` for a number of workers below 1 or above 32.
    """

    _within_s = START_S

    def __init__(self, workers: int) -> None:
        super().__init__(len(parts(workers)))

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
                    scheduler_kwargs={"dashboard": False},
                    memory_limit=0,  # a run has a limit of its own
                    preload=[NO_INTERRUPT],
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


def refuse_to_publish(tls: Tls, scheduler: str) -> None:
    """Raise `ValueError` if the token of the run would go over a network in plain text."""
    scheme, _, place = scheduler.partition("://")
    if (tls.token or tls.key) and scheme != "tls" and not is_loopback(place.rpartition(":")[0]):
        raise ValueError(
            f"the workers would get the server's token in plain text over {scheduler}: run Dask"
            " with TLS as docs/fleet.md says, and give the address of its scheduler as"
            " tls://HOST:PORT"
        )


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


class Start(Gate):
    """A gate at which a worker waits for the driver."""

    def __init__(self) -> None:
        super().__init__()
        self.when_ready: Callable[[], object] = lambda: None
        self.released = threading.Event()

    def wait(self) -> float:
        """Report that this worker is ready, and wait for the start; return that time."""
        self.when_ready()
        self.closed |= not self.released.wait(STRANDED_S)
        return time.perf_counter()


_starts: dict[str, Start] = defaultdict(Start)
"""The gate of each run in this process; the driver's message may come before the assignment."""


def release(run_id: str, stopped: bool = False) -> None:
    """Let a run begin, or end in order. Dask calls this in the worker's process."""
    _starts[run_id].closed = stopped
    _starts[run_id].released.set()


class Part(NamedTuple):
    """The part of a run that one worker made."""

    run: Run
    error: str = ""
    """Why it ended before its time."""


def generate(run_id: str, plan: Plan) -> Part:
    """Make one part of a run, in a thread of a Dask worker; report samples meanwhile.

    `run_id` is the same for all parts, and the topic of the events: the number of the part, and its
    sample, or nothing when it is ready. Raises what `load.run` raises before the first call.
    """
    from distributed import get_worker

    worker, start = get_worker(), _starts[run_id]

    def report(*sample: float) -> None:
        worker.log_event(run_id, [plan.part.number, *map(float, sample)])

    start.when_ready = report
    try:
        return Part(load.generate(plan, lambda sample: report(*sample), start))
    except (RunInterrupted, RunFailed) as ended:
        return Part(ended.run, str(ended))
    finally:
        _starts.pop(run_id, None)


@dataclass
class _Generator:
    """One generator of a run, as its driver knows it."""

    address: str
    """How the scheduler names its worker, such as tcp://10.0.0.7:40123."""
    future: Any
    ready: bool = False
    sample: Sample | None = None
    is_new: bool = False
    """Whether its latest sample has not been shown yet."""
    part: Part | None = None
    error: BaseException | None = None
    """Why its part could not begin."""
    lost: bool = False
    """Whether its worker ended before it sent its run."""

    @property
    def running(self) -> bool:
        """Whether its part has not ended."""
        return self.part is None and self.error is None and not self.lost

    @property
    def failed(self) -> bool:
        """Whether the others have to end.

        If the server stops answering, each generator ends by itself at the deadlines of its calls.
        """
        if self.part is None:
            return not self.running
        return self.part.run.outcome not in (Outcome.COMPLETE, Outcome.SERVER_UNRESPONSIVE)

    @property
    def issued(self) -> int:
        """Calls that it sent; if it is lost, at its last sample."""
        if self.part is not None:
            return self.part.run.issued
        return 0 if self.sample is None else int(self.sample.issued)

    def account(self) -> dict[str, Any]:
        """Return how it ended and its calls, ready for JSON."""
        run = self.part and self.part.run
        return {
            "worker": self.address,
            "outcome": str(run.outcome) if run else "lost",
            "issued": self.issued,
            "recorded": len(run.records) if run else 0,
            "unknown": self.issued if self.lost else 0,
        }

    def collect(self, workers: Mapping[str, object]) -> None:
        """Note how its part ended; it is lost if its worker is not among those of the scheduler."""
        if self.future.status == "finished":
            with suppress(Exception):  # the worker was lost while it sent its run
                self.part = self.future.result(timeout=END_S)
            self.lost = self.part is None
        elif self.future.status == "error":
            error = self.future.exception(timeout=END_S)
            self.lost = type(error).__name__ == "KilledWorker"
            self.error = None if self.lost else error
        else:
            self.lost = self.future.status != "pending" or self.address not in workers


class _Driver:
    """The workers of one run, as seen from the process that started it."""

    def __init__(
        self, client: Any, addresses: Sequence[str], servers: Servers, on_sample: OnSample | None
    ) -> None:
        self._client, self._addresses = client, addresses
        self._run_id = f"kvstore-{secrets.token_hex(6)}"
        self._servers, self._before = servers, servers.before
        self._on_sample = on_sample
        self._generators: list[_Generator] = []
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._interrupted = self._began = False
        self._end_s = float("inf")

    def make(self, shares: Sequence[Plan]) -> None:
        """Start all parts, and return when each has ended or is lost."""
        self._client.subscribe_topic(self._run_id, self._events.put)
        try:
            for address, share in zip(self._addresses, shares, strict=True):
                future = self._client.submit(
                    generate,
                    self._run_id,
                    share,
                    workers=[address],
                    pure=False,
                    key=f"{self._run_id}-{share.part.number}",
                )
                self._generators.append(_Generator(address, future))
            while self._running() and time.perf_counter() < self._end_s:
                try:
                    self._step()
                except KeyboardInterrupt:
                    if self._interrupted:
                        break
                    self._interrupted = True
                    with suppress(KeyboardInterrupt), shielded():  # a second one loses no account
                        self._stop_all()
        finally:
            if left := self._running():  # it did not end in time, or `on_sample` failed
                self._stop_all()
                for generator in left:
                    generator.lost = True
            with suppress(Exception, KeyboardInterrupt), shielded():
                self._client.unsubscribe_topic(self._run_id)
                self._client.cancel([each.future for each in self._generators], force=True)

    def _running(self) -> list[_Generator]:
        return [each for each in self._generators if each.running]

    def _step(self) -> None:
        with suppress(Empty):
            self._receive(self._events.get(timeout=LOOK_S)[1])
            while True:
                self._receive(self._events.get_nowait()[1])
        try:
            workers = self._client.nthreads()
        except Exception:  # the scheduler is gone, so no worker can be reached
            workers = {}
        for each in self._running():
            each.collect(workers)
        self._show_sample()
        if not self._began and all(each.ready for each in self._generators):
            self._before, self._began = self._servers.status(5.0), True
            self._release()
        if self._end_s == float("inf") and any(each.failed for each in self._generators):
            self._stop_all()

    def _receive(self, event: list[Any]) -> None:
        number, *sample = event
        generator = self._generators[number]
        generator.ready = True
        if sample:
            generator.sample, generator.is_new = Sample(*sample), True

    def _show_sample(self) -> None:
        """Show one combined sample when each running worker has a new one."""
        samples = [each.sample for each in self._generators if each.sample is not None]
        running = self._running()
        if self._on_sample and running and samples and all(each.is_new for each in running):
            for each in self._generators:
                each.is_new = False
            self._on_sample(merge_samples(samples))

    def _stop_all(self) -> None:
        self._end_s = min(self._end_s, time.perf_counter() + END_S)
        self._release(stopped=True)

    def _release(self, stopped: bool = False) -> None:
        """Call `release` in the process of each worker that still runs its part, at once."""
        workers = [each.address for each in self._running()]
        with suppress(Exception):  # of a worker that is lost at this moment
            self._client.run(release, self._run_id, stopped, workers=workers, on_error="ignore")

    def combined(self, plan: Plan) -> Run:
        """Return the run of which the generators made the parts.

        Percentiles and throughput follow from the union of all records, and are not averages. The
        run's settings have the number of `processes`, and under `workers` the account of each.
        Calls of a lost worker are in `Run.unrecorded`.

        Raises as `load.run` does, and `RunFailed` when a worker was lost.
        """
        generators = self._generators
        of_all = [each.part for each in generators if each.part is not None]
        lost = [each for each in generators if each.lost]
        errors = [each.error for each in generators if each.error is not None]
        if not of_all:
            if self._interrupted:
                raise KeyboardInterrupt  # before the run began: there is nothing to account for
            if errors and not isinstance(errors[0], ImportError):
                raise errors[0]
            raise FleetNotReached(
                f"the workers {', '.join(self._addresses)} sent no run ({errors[:1] or 'lost'}):"
                " is the course installed there? Was one killed for its memory?"
            )
        unrecorded = sum(each.issued for each in lost)
        merged = merge([part.run for part in of_all])
        outcome = merged.outcome
        if len(of_all) < len(generators) and outcome is not Outcome.SERVER_GONE:
            outcome = Outcome.FAILED
        run = dataclasses.replace(
            merged,
            outcome=Outcome.INTERRUPTED if self._interrupted else outcome,
            # One generator cannot count the operations: it would include calls that others send
            # after its end, and their preloads.
            server=server_report(self._before, status_after(self._servers, outcome)),
            issued=merged.issued + unrecorded,
            operations_sent=merged.issued_operations + unrecorded,
            unrecorded=unrecorded,
            settings={
                **merged.settings,
                **dataclasses.asdict(plan.options),
                "workload": plan.workload.as_dict(),
                "processes": len(generators),
                "workers": [each.account() for each in generators],
            },
        )
        if run.outcome is Outcome.INTERRUPTED:
            raise RunInterrupted(run)
        if lost:
            raise RunFailed(self._lost_message(lost, run), run)
        if run.outcome in (Outcome.SERVER_GONE, Outcome.FAILED):
            kind = ServerGone if run.outcome is Outcome.SERVER_GONE else RunFailed
            texts = [part.error for part in of_all if part.error] + [*map(str, errors)]
            raise kind(
                f"{(texts or ['a worker failed'])[0]}; of all workers together: {run!r}", run
            )
        return run

    def _lost_message(self, lost: Sequence[_Generator], run: Run) -> str:
        sentences = [
            f"worker {self._generators.index(each) + 1} of {len(self._generators)}"
            f" ({each.address}) was lost: it had sent {each.issued:,} calls or more, and how they"
            " ended is unknown"
            for each in lost
        ]
        if run.server.operations is not None:
            sentences.append(
                f"the server answered {run.server.answered:,} operations in all, of which"
                f" {int(run.records['operations'].sum()):,} are recorded"
            )
        return f"{'; '.join(sentences)}; the run of the other workers: {run!r}"
