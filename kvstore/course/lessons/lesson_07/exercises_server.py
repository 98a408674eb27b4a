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
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceStub,
)

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


BLOCKED = (
    "while one call waited for the back end, the event loop did nothing else: your method blocks"
    " its only thread. Wait with `await`, which lets other tasks run."
)


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
            raise Wrong(
                "the server does not know the method: connect the servicer and the server with"
                " `add_KeyValueServiceServicer_to_server`, before `server.start()`."
            )
        if "AioRpcError" in details:
            raise Wrong(
                "the back end's call failed, and the error left your method: the caller got"
                " UNKNOWN. Catch `grpc.aio.AioRpcError` and abort with its `code()`."
            )
        if "erialize" in details or "coroutine" in details:
            raise Wrong(
                "your method returned something else than a reply message: `await` the call to"
                " the back end, and return its reply."
            )
        if code is grpc.StatusCode.UNKNOWN:
            raise Wrong(f"your method stopped with an error: {details}")
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
        raise Wrong(
            f"the server must be one of `grpc.aio.server()`, got {type(server).__name__}: only"
            " such a server runs coroutines on the event loop."
        )
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        if not answers(channel):
            raise Wrong(
                f"no server answers at {address}. Did you `await server.start()`, and is `port`"
                " what `server.add_insecure_port` returned?"
            )
        yield KeyValueServiceStub(channel)


@judges("07.front")
def _judge_front(answer: Any) -> Verdict:
    draw = random.Random(7)

    async def begin(stack: AsyncExitStack) -> Any:
        channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        found = answer(KeyValueServiceStub(await stack.enter_async_context(channel)))
        return await found if inspect.isawaitable(found) else found

    with puppet(VALUES, FAILURES) as (back_end, address), started(begin) as (loop, stub):
        trial = _FrontUnderTrial(loop, back_end, stub)
        for step in (_values, _many_at_once, _ends, _deadlines):
            if problem := step(trial, draw):
                return not_yet(problem)
    return passed(
        f"{AT_ONCE} calls waited for the back end at once, and the one thread of the event loop"
        " was free meanwhile. Statuses and deadlines were passed on."
    )


def _values(trial: _FrontUnderTrial, draw: random.Random) -> str:
    """One call after the other: each goes to the back end, and brings its value back."""
    key = draw.choice(list(VALUES))
    for attempt in ("first", "second"):
        before = len(trial.back_end.arrived)
        call = trial.begin(key, deadline_s=None if attempt == "second" else 8.0)
        if not wait_until(call.done) and not trial.loop_answers():
            return BLOCKED
        found = trial.outcome(call)
        if found != VALUES[key]:
            return f"the {attempt} Retrieve of {key!r} must return {VALUES[key]!r}, got {found!r}."
        calls = len(trial.back_end.arrived) - before
        if calls != 1:
            return (
                f"the {attempt} Retrieve of a key made {calls} calls to the back end: every call"
                " of a user needs exactly one, because the value may have changed."
            )
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
    found = [trial.outcome(call) for call in calls]
    if grpc.StatusCode.RESOURCE_EXHAUSTED in found:
        return f"{AT_ONCE} users called, and your server refused some: set no limit on the calls."
    if early:
        return (
            f"of {AT_ONCE} calls, some ended before the back end had answered: your method waits"
            " for a time. The reply of the back end ends the wait."
        )
    if waiting == 1:
        return (
            f"{AT_ONCE} users called, and only one call at a time waited at the back end. The loop"
            " was free, so something else lets one call pass at a time: a lock?"
        )
    if waiting < AT_ONCE:
        return f"{AT_ONCE} users called, and never more than {waiting} calls waited at once."
    if found != [VALUES[key] for key in keys]:
        return "with many calls at once, a caller got the value of another caller's key."
    return ""


def _ends(trial: _FrontUnderTrial, draw: random.Random) -> str:
    """A call ends with the status that the back end gave."""
    for key, status in draw.sample(list(STATUSES.items()), len(STATUSES)):
        found = trial.outcome(trial.begin(key))
        if found is not status:
            got = found.name if isinstance(found, grpc.StatusCode) else f"OK and {found!r}"
            return (
                f"the back end answered {status.name}, and the caller got {got}. Pass the status"
                " on: `await context.abort(error.code(), error.details())`."
            )
    return ""


def _deadlines(trial: _FrontUnderTrial, draw: random.Random) -> str:
    """The back end must know how long the caller will wait."""
    for given_s in (draw.uniform(3, 5), draw.uniform(30, 60)):
        trial.outcome(trial.begin(draw.choice(list(VALUES)), given_s))
        seen_s = trial.back_end.arrived[-1].deadline_s
        if not given_s / 2 < seen_s < 1.1 * given_s:  # gRPC rounds a deadline up
            has = "no deadline" if seen_s > 1e6 else f"a deadline of {seen_s:.1f} s"
            return (
                f"the caller waits for {given_s:.1f} s, and the call to the back end had {has}:"
                " pass `timeout=context.time_remaining()`."
            )
    return ""
