"""Make one run with all workers of a fleet: common start, samples, an end in order."""

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

from kvstore.client.channel import Tls, is_loopback, target_of
from kvstore.client.fleet import clock, worker
from kvstore.client.fleet.clock import Clock
from kvstore.client.fleet.cluster import Connected, Fleet, Place
from kvstore.client.fleet.combined_run import Generator, ServerCount, combine
from kvstore.client.fleet.parts import parts
from kvstore.client.fleet.worker import READY, Assignment, Report
from kvstore.client.method_calls import MethodCalls
from kvstore.client.monitor import OnSample
from kvstore.client.options import RunOptions, check_due_times
from kvstore.client.strategies import Strategy, supports
from kvstore.client.workload import Workload
from kvstore.measure.merge import merge_samples
from kvstore.measure.run import Run
from kvstore.measure.sampler import Sample

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
    check_due_times(strategy, options.rate_per_s is not None)
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
            " with TLS, and give the address of its scheduler as tls://HOST:PORT"
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
                    worker.generate,
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
            with suppress(Exception):
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
                most_s = SILENT_S if self._began else worker.STRANDED_S
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
            worker.open_gate,
            {each.place.address: each.clock.there(opens_s) for each in self.generators},
        )
        for each in self.generators:
            each.heard_s = time.perf_counter()

    def _clock_of(self, place: Place) -> Clock:
        def read() -> float:
            there_s = self._client.run(worker.read_clock, workers=[place.address])
            return float(there_s[place.address])

        return clock.compare(read)

    def _stop_if_one_failed(self) -> None:
        if self._end_s == float("inf") and any(each.failed for each in self.generators):
            self._stop_all()

    def _stop_all(self) -> None:
        self._end_s = min(self._end_s, time.perf_counter() + END_S)
        self._tell(worker.stop)

    def _tell(self, message: Any, *arguments: Any) -> None:
        """Call a function in the process of each worker that still runs its part."""
        there = [each.place.address for each in self._running()]
        with suppress(Exception):  # of a worker that is lost at this moment
            self._client.run(message, self._run_id, *arguments, workers=there, on_error="ignore")
