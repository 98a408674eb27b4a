"""Combine the runs of several generators into one, with an account of each."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from kvstore.client.channel import Target
from kvstore.client.errors import RunFailed, RunInterrupted, ServerGone
from kvstore.client.fleet.generators import Generator, Generators, start_error
from kvstore.client.server_report import connected_servers, server_report, status_after
from kvstore.measure.merge import merge
from kvstore.measure.outcome import Outcome
from kvstore.measure.run import Run
from kvstore.measure.sampler import NO_CPU

KILLED = "lost"
"""The outcome of a generator that ended without saving its run."""


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


def combine(
    generators: Generators,
    runs: Sequence[Run | None],
    kept: Sequence[npt.NDArray[np.void]],
    count: ServerCount,
    settings: Mapping[str, Any],
) -> Run:
    """Return the run of which these are parts; None stands for a generator that saved no run.

    Of such a generator, the records in its journal are taken (`kept`). The run's settings have the
    number of `processes` and, under `generators`, how each ended, what it sent and what is
    recorded. `settings` are those of the whole run.

    Raises as `load.run` does. When a generator was killed, `RunFailed` says how many calls it had
    sent at its last sample, and how many of them are recorded. If all were killed, the settings of
    the run are unknown, and its records are lost.
    """
    there = [run for run in runs if run is not None]
    if not there or not generators.began:
        if generators.interrupted:
            raise KeyboardInterrupt  # before the run began: there is nothing to account for
        first = generators.failed_first or generators.all[0]
        raise start_error(first.error_text, first.child.popen.returncode)
    merged = merge(
        [
            run or _left(there[0], records)
            for run, records in zip(runs, kept, strict=True)
            if run is not None or len(records)
        ]
    )
    lost = [each for each, run in zip(generators.all, runs, strict=True) if run is None]
    outcome = merged.outcome
    if lost and outcome is not Outcome.SERVER_GONE:
        outcome = Outcome.FAILED
    merged = dataclasses.replace(
        merged,
        outcome=Outcome.INTERRUPTED if generators.interrupted else outcome,
        server=count.report(outcome),
        settings={
            **merged.settings,
            **settings,
            "processes": len(runs),
            "generators": [
                _account(each, run, len(records))
                for each, run, records in zip(generators.all, runs, kept, strict=True)
            ],
        },
    )
    if merged.outcome is Outcome.INTERRUPTED:
        raise RunInterrupted(merged)
    if lost:
        raise RunFailed(_killed_message(lost, generators, merged), merged)
    if merged.outcome in (Outcome.SERVER_GONE, Outcome.FAILED):
        kind = ServerGone if merged.outcome is Outcome.SERVER_GONE else RunFailed
        text = (generators.failed_first or generators.all[0]).error_text
        raise kind(f"{text}; of all {len(runs)} generators together: {merged!r}", merged)
    return merged


def _left(other: Run, records: npt.NDArray[np.void]) -> Run:
    """Return the run of a killed generator, with the settings of another generator.

    The other one has the same limit in flight, or one call more or less. Calls without a record are
    only in the account, because the time at which they were sent is unknown.
    """
    return dataclasses.replace(
        other,
        records=records,
        issued=len(records),
        operations_sent=None,
        window_s=float(records["done_s"].max()),
        outcome=Outcome.FAILED,
        samples=other.samples.iloc[:0],
        client_cpu=NO_CPU,
        connections=0,
        connect_s=(),
    )


def _account(generator: Generator, run: Run | None, kept: int) -> dict[str, Any]:
    """Return how one generator ended, and how many calls it sent (at least) and recorded."""
    if run is not None:
        return {"outcome": run.outcome, "issued": run.issued, "recorded": len(run.records)}
    issued = 0 if generator.sample is None else int(generator.sample.issued)
    return {"outcome": KILLED, "issued": max(issued, kept), "recorded": kept}


def _killed_message(lost: Sequence[Generator], generators: Generators, run: Run) -> str:
    words = []
    for each, account in zip(generators.all, run.settings["generators"], strict=True):
        if each in lost:
            elapsed_s = 0.0 if each.sample is None else each.sample.elapsed_s
            words.append(
                f"generator {generators.all.index(each) + 1} of {len(generators.all)} ended with"
                f" exit status {each.child.popen.returncode}: at {elapsed_s:.1f} s it had sent"
                f" {account['issued']:,} calls, and {account['recorded']:,} are recorded"
            )
    counted = run.server["operations"]
    if counted is not None:
        words.append(
            f"the server answered {sum(counted.values()):,} operations in all, of which"
            f" {int(run.records['operations'].sum()):,} are recorded"
        )
    return f"{'; '.join(words)}; the run so far: {run!r}"
