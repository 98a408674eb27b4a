"""The judge of a run with a fault: its status, its message, its accounts, and what it leaves."""

import contextlib
import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

import grpc
import numpy as np
from long import answers, network, processes  # noqa: F401 - they fill the table
from long.left import nothing_left
from long.table import (
    DEADLINE_S,
    ENDS,
    QUICK,
    SMALL,
    Expected,
    Fault,
    Scene,
    nothing,
)

from kvstore.client import channel, load, monitor, strategies
from kvstore.client.errors import RunFailed, RunInterrupted, ServerNotReached
from kvstore.client.strategies import STRATEGIES, Strategy, supports
from kvstore.measure import Run, accounts, audit
from kvstore.measure.run import Outcome
from kvstore.protocol import STATUSES
from kvstore.server import Server, ServerDidNotStart, serving

RUN_S = 0.4
CONNECT_S = 1.0
MACHINE_S = 20.0
"""What a busy machine may add: the tests hold that nothing hangs, not a speed."""

TOO_SOON = " before anything happened"
TAKES_S = 0.1
"""What happens to a run may take this long until the run notices."""
SECOND_S = 5.0
"""Duration of a second run, where the first one ended before the fault."""
COUNTED_S = 10.0
"""A server has to answer again within this time after a fault."""


class Way(NamedTuple):
    """A strategy with its options, under a name."""

    name: str
    strategy: Strategy
    options: dict[str, Any]


def ways() -> list[Way]:
    """Return every strategy, and the one that supports it with batches."""
    found = [
        Way(each.__name__, each, {"rate_per_s": 200.0} if each is strategies.futures else {})
        for each in STRATEGIES
    ]
    return [*found, Way("batches", strategies.pipelined, {"batch": 5})]


@contextmanager
def shared_servers() -> Iterator[tuple[Server, Server]]:
    """Yield a server with threads and one on asyncio that the faults share."""
    with _impatient(), serving(**QUICK) as threads, serving(**QUICK, use_asyncio=True) as aio:
        load.run(strategies.bounded, threads, SMALL, calls=5)  # gRPC starts threads of its own
        load.run(strategies.tasks, aio, SMALL, calls=5)
        yield threads, aio


@contextmanager
def _impatient() -> Iterator[None]:
    """Wait less for a server: one that does not answer in the proof never will."""
    with contextlib.ExitStack() as patches:
        for name, seconds in (
            ("monitor.ANSWER_S", 1.0),
            ("channel.CONNECT_S", CONNECT_S),
            ("connections.CONNECT_S", CONNECT_S),
            ("channel.HANDSHAKE_S", CONNECT_S),
        ):
            patches.enter_context(mock.patch(f"kvstore.client.{name}", seconds))
        yield


def judge(fault: Fault, way: Way, shared: Server) -> tuple[list[str], int]:
    """Make one run with the fault; return what was not as expected, and the operations sent."""
    wrong: list[str] = []
    with nothing_left(wrong):
        found, came = _once(fault, way, shared)
        if came.outcome.endswith(TOO_SOON):  # a busy machine
            found, came = _once(fault, way, shared, duration_s=SECOND_S)
        elif found and _late(came):
            found, came = _once(fault, way, shared, deadline_s=SECOND_S)
        wrong += found
    return wrong, came.run.issued_operations if came.run is not None else 0


def _late(came: "Came") -> bool:
    """Whether calls, or a stream, of the run reached their deadline, as on a busy machine."""
    return came.run is not None and (
        "DEADLINE_EXCEEDED" in came.run.outcomes() or "no reply within the deadline" in came.said
    )


def _once(fault: Fault, way: Way, shared: Server, **options: Any) -> tuple[list[str], "Came"]:
    """Set the stage and make one run; `options` replace those of the scene."""
    expected = (fault.stream if supports(way.strategy).streams else None) or fault.unary
    with contextlib.ExitStack() as stack:
        try:
            scene = stack.enter_context(fault.scene(shared))
        except ServerDidNotStart as error:
            came = Came(None, type(error).__name__, str(error), 0.0)
            return list(_said(came, expected)), came
        scene = replace(scene, options={**scene.options, **options})
        before = counted(scene.server)
        came = _run(scene, way)
        wrong = [*_said(came, expected), *_in_time(came, scene)]
        if came.run is not None:
            wrong += _accounted(came.run, before, counted(scene.server))
    return wrong, came


class Came(NamedTuple):
    """What came of a run."""

    run: Run | None
    outcome: str
    said: str
    took_s: float
    """Seconds from the start of the run, or from what happened to it, until it ended."""


def _run(scene: Scene, way: Way) -> Came:
    began_s = time.perf_counter()
    happened_s: list[float] = []
    left_s: list[float] = []
    """How long the run still sends when it happens."""

    def on_sample(sample: Any) -> None:
        if sample.answered >= 5 and not happened_s:
            happened_s.append(time.perf_counter())
            left_s.append((options["duration_s"] or math.inf) - sample.elapsed_s)
            scene.happens()

    options = {"in_flight": 4, "duration_s": RUN_S, "deadline_s": DEADLINE_S, **way.options}
    options |= {"sample_interval_s": 0.02, **scene.options}
    run, outcome, said = None, "", ""
    try:
        run = load.run(way.strategy, scene.target, scene.workload, on_sample=on_sample, **options)
    except (RunFailed, RunInterrupted) as ended:
        run, said = ended.run, str(ended)
    except Exception as error:
        outcome, said = type(error).__name__, str(error)
    ended_s = time.perf_counter()
    if run is not None:
        outcome, said = str(run.outcome), f"{said} {run!r}"
        happened = bool(happened_s) and (
            run.outcome != Outcome.COMPLETE or min(left_s[0], ended_s - happened_s[0]) > TAKES_S
        )
        if scene.happens is not nothing and not happened:
            outcome += TOO_SOON
    early = options["duration_s"] is not None and options["duration_s"] > 10
    since_s = happened_s[0] if early and happened_s else began_s
    return Came(run, outcome, said, ended_s - since_s)


def _said(came: Came, expected: Expected) -> Iterator[str]:
    """Yield what is wrong with the outcome, the statuses and the message."""
    if came.outcome not in expected.outcome.split("|"):
        yield f"expected the outcome {expected.outcome}, got {came.outcome}: {came.said}"
    if not re.search(expected.says, came.said):
        yield f"expected a message with {expected.says!r}, got {came.said!r}"
    if came.run is None:
        return
    outcomes = came.run.outcomes()
    shows = set(filter(None, expected.shows.split("|")))
    allowed = ENDS | shows | set(expected.may.split("|"))
    if odd := set(outcomes) - allowed:
        yield f"expected no {', '.join(sorted(odd))}, got {outcomes}"
    between_calls = came.outcome == Outcome.SERVER_GONE  # the server may end while none is open
    if shows and not shows & set(outcomes) and not between_calls:
        yield f"expected {expected.shows}, got {outcomes}"


def _in_time(came: Came, scene: Scene) -> Iterator[str]:
    """Yield a run that lasted longer than its time, its deadline and `MACHINE_S`."""
    duration_s = scene.options.get("duration_s", RUN_S)
    planned_s = duration_s if duration_s and duration_s < 10 else 0.0
    connect_s = 2 * CONNECT_S + monitor.ANSWER_S + monitor.UNREACHED_S + monitor.DYING_S
    limit_s = (
        planned_s
        + scene.grace_s
        + scene.options.get("deadline_s", DEADLINE_S)
        + connect_s
        + MACHINE_S
    )
    if came.took_s > limit_s:
        yield f"it took {came.took_s:.1f} s, more than {limit_s:.1f} s"


def _accounted(run: Run, before: int | None, after: int | None) -> Iterator[str]:
    """Yield what is wrong with the counts of the client, and with those of the server."""
    if not audit(run).holds:
        yield repr(audit(run))
    records = run.records
    ended = np.isin(records["status"], [STATUSES.index(name) for name in ENDS])
    known = int(records["operations"][ended].sum())
    known += int(records["ok_operations"][~ended].sum())
    if (
        before is not None
        and after is not None
        and not known <= after - before <= run.issued_operations
    ):
        yield (
            f"the server counted {after - before} operations, not from {known} answered to"
            f" {run.issued_operations} sent: {accounts(run)!r}"
        )


def counted(server: Server | None) -> int | None:
    """Return the operations that a server has answered by its own count; wait until it answers."""
    if server is None:
        return None
    target, end_s = channel.target_of(server), time.perf_counter() + COUNTED_S
    with grpc.insecure_channel(server.address, options=channel.OPTIONS) as connection:
        while True:
            try:
                status = channel.server_status(connection, target, COUNTED_S, wait_for_ready=True)
                return int(sum(status.operations.values()))
            except ServerNotReached:  # it has as many calls as it accepts, or was resumed just now
                if time.perf_counter() > end_s:
                    raise
                time.sleep(0.05)
