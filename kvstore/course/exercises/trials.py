"""A learner's own bounded sender, tried on a few operations and judged by its calls."""

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvstore.client.client import Client
from kvstore.client.workload import Operation
from kvstore.course.exercises.base import Verdict, not_yet, passed
from kvstore.measure.audit import in_flight_steps

WAVES = 3
"""So many times nothing at all was in flight midway: then calls are sent in waves."""
STUCK_S = 1.0
"""An answer that neither asks, sends nor hears anything for so long is stuck."""


class _Asked(Iterator[Operation]):
    """Hands out operations, and notes at each how many calls were in flight just then."""

    def __init__(self, client: Client, operations: Sequence[Operation]) -> None:
        self.in_flight: list[int] = []
        self.stopped = False
        self._client = client
        self._operations = iter(operations)
        self._lock = threading.Lock()

    def __next__(self) -> Operation:
        with self._lock:
            if self.stopped:
                raise StopIteration
            operation = next(self._operations)
            self.in_flight.append(self._client.in_flight)
        return operation


@dataclass(frozen=True)
class Trial:
    """What one answer did with its operations, read off the calls."""

    stuck: bool
    asked: int
    sent: int
    left: int
    """Calls in flight when the answer returned."""
    failed: int
    most: int
    """The most calls in flight at any moment."""
    most_when_asking: int
    idle: int
    """How often it asked with nothing in flight, after the first calls."""


def tried(
    answer: Callable[..., Any], client: Client, operations: Sequence[Operation], limit: int
) -> Trial:
    """Let the answer send, in a thread that can be left behind; raise what it raises."""
    asked = _Asked(client, operations)
    left: list[int] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answer(client, asked, limit)
            left.append(client.in_flight)
        except BaseException as error:  # raised again below, where the judge hears it
            errors.append(error)

    worker = threading.Thread(target=work, name="answer", daemon=True)
    worker.start()
    try:
        stuck = _is_stuck(worker, lambda: (len(asked.in_flight), client.issued, client.in_flight))
    finally:
        asked.stopped = True
        if worker.is_alive():
            client.cancel()
            _end(worker)
    if errors and not stuck:
        raise errors[0]
    _settle(client)
    calls = client.recorder.array()
    level = in_flight_steps(calls["sent_s"], calls["done_s"])[1]
    return Trial(
        stuck=stuck,
        asked=len(asked.in_flight),
        sent=client.issued,
        left=left[0] if left else 0,
        failed=int(np.count_nonzero(calls["status"])),
        most=int(level.max(initial=0)),
        most_when_asking=max(asked.in_flight, default=0),
        idle=asked.in_flight[limit:].count(0),
    )


def _is_stuck(worker: threading.Thread, progress: Callable[[], object]) -> bool:
    last, since_s = progress(), time.perf_counter()
    while worker.is_alive():
        worker.join(0.01)
        now = progress()
        if now != last:
            last, since_s = now, time.perf_counter()
        elif time.perf_counter() - since_s > STUCK_S:
            return worker.is_alive()
    return False


def _end(worker: threading.Thread) -> None:
    """Make a loop that never ends end; a wait that never ends stays behind, and costs nothing."""
    worker.join(0.1)  # with its calls cancelled it may come to an end by itself
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(worker.ident or 0), ctypes.py_object(SystemExit)
    )
    worker.join(0.1)


def _settle(client: Client) -> None:
    """Wait for calls that the answer left behind, so that each has its record."""
    end_s = time.perf_counter() + 2.0
    while client.in_flight and time.perf_counter() < end_s:
        time.sleep(0.002)


def verdict(trial: Trial, count: int, limit: int) -> Verdict:
    """What is wrong with a sender that was to send `count` operations within the limit."""
    if trial.stuck:
        return not_yet(_why_stuck(trial, count, limit))
    if trial.left:
        return not_yet(
            f"it returned with {trial.left} calls still in flight. Who starts calls waits for "
            "their answers: `client.wait_until_idle()`."
        )
    if trial.sent != count:
        return not_yet(
            f"{count} operations were to be sent, and {trial.sent} were: send each one "
            "that `schedule` hands out, once."
        )
    if trial.most > limit + 1:
        return not_yet(
            f"the limit was {limit}, and {trial.most} calls were in flight. A place is free again "
            "when the call has been answered, not when it has been sent."
        )
    if trial.most > limit and trial.most_when_asking > limit:
        return not_yet(
            f"the limit was {limit}, and {trial.most} calls were in flight: with how many "
            "places does your semaphore begin?"
        )
    if trial.most > limit:
        return not_yet(
            f"the limit was {limit}, and {trial.most} calls were in flight: the call is sent "
            "first and its place taken after. Take the place, then send."
        )
    if trial.most == 1:
        return not_yet(
            "there was never more than one call in flight: `client.call` waits for the answer, "
            "`client.start` does not."
        )
    if trial.idle >= WAVES:
        return not_yet(
            f"you send in waves: {trial.idle} times nothing at all was in flight. One answer "
            "should make room for one call, at once."
        )
    if trial.most < limit:
        return not_yet(
            f"the limit was {limit}, and there were never more than {trial.most} calls in flight: "
            "a place stays empty, and an empty place earns nothing."
        )
    return passed(
        f"{count} operations sent, {trial.failed} of them refused, never more than {limit} in "
        "flight, and each answer made room for the next call."
    )


def _why_stuck(trial: Trial, count: int, limit: int) -> str:
    if trial.sent == count:
        return f"all {count} calls are answered, and it does not return: what ends its loop?"
    if trial.failed >= limit:
        return (
            f"it stands still after {trial.sent} calls, when {limit} of them had been answered "
            "NOT_FOUND: a call that fails must give its place back too."
        )
    if trial.sent <= limit + 1:
        return (
            f"it stands still after {trial.sent} calls, all answered: every place is taken, and "
            "none is ever given back. Who calls `release`, and when?"
        )
    return f"it stands still after {trial.sent} calls: for what does it wait?"
