"""Combine the runs of several generators into one, with an account of each."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from kvstore.client.channel import Target
from kvstore.client.errors import FleetNotReached, RunFailed, RunInterrupted, ServerGone
from kvstore.client.fleet.clock import Clock
from kvstore.client.fleet.cluster import Place
from kvstore.client.fleet.worker import Report
from kvstore.client.server_report import connected_servers, server_report, status_after
from kvstore.measure.merge import merge
from kvstore.measure.outcome import Outcome
from kvstore.measure.run import Run
from kvstore.measure.sampler import Sample

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
