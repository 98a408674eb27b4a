"""Lesson 07: a client that waits for many replies at once, and the calls of a climb."""

import asyncio
import inspect
import random
import time
from collections.abc import Callable
from typing import Any, Final

import grpc

from kvstore.client.channel import OPTIONS
from kvstore.client.client import LATE_REPORTS_S
from kvstore.course.exercises import Verdict, controlled_time, judges, not_yet, passed
from kvstore.course.exercises.puppet import PATIENCE_S, Puppet, puppet, turns
from kvstore.course.lessons import words
from kvstore.course.stubs import noting
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

say = words("07")

# 07.ask_all -----------------------------------------------------------------------------------

SETTLE_S: Final = 0.1
"""How long the judge looks for an answer that returns before the last reply."""
EMPTY, UNKNOWN = b"empty", b"no such key"
"""A key whose value has no bytes, and one that the back end does not know."""
VALUES: Final = {**{b"key %d" % number: b"value %d" % number for number in range(20)}, EMPTY: b""}
FAILURES: Final = {
    status.name.encode(): status
    for status in grpc.StatusCode
    if status.name not in ("OK", "NOT_FOUND", "CANCELLED")
}


def _drawn_keys() -> list[list[bytes]]:
    """Draw lists of keys, from short to long: known and unknown ones, and some keys twice."""
    draw = random.Random(7)
    known = list(VALUES)
    six = [known[0], known[1], known[2], UNKNOWN, EMPTY, known[0]]
    long = [*draw.sample(known, 18), UNKNOWN, EMPTY, *draw.choices(known, k=110)]
    draw.shuffle(long)
    return [[known[3]], six, long, []]


class _Trial:
    """Calls of the answer, against a back end that holds every call."""

    def __init__(self, back_end: Puppet, stub: Any) -> None:
        self.back_end, self.stub = back_end, noting(stub, self._note)
        self.most = 0
        """The most calls that waited at the back end at once."""
        self.early = False
        """Whether the answer returned while a call waited."""
        self.calls: list[bytes] = []
        self._sent = 0

    def _note(self) -> None:
        self._sent += 1

    async def result_of(self, answer: Callable[..., Any], keys: list[bytes]) -> Any:
        """Return what the answer returns; the back end answers in an order that is drawn."""
        before, self._sent = len(self.back_end.arrived), 0
        with self.back_end.shut():
            task = asyncio.ensure_future(_result(answer, self.stub, list(keys)))
            await self._all_there(task)
            self.most = self.back_end.waiting
            if self.most == len(keys):
                order = list(range(before, before + len(keys)))
                random.Random(len(keys)).shuffle(order)
                for number in order[:-1] if keys else ():
                    self.back_end.release(number)
                    await asyncio.sleep(0.005 if len(keys) < 10 else 0)
                self.early = bool(keys) and await self._returns(task)
        try:
            return await task
        finally:
            while self.back_end.waiting:
                await asyncio.sleep(0.001)
            self.calls = [call.key for call in self.back_end.arrived[before:]]

    async def _returns(self, task: Any) -> bool:
        """Whether the answer returns a result while the last call is held: it waits for a time."""
        with controlled_time.running_ahead():
            await asyncio.to_thread(time.sleep, SETTLE_S)
            await turns()
        return task.done() and not task.cancelled() and task.exception() is None

    async def _all_there(self, task: Any) -> None:
        """Wait until the answer sends no more calls, and all that it has sent have arrived."""
        sent = -1
        while sent < self._sent:
            sent = self._sent
            await turns()
        end_s = time.perf_counter() + PATIENCE_S
        waiting = 0
        while not task.done() and waiting < sent and time.perf_counter() < end_s:
            await asyncio.sleep(0.002)
            if self.back_end.waiting > waiting:  # each that comes gives the next its time
                waiting, end_s = self.back_end.waiting, time.perf_counter() + PATIENCE_S


async def _result(answer: Callable[..., Any], stub: Any, keys: list[bytes]) -> Any:
    result = answer(stub, keys)
    return await result if inspect.isawaitable(result) else result


def _status(error: BaseException | None) -> Any:
    """Return the status of the failed call that this error is, or that led to it; else None."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            return next(filter(None, map(_status, error.exceptions)), None)
        if isinstance(error, grpc.RpcError):
            return error.code()
        error = error.__cause__
    return None


@judges("07.ask_all")
def _judge_ask_all(answer: Any) -> Verdict:
    asyncio.run(_result(answer, None, []))  # one that is still to be written shows, with no server
    with puppet(VALUES, FAILURES) as (back_end, address):
        if problem := asyncio.run(_asked(answer, back_end, address)):
            return not_yet(problem)
    return passed(say("passed_ask_all"))


async def _asked(answer: Callable[..., Any], back_end: Puppet, address: str) -> str:
    """Return what is wrong with an answer that gets several lists of keys, or ""."""
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        trial = _Trial(back_end, KeyValueServiceStub(channel))
        try:
            for keys in _drawn_keys():
                if problem := _problem(await trial.result_of(answer, keys), keys, trial):
                    return problem
            for key, status in FAILURES.items():
                try:
                    await trial.result_of(answer, [b"key 1", key, UNKNOWN])
                except BaseException as error:
                    if _status(error) is status:
                        continue
                    raise
                return say("error_swallowed", name=status.name)
        finally:
            await asyncio.sleep(LATE_REPORTS_S)  # gRPC reports the end of a call left behind
    return ""


def _problem(result: Any, keys: list[bytes], trial: _Trial) -> str:
    expected = [VALUES.get(key) for key in keys]
    if trial.early:
        return say("returned_early")
    try:
        values = list(result)
    except TypeError:
        return say("no_list", result=result)
    never_run = [value for value in values if inspect.isawaitable(value)]
    for each in never_run:
        if inspect.iscoroutine(each):
            each.close()  # nothing awaits it now, and it needs no warning
    if never_run:
        return say("not_awaited")
    if any(isinstance(value, BaseException) for value in values):
        return say("exception_in_the_list")
    if any(hasattr(value, "SerializeToString") for value in values):
        return say("reply_in_the_list")
    if len(trial.calls) != len(keys) or len(values) != len(keys):
        return say("not_one_call_each", keys=len(keys), calls=len(trial.calls), values=len(values))
    if values != expected and sorted(map(str, values)) == sorted(map(str, expected)):
        return say("order_of_replies")
    for key, value, right in zip(keys, values, expected, strict=True):
        if value != right:
            return say("another_value", key=key, right=right, value=value)
    if trial.most < min(2, len(keys)):
        return say("one_at_a_time")
    if trial.most < len(keys):
        return say("not_all_at_once", most=trial.most, keys=len(keys))
    return ""
