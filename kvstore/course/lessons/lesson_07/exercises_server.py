"""The server of lesson 07: a grpc.aio servicer that calls a back end, judged by real calls."""

import asyncio
import inspect
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Final

import grpc

from kvstore.client.channel import OPTIONS
from kvstore.course.exercises import Verdict, Wrong, controlled_time, judges, not_yet, passed
from kvstore.course.exercises.puppet import PATIENCE_S, Puppet, puppet, wait_for_count, wait_until
from kvstore.course.exercises.server_trials import (
    answers,
    server_and_address,
    unlogged,
)
from kvstore.course.lessons import words
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceStub,
)

say = words("07")

AT_ONCE: Final = 130
"""More calls than Python's own pool for `asyncio.to_thread` has threads, 32 at most, and than any
limit of the answer's own."""
SETTLE_S: Final = 0.1
"""How long the clocks run ahead while the back end holds all calls."""
EARLY_S: Final = 0.3
"""How long the judge looks for a call that ends before the back end has answered."""
DEADLINE_S: Final = 8.0
VALUES: Final = {b"key %d" % number: b"value %d" % number for number in range(AT_ONCE)}
FAILURES: Final = {
    b"secret": grpc.StatusCode.PERMISSION_DENIED,
    b"broken": grpc.StatusCode.INTERNAL,
    b"busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
}
STATUSES: Final = {**FAILURES, b"unknown": grpc.StatusCode.NOT_FOUND}


BLOCKED = say("blocks_the_loop")


class _FrontUnderTrial:
    """A running front of the learner's: its loop, its back end, and a stub that calls it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, back_end: Puppet, stub: Any) -> None:
        self.loop, self.back_end, self.stub = loop, back_end, stub

    def begin(self, key: bytes, deadline_s: float | None = DEADLINE_S) -> Any:
        """Start a Retrieve and return its future."""
        return self.stub.Retrieve.future(pb.RetrieveRequest(key=key), deadline_s)

    def outcome(self, call: Any) -> bytes | grpc.StatusCode:
        """Return the value, or the status. Raises `Wrong` for an error in the method."""
        error = call.exception()
        if error is None:
            return bytes(call.result().value)
        details = str(error.details() or "")
        code: grpc.StatusCode = error.code()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            raise Wrong(say("unknown_method"))
        if "AioRpcError" in details:
            raise Wrong(say("error_left_the_method"))
        if "erialize" in details or "coroutine" in details:
            raise Wrong(say("no_reply_message"))
        if code is grpc.StatusCode.UNKNOWN:
            raise Wrong(say("method_failed", details=details))
        return code

    def loop_answers(self) -> bool:
        """Return whether the event loop runs another task within the patience."""
        beat = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop)
        try:
            beat.result(PATIENCE_S / 2)
        except TimeoutError:
            return False
        return True


@contextmanager
def own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop in a thread of its own while the block lasts.

    A server that the answer did not return stops itself once it is forgotten, in tasks of this
    loop: the loop ends after its last task. One that is blocked, or whose server is still held,
    is left to its daemon thread: tasks of grpc.aio must not be lost while they are pending.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="loop of the answer", daemon=True)
    thread.start()

    async def all_ended() -> bool:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return not others or not (await asyncio.wait(others, timeout=PATIENCE_S / 2))[1]

    try:
        yield loop
    finally:
        ended = False
        with suppress(TimeoutError):
            pending = asyncio.run_coroutine_threadsafe(all_ended(), loop)
            ended = pending.result(PATIENCE_S)
        if ended:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


@contextmanager
def started(
    serve: Callable[[AsyncExitStack], Coroutine[Any, Any, Any]],
) -> Iterator[tuple[asyncio.AbstractEventLoop, Any]]:
    """Await `serve(stack)` on an event loop of its own; yield the loop and a stub of the server.

    The server and the stack end with the block. Raises `Wrong` when no server answers.
    """
    stack = AsyncExitStack()
    with unlogged("grpc._cython.cygrpc"), own_loop() as loop:
        try:
            returned = asyncio.run_coroutine_threadsafe(serve(stack), loop).result()
            server = returned[0] if isinstance(returned, tuple | list) and returned else None
            if isinstance(server, grpc.aio.Server):
                stack.push_async_callback(server.stop, 0)
            with _connected(returned) as stub:
                yield loop, stub
        finally:
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(PATIENCE_S)


@contextmanager
def _connected(returned: Any) -> Iterator[Any]:
    """Yield a stub of the server that `serve` returned. Raises `Wrong` if none answers."""
    server, address = server_and_address(returned)
    if not isinstance(server, grpc.aio.Server):
        raise Wrong(say("no_aio_server", kind=type(server).__name__))
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        if not answers(channel):
            raise Wrong(say("no_server", address=address))
        yield KeyValueServiceStub(channel)


@judges("07.front")
def _judge_front(answer: Any) -> Verdict:
    draw = random.Random(7)

    async def begin(stack: AsyncExitStack) -> Any:
        channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        servicer = answer(KeyValueServiceStub(await stack.enter_async_context(channel)))
        return await servicer if inspect.isawaitable(servicer) else servicer

    with puppet(VALUES, FAILURES) as (back_end, address), started(begin) as (loop, stub):
        trial = _FrontUnderTrial(loop, back_end, stub)
        for step in (_values, _many_at_once, _ends, _deadlines):
            if problem := step(trial, draw):
                return not_yet(problem)
    return passed(say("passed_front", at_once=AT_ONCE))


def _values(trial: _FrontUnderTrial, draw: random.Random) -> str:
    """One call after the other: each goes to the back end, and brings its value back."""
    key = draw.choice(list(VALUES))
    for attempt in ("first", "second"):
        before = len(trial.back_end.arrived)
        call = trial.begin(key, deadline_s=None if attempt == "second" else 8.0)
        if not wait_until(call.done) and not trial.loop_answers():
            return BLOCKED
        reply = trial.outcome(call)
        if reply != VALUES[key]:
            return say("another_reply", attempt=attempt, key=key, right=VALUES[key], reply=reply)
        calls = len(trial.back_end.arrived) - before
        if calls != 1:
            return say("not_one_call", attempt=attempt, calls=calls)
    return ""


def _many_at_once(trial: _FrontUnderTrial, draw: random.Random) -> str:
    """The back end holds all calls: as many must wait there as users have sent."""
    keys = draw.sample(list(VALUES), AT_ONCE)
    with trial.back_end.shut():
        calls = [trial.begin(key) for key in keys]
        wait_for_count(lambda: trial.back_end.waiting, AT_ONCE)
        waiting = trial.back_end.waiting
        if not trial.loop_answers():
            return BLOCKED
        with controlled_time.running_ahead():
            time.sleep(SETTLE_S)
        early = waiting == AT_ONCE and wait_until(lambda: any(c.done() for c in calls), EARLY_S)
    replies = [trial.outcome(call) for call in calls]
    if grpc.StatusCode.RESOURCE_EXHAUSTED in replies:
        return say("refused", at_once=AT_ONCE)
    if early:
        return say("ended_early", at_once=AT_ONCE)
    if waiting == 1:
        return say("one_call_passes", at_once=AT_ONCE)
    if waiting < AT_ONCE:
        return say("not_all_waited", at_once=AT_ONCE, waiting=waiting)
    if replies != [VALUES[key] for key in keys]:
        return say("values_mixed_up")
    return ""


def _ends(trial: _FrontUnderTrial, draw: random.Random) -> str:
    """A call ends with the status that the back end gave."""
    for key, status in draw.sample(list(STATUSES.items()), len(STATUSES)):
        reply = trial.outcome(trial.begin(key))
        if reply is not status:
            got = reply.name if isinstance(reply, grpc.StatusCode) else f"OK and {reply!r}"
            return say("another_status", name=status.name, got=got)
    return ""


def _deadlines(trial: _FrontUnderTrial, draw: random.Random) -> str:
    """The back end must know how long the caller will wait."""
    for given_s in (draw.uniform(3, 5), draw.uniform(30, 60)):
        trial.outcome(trial.begin(draw.choice(list(VALUES)), given_s))
        seen_s = trial.back_end.arrived[-1].deadline_s
        if not given_s / 2 < seen_s < 1.1 * given_s:  # gRPC rounds a deadline up
            has = "no deadline" if seen_s > 1e6 else f"a deadline of {seen_s:.1f} s"
            return say("another_deadline", given_s=given_s, has=has)
    return ""
