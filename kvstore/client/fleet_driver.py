"""Make one run with all workers of a fleet, and combine their runs into one."""

import dataclasses
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple

from kvstore.client.channel import Target, Tls, is_loopback, target_of
from kvstore.client.errors import FleetNotReached, RunFailed, RunInterrupted, ServerGone
from kvstore.client.fleet import (
    READY,
    STRANDED_S,
    Assignment,
    Connected,
    Fleet,
    Place,
    Report,
    generate,
    open_gate,
    read_clock,
    stop,
)
from kvstore.client.monitor import OnSample, connected_servers, server_report, status_after
from kvstore.client.options import RunOptions, check_due_times, parts
from kvstore.client.strategies import Strategy, supports
from kvstore.client.workload import MethodCalls, Workload
from kvstore.measure.parts import merge, merge_samples
from kvstore.measure.recorder import Sample
from kvstore.measure.run import Outcome, Run
from kvstore.subprocesses import shielded

# ---- combined run -------------------------------------------------------------------------------
# Combine the runs of several generators into one, with an account of each.


LOST = "lost"
"""The outcome of a generator that did not send its run."""


class ServerCount:
    """The server's counts while all generators run.

    A single generator cannot measure them: it would include calls that other generators send after
    its end, and their preloads.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._open = ExitStack()

    def __enter__(self) -> "ServerCount":
        self._servers = self._open.enter_context(connected_servers(self._target))
        self._before = self._servers.before
        return self

    def begin(self) -> None:
        """Start counting: every generator is ready, and none has sent a call."""
        self._before = self._servers.status(5.0)

    def report(self, outcome: Outcome) -> dict[str, Any]:
        """Return the report of the server, with the operations it answered since `begin`."""
        return server_report(self._before, status_after(self._servers, outcome))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._open.close()


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


def combine(
    generators: Sequence[Generator],
    count: ServerCount,
    settings: Mapping[str, Any],
    *,
    interrupted: bool,
) -> Run:
    """Return the run of which these generators made the parts.

    Percentiles and throughput follow from the union of all records, and are not averages. The
    run's settings have the number of `processes`, and under `workers` the account of each. Calls of
    a lost worker are in `Run.unrecorded`. `settings` are those of the whole run.

    Raises as `load.run` does, and `RunFailed` when a worker was lost.
    """
    runs = [each.run for each in generators if each.run is not None]
    lost = [each for each in generators if each.lost]
    if not runs:
        if interrupted:
            raise KeyboardInterrupt  # before the run began: there is nothing to account for
        raise _start_error(generators)
    unrecorded = sum(each.issued for each in lost)
    merged = merge(runs)
    outcome = merged.outcome
    if len(runs) < len(generators) and outcome is not Outcome.SERVER_GONE:
        outcome = Outcome.FAILED
    merged = dataclasses.replace(
        merged,
        outcome=Outcome.INTERRUPTED if interrupted else outcome,
        server=count.report(outcome),
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
    """Return why the run could not begin, with the name of the worker if there are several."""
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
    best = Clock(0.0, float("inf"))
    for _ in range(rounds):
        before_s = time.perf_counter()
        there_s = read()
        after_s = time.perf_counter()
        half_s = (after_s - before_s) / 2
        if half_s < best.error_s:
            best = Clock(there_s - before_s - half_s, half_s)
    return best


# ---- driver -------------------------------------------------------------------------------------


LOOK_S = 0.1
LEAD_S = 0.1
"""Seconds from the message that opens the gates to their opening, plus the time of the message."""
SILENT_S = 20.0
"""Seconds without a sample after which a worker counts as lost: its machine may have stopped."""
END_S = 30.0
"""Seconds after a request to stop in which the workers may send their runs."""


def run_on(
    fleet: Fleet,
    strategy: Strategy,
    server: object,
    workload: Workload | MethodCalls,
    options: RunOptions,
    on_sample: OnSample | None = None,
) -> Run:
    """Make a run with every worker of the fleet, as `load.run` does with this process.

    Raises:
        ValueError: an option makes no sense, or is too small to be divided.
        FleetNotReached: the fleet cannot be used.
        RunFailed: also when a worker was lost; `.run` has the calls of all others, and the calls
            of the lost one in `Run.unrecorded`.
        and whatever `load.run` raises.
    """
    check_due_times(strategy, options.paced)
    if options.joins:
        raise ValueError("callers join one by one in one process only: leave out the fleet")
    target = target_of(server)
    options.check(strategy, workload, shards=len(target.shards))
    with fleet.connected() as connected, ServerCount(target) as count:
        if target.tls is not None:
            refuse_to_publish(target.tls, str(connected.client.scheduler.address))
        shares = parts(len(connected.places))
        options_of = [_share(options, part, limited=supports(strategy).limit) for part in shares]
        run_id = f"kvstore-{secrets.token_hex(6)}"
        driver = _Driver(
            connected,
            [
                Assignment(run_id, part, strategy, target, workload, own)
                for part, own in zip(shares, options_of, strict=True)
            ],
            count,
            on_sample,
        )
        driver.drive()
        whole_settings = {
            "workload": workload.as_dict(),
            "calls": options.calls,
            "in_flight": options.in_flight,
            "rate_per_s": options.rate_per_s,
        }
        return combine(driver.generators, count, whole_settings, interrupted=driver.interrupted)


def refuse_to_publish(tls: Tls, scheduler: str) -> None:
    """Raise `ValueError` if the token of the run would go over a network in plain text."""
    scheme, _, place = scheduler.partition("://")
    if (tls.token or tls.key) and scheme != "tls" and not is_loopback(place.rpartition(":")[0]):
        raise ValueError(
            f"the workers would get the server's token in plain text over {scheduler}: run Dask"
            " with TLS as README.md says, and give the address of its scheduler as tls://HOST:PORT"
        )


def _share(options: RunOptions, part: Any, *, limited: bool) -> RunOptions:
    """Return the options of one part. Raises `ValueError` if a count is too small."""
    changes: dict[str, Any] = {}
    for name in ("in_flight", "calls"):
        value = getattr(options, name)
        if value is None or (name == "in_flight" and not limited):
            continue
        if value < part.of:
            raise ValueError(
                f"{part.of} workers share {name}, so it must be {part.of} or more, got {value!r}"
            )
        changes[name] = part.count(value)
    return replace(options, **changes)


class _Driver:
    """The workers of one run, as seen from the process that started it."""

    def __init__(
        self,
        connected: Connected,
        assignments: Sequence[Assignment],
        count: ServerCount,
        on_sample: OnSample | None,
    ) -> None:
        self._client, places = connected
        self._assignments = assignments
        self._run_id = assignments[0].run_id
        self._count = count
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
                    assignment,
                    workers=[generator.place.address],
                    allow_other_workers=False,
                    pure=False,
                    retries=0,
                    key=f"{self._run_id}-{assignment.part.number}",
                )
                for assignment, generator in zip(self._assignments, self.generators, strict=True)
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
            silent_s = time.perf_counter() - generator.heard_s
            if future.status == "finished":
                generator.report = self._report(future)
                generator.lost = generator.report is None
            elif future.status == "error":
                error = future.exception(timeout=END_S)
                generator.lost = type(error).__name__ == "KilledWorker"
                generator.report = None if generator.lost else Report(None, error)
            else:
                most_s = SILENT_S if self._began else STRANDED_S
                is_there = generator.place.address in there and future.status == "pending"
                generator.lost = not is_there or silent_s > most_s

    def _report(self, future: Any) -> Report | None:
        try:
            report: Report = future.result(timeout=END_S)
        except Exception:  # the worker was lost while it sent its run
            return None
        return report

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
        for each in self.generators:
            each.clock = self._clock_of(each.place)
        self._count.begin()
        self._began = True
        message_s = 4 * sum(each.clock.error_s for each in self.generators)
        opens_s = time.perf_counter() + LEAD_S + message_s
        self._tell(
            open_gate,
            {each.place.address: each.clock.there(opens_s) for each in self.generators},
        )
        for each in self.generators:
            each.heard_s = time.perf_counter()

    def _clock_of(self, place: Place) -> Clock:
        def read() -> float:
            there_s = self._client.run(read_clock, workers=[place.address])
            return float(there_s[place.address])

        return compare(read)

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
