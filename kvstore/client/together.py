"""The one run that several generators made, and an account of each of them."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from kvstore.client.channel import Target
from kvstore.client.generators import Generator, Generators, not_begun
from kvstore.client.load import RunFailed, RunInterrupted, ServerGone
from kvstore.client.servers import reached
from kvstore.client.telling import status_after, told
from kvstore.measure.merge import merge
from kvstore.measure.run import NO_CPU, Run

LOST = "lost"
"""How the account names the end of a generator that left no run behind."""


class ServerCount:
    """What the server counts while all generators run: none of them alone could tell.

    Each would count what the others still send when it has ended, or preload when it begins.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._open = ExitStack()

    def __enter__(self) -> "ServerCount":
        self._servers = self._open.enter_context(reached(self._target))
        self._before = self._servers.before
        return self

    def begin(self) -> None:
        """Count from here on: every generator is ready, and none has sent a call."""
        self._before = self._servers.status(5.0)

    def told(self, outcome: str) -> dict[str, Any]:
        """What the server says of itself, with the operations it answered since `begin`."""
        return told(self._before, status_after(self._servers, outcome))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._open.close()


def together(
    generators: Generators,
    runs: Sequence[Run | None],
    kept: Sequence[npt.NDArray[np.void]],
    count: ServerCount,
    asked: Mapping[str, Any],
) -> Run:
    """The run that these are parts of, None standing for a generator that left none.

    Of such a one there is what its journal `kept`. The run's settings name the `processes`, and
    under `generators` how each ended, what it sent and what is recorded of it. `asked` are the
    settings of the whole.

    Raises as `load.run` does. When a generator was killed, `RunFailed` says how many calls it had
    sent at its last sign of life, and how many of them are recorded. Should all be killed, nobody
    is left to tell how the run was made, and the records are lost.
    """
    there = [run for run in runs if run is not None]
    if not there or not generators.began:
        if generators.interrupted:
            raise KeyboardInterrupt  # before the run began: there is nothing to account for
        first = generators.failed_first or generators.all[0]
        raise not_begun(first.said, first.child.popen.returncode)
    merged = merge(
        [
            run or _left(there[0], records)
            for run, records in zip(runs, kept, strict=True)
            if run is not None or len(records)
        ]
    )
    lost = [each for each, run in zip(generators.all, runs, strict=True) if run is None]
    outcome = "failed" if lost and merged.outcome != "server gone" else merged.outcome
    merged = dataclasses.replace(
        merged,
        outcome="interrupted" if generators.interrupted else outcome,
        server=count.told(outcome),
        settings={
            **merged.settings,
            **asked,
            "processes": len(runs),
            "generators": [
                _account(each, run, len(records))
                for each, run, records in zip(generators.all, runs, kept, strict=True)
            ],
        },
    )
    if merged.outcome == "interrupted":
        raise RunInterrupted(merged)
    if lost:
        raise RunFailed(_without(lost, generators, merged), merged)
    if merged.outcome in ("server gone", "failed"):
        kind = ServerGone if merged.outcome == "server gone" else RunFailed
        said = (generators.failed_first or generators.all[0]).said
        raise kind(f"{said}; of all {len(runs)} generators together: {merged!r}", merged)
    return merged


def _left(other: Run, records: npt.NDArray[np.void]) -> Run:
    """What is left of a generator that was killed, in the words of another of the same run.

    The other has the same limit in flight, or one call more or less. Calls that were sent and have
    no record are in the account alone: nobody knows when they were sent.
    """
    return dataclasses.replace(
        other,
        records=records,
        issued=len(records),
        operations_sent=None,
        window_s=float(records["done_s"].max()),
        outcome="failed",
        samples=other.samples.iloc[:0],
        client_cpu=NO_CPU,
        connections=0,
        connect_s=(),
    )


def _account(generator: Generator, run: Run | None, kept: int) -> dict[str, Any]:
    """How one generator ended, the calls it sent (at least), and those that are recorded."""
    if run is not None:
        return {"outcome": run.outcome, "issued": run.issued, "recorded": len(run.records)}
    issued = 0 if generator.sample is None else int(generator.sample.issued)
    return {"outcome": LOST, "issued": max(issued, kept), "recorded": kept}


def _without(lost: Sequence[Generator], generators: Generators, run: Run) -> str:
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
    return f"{'; '.join(words)}; what is left: {run!r}"
