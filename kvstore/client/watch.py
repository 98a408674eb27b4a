"""Looking on while a strategy runs: samples, a memory ceiling, and an orderly end."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from kvstore.client.client import Client
from kvstore.client.gate import Gate
from kvstore.client.reach import Reach
from kvstore.client.schedule import Schedule
from kvstore.client.strategies import Strategy
from kvstore.measure.journal import Journal
from kvstore.measure.sampler import Sample, Sampler

DRAIN_S = 5.0
"""Seconds that calls in flight get to finish after Ctrl-C, before they are cancelled."""
DYING_S = 0.5
"""Seconds between a dying server's last answer and the end of its process."""
SETTLE_S = 10.0
"""Seconds to wait for the last records once all calls were cancelled."""

OnSample = Callable[[Sample], object]
"""Is called with each sample of a run, in the thread that asked for the run."""


class Watch:
    """Looks on while a strategy runs: samples, guards memory, and ends it in order."""

    def __init__(
        self,
        client: Client,
        sampler: Sampler,
        address: str,
        ceiling_bytes: float,
        gate: Gate | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.client = client
        self.sampler = sampler
        self.reach = Reach(client, address)
        self.outcome = "complete"
        self.error: BaseException | None = None
        self.elapsed_s = 0.0
        self._ceiling_bytes = ceiling_bytes
        self._gate = gate
        self._guards = gate is not None or not math.isinf(ceiling_bytes)
        """Whether there is something to look for, each time the schedule asks."""
        self._journal = journal
        self._began = gate is None
        """Whether the clock runs that counts: several generators start it together."""

    def admit(self) -> bool:
        """`guard` as the schedule asks it: its first draw waits at the gate, if there is one.

        By then connections stand. Where threads open theirs with the first call, they do now.
        """
        if not self._began and self._gate is not None:
            self.client.connections.stand()
            self.client.start_clock(self._gate.wait())
            self.sampler.start_over()
            self._began = True
        return self.guard()

    def guard(self) -> bool:
        """Whether to send no more. The schedule asks every few calls: memory can grow fast."""
        if self._guards and self.outcome == "complete":
            self._look_for_an_end()
        return self.outcome in ("memory ceiling", "interrupted")

    def _look_for_an_end(self) -> None:
        if self._gate is not None and self._gate.closed:
            self.outcome = "interrupted"
        elif (
            not math.isinf(self._ceiling_bytes)
            and self.sampler.largest_rss_bytes() >= self._ceiling_bytes
        ):
            self.outcome = "memory ceiling"
            self._sample(None)  # the look that found it is the highest there will be

    def run(
        self,
        strategy: Strategy,
        schedule: Schedule,
        in_flight: int,
        options: dict[str, Any],
        on_sample: OnSample | None,
        interval_s: float,
    ) -> None:
        """Run the strategy in a thread; return when it has ended, one way or another."""
        # An event, not `Thread.join`: in CPython 3.11 a join that Ctrl-C interrupts takes the
        # thread for finished, with its calls still in flight.
        ended = threading.Event()

        def work() -> None:
            try:
                strategy(self.client, schedule, in_flight, **options)
            except BaseException as error:  # raised again by the thread that started us
                self.error = error
            finally:
                ended.set()

        if self._gate is not None:
            self._gate.inside = True
        threading.Thread(target=work, name="strategy", daemon=True).start()
        try:
            self._look_on(ended, schedule, on_sample, interval_s)
        except KeyboardInterrupt:
            self.outcome = "interrupted"
        except BaseException:  # on_sample failed: end the calls before anyone hears of it
            schedule.stop()
            self._cancel(ended)
            raise
        schedule.stop()
        self._end(ended)
        self._judge()
        self.elapsed_s = self.client.now_s()
        self._sample(None)

    def _look_on(
        self,
        ended: threading.Event,
        schedule: Schedule,
        on_sample: OnSample | None,
        interval_s: float,
    ) -> None:
        # Memory is looked at more often than samples are shown: an unlimited client
        # can take hundreds of megabytes in a second.
        step_s = interval_s if math.isinf(self._ceiling_bytes) else min(interval_s, 0.02)
        shown_s = -math.inf
        while not ended.is_set() and self.outcome == "complete":
            now_s = self.client.now_s()
            if self._began and now_s - shown_s >= interval_s:
                shown_s = now_s
                self._sample(on_sample)
            self.guard()
            if self.sampler.server_gone() or self.reach.lost():
                self.outcome = "server gone"
            if self.outcome == "complete":
                ended.wait(step_s)
        schedule.stop()
        if ended.is_set():
            self._sample(on_sample)

    def _sample(self, on_sample: OnSample | None) -> None:
        if self._journal is not None:
            self._journal.keep(self.client.recorder)
        answered = len(self.client.recorder)
        sample = self.sampler.look(self.client.now_s(), self.client.issued, answered)
        if on_sample is not None:
            on_sample(sample)

    def _end(self, ended: threading.Event) -> None:
        """Let calls in flight finish after Ctrl-C; cancel them at a ceiling or a dead server."""
        if self.outcome == "interrupted":
            try:
                ended.wait(DRAIN_S)
            except KeyboardInterrupt:
                pass  # a second one: do not wait for answers
        # A strategy that failed, or returned too early, leaves calls behind it: a sender that
        # was between two calls when the channel closed is one. They get an end as well.
        if not ended.is_set() or self.client.in_flight:
            self._cancel(ended)

    def _judge(self) -> None:
        """Tell a server that has gone, and a strategy that failed, from a run that is complete."""
        if self.outcome != "complete":
            return
        trouble = _disconnected(self.error) or self.reach.unavailable_at_last()
        end_s = time.perf_counter() + (DYING_S if trouble else 0.0)
        while not (gone := self._server_gone(trouble)) and time.perf_counter() < end_s:
            time.sleep(0.01)
        if gone:
            self.outcome = "server gone"
        elif self.error is not None:
            self.outcome = "failed"

    def _server_gone(self, trouble: bool) -> bool:
        """By its process where that can be seen, else by its address once calls found nobody."""
        if self.sampler.watches_server:
            return self.sampler.server_gone()
        return trouble and bool(self.reach.silent())

    def _cancel(self, ended: threading.Event) -> None:
        closing = threading.Thread(target=self.client.cancel, daemon=True)
        closing.start()
        end_s = time.perf_counter() + SETTLE_S
        while time.perf_counter() < end_s and not (ended.is_set() and not self.client.in_flight):
            try:
                if ended.wait(0.1):
                    time.sleep(0.01)  # the callbacks of the last calls are still at work
            except KeyboardInterrupt:
                pass  # the end is under way and bounded
        if not ended.is_set():
            raise RuntimeError(
                f"{self.client.in_flight} calls did not end within {SETTLE_S:g} s of being"
                " cancelled: restart the kernel"
            )


def _disconnected(error: BaseException | None) -> bool:
    """Whether a strategy failed because its connection did, in one of its tasks or in itself."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(ConnectionError) is not None
    return isinstance(error, ConnectionError)
