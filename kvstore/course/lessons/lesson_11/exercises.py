"""The hedged read of lesson 11, judged by the calls that two replicas get.

The replicas hold their calls until the judge releases one. A delay is either over soon or not
during the check, so no judgement depends on the speed of the machine.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import grpc

from kvstore.client.channel import OPTIONS
from kvstore.course.exercises import (
    NOT_ATTEMPTED,
    StubReached,
    Verdict,
    judges,
    not_yet,
    passed,
)
from kvstore.course.exercises.puppet import Puppet, puppet, turns, wait_until
from kvstore.course.lessons import words
from kvstore.course.stubs import noting
from kvstore.v1.kvstore_pb2 import RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

say = words("11")

SOON_S, NEVER_S = 0.05, 30.0
"""A delay that is over soon, and one that is not over during the check."""
SETTLE_S: Final = 0.15
"""How long the judge looks for something that a right answer never does."""
BLOCKED_S: Final = 2.0
"""An event loop that answers nothing for so long is blocked."""
AT_ONCE: Final = 8
DELAYS_S: Final = (0.1, 0.3, 0.7)
MOST_LATE: Final = 1.5
"""After this many delays the second call must have been sent."""
KEY: Final = b"key"

Steps = Callable[["_Replicas", list[Any]], str]


class _Replicas:
    """Two back ends that hold their calls. Each has another value for the key."""

    def __init__(self, first: Puppet, second: Puppet, addresses: tuple[str, str]) -> None:
        self.first, self.second = first, second
        self._addresses = addresses
        self._loop: asyncio.AbstractEventLoop | None = None

    def read(self, answer: Any, steps: Steps, after_s: float, count: int = 1) -> str:
        """Start `count` reads; return what `steps` says about them, in a thread of its own."""
        return asyncio.run(self._read(answer, steps, after_s, count))

    async def _read(self, answer: Any, steps: Steps, after_s: float, count: int) -> str:
        self._loop = asyncio.get_running_loop()
        request = RetrieveRequest(key=KEY)
        async with self._stubs() as (first, second):
            tasks = [
                asyncio.ensure_future(answer(first, second, request, after_s)) for _ in range(count)
            ]
            try:
                problem = await asyncio.to_thread(steps, self, tasks)
            finally:
                for back_end in (self.first, self.second):
                    for number in range(len(back_end.arrived)):
                        back_end.release(number)
                await asyncio.wait(tasks, timeout=2)
                for task in tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
                raise end
        return problem

    async def delay(self, answer: Any, after_s: float) -> str:
        """Return what is wrong with the delay before the second call.

        A timer of the same event loop says when the call must have been sent: however slow the
        machine is, the loop runs the earlier one of two timers first.
        """
        loop = asyncio.get_running_loop()
        sent_s: list[float] = []
        async with self._stubs() as (first, second):
            began_s = loop.time()
            noted = noting(second, lambda: sent_s.append(loop.time()))
            read = answer(first, noted, RetrieveRequest(key=KEY), after_s)
            task = asyncio.ensure_future(read)
            await turns()  # in which the answer sets its timer
            await asyncio.sleep(MOST_LATE * after_s)
            await turns()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not sent_s:
            return say("second_too_late", after_s=after_s, late_s=MOST_LATE * after_s)
        if sent_s[0] - began_s < 0.99 * after_s:
            return say("second_too_soon", after_s=after_s, sent_s=sent_s[0] - began_s)
        return ""

    @asynccontextmanager
    async def _stubs(self) -> AsyncIterator[list[Any]]:
        channels = [grpc.aio.insecure_channel(each, options=OPTIONS) for each in self._addresses]
        try:
            yield [KeyValueServiceStub(channel) for channel in channels]
        finally:
            for channel in channels:
                await channel.close()

    def loop_answers(self) -> bool:
        """Return whether the event loop of the reads runs another task soon."""
        assert self._loop is not None
        beat = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            beat.result(BLOCKED_S)
        except TimeoutError:
            return False
        return True


@contextmanager
def _replicas() -> Iterator[_Replicas]:
    with (
        puppet({KEY: b"first"}, {}) as (first, at),
        puppet({KEY: b"second"}, {}) as (second, other),
        first.shut(),
        second.shut(),
    ):
        yield _Replicas(first, second, (at, other))


def _value(task: Any) -> Any:
    """Return the value that a read returned, or what it returned instead."""
    return getattr(task.result(), "value", task.result())


@judges("11.hedged")
def _judge_hedged(answer: Any) -> Verdict:
    if inspect.isasyncgenfunction(answer) or not inspect.iscoroutinefunction(answer):
        result = answer(None, None, RetrieveRequest(key=KEY), SOON_S)
        if result is NOT_ATTEMPTED:
            raise StubReached
        if not inspect.isawaitable(result):
            return not_yet(say("no_coroutine"))
    for steps, after_s, count in (
        (_first_is_quick, NEVER_S, 1),
        (_first_waits_for_second, SOON_S, 1),
        (_first_comes_late, SOON_S, 1),
        (_many, SOON_S, AT_ONCE),
    ):
        with _replicas() as replicas:
            if problem := replicas.read(answer, steps, after_s, count):
                return not_yet(problem)
    for after_s in DELAYS_S:
        with _replicas() as replicas:
            if problem := asyncio.run(replicas.delay(answer, after_s)):
                return not_yet(problem)
    return passed(say("passed_hedged"))


def _arrives(back_end: Puppet, count: int = 1) -> bool:
    return wait_until(lambda: len(back_end.arrived) >= count)


def _first_is_quick(replicas: _Replicas, tasks: list[Any]) -> str:
    """The first server answers before the delay is over: one call in all."""
    if not wait_until(lambda: replicas.first.arrived or tasks[0].done()) or tasks[0].done():
        return say("no_first_call")
    time.sleep(SETTLE_S)
    if replicas.second.arrived:
        return say("second_at_once", never_s=NEVER_S)
    if not replicas.loop_answers():
        return say("blocks_the_loop")
    replicas.first.release(0)
    if not wait_until(tasks[0].done):
        return say("waits_after_the_first", never_s=NEVER_S)
    if _value(tasks[0]) != b"first":
        return say("not_the_first_reply", result=tasks[0].result())
    time.sleep(SETTLE_S)
    if replicas.second.arrived:
        return say("second_called_in_vain")
    return ""


def _first_waits_for_second(replicas: _Replicas, tasks: list[Any]) -> str:
    """The first server hangs, and the second one answers."""
    if not _arrives(replicas.second):
        return say("no_second_call", soon_s=SOON_S)
    replicas.second.release(0)
    if not wait_until(tasks[0].done):
        return say("waits_for_the_first")
    if _value(tasks[0]) != b"second":
        return say("not_the_second_reply", result=tasks[0].result())
    if not wait_until(lambda: replicas.first.given_up):
        return say("first_not_cancelled")
    if len(replicas.first.arrived) + len(replicas.second.arrived) > 2:
        return say("called_too_often")
    return ""


def _first_comes_late(replicas: _Replicas, tasks: list[Any]) -> str:
    """Both servers have the request, and the first one answers after all."""
    if not _arrives(replicas.second):
        return say("second_not_called")
    time.sleep(SETTLE_S)
    if replicas.first.given_up:
        return say("first_cancelled_too_soon")
    replicas.first.release(0)
    if not wait_until(tasks[0].done) or _value(tasks[0]) != b"first":
        return say("first_reply_lost")
    if not wait_until(lambda: replicas.second.given_up):
        return say("second_not_cancelled")
    return ""


def _many(replicas: _Replicas, tasks: list[Any]) -> str:
    """Several reads on one event loop: none may block the others."""
    if not _arrives(replicas.second, AT_ONCE):
        return say(
            "reads_wait_for_each_other", at_once=AT_ONCE, arrived=len(replicas.second.arrived)
        )
    for number in range(AT_ONCE):
        replicas.second.release(number)
    if not wait_until(lambda: all(task.done() for task in tasks)):
        return say("reads_never_ended", at_once=AT_ONCE)
    return ""
