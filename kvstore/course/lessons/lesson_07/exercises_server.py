"""The server of lesson 07: a grpc.aio servicer that calls a back end, judged by real calls."""

import asyncio
import inspect
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import grpc

from kvstore.client.channel import OPTIONS
from kvstore.course.exercises import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.exercises.puppet import PATIENCE_S, Puppet, puppet, wait_until
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    KeyValueServiceStub,
    add_KeyValueServiceServicer_to_server,
)

AT_ONCE: Final = 48
"""More calls than Python's own pool for `asyncio.to_thread` has threads: 32 at most."""
DEADLINE_S: Final = 8.0
VALUES: Final = {b"key %d" % number: b"value %d" % number for number in range(AT_ONCE)}
FAILURES: Final = {
    b"secret": grpc.StatusCode.PERMISSION_DENIED,
    b"broken": grpc.StatusCode.INTERNAL,
    b"busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
}
STATUSES: Final = {**FAILURES, b"unknown": grpc.StatusCode.NOT_FOUND}


class Front(KeyValueServiceServicer):
    """Asks the back end for every value."""

    def __init__(self, stub: Any) -> None:
        self.stub = stub

    async def Retrieve(self, request: Any, context: Any) -> Any:
        """Return the reply of the back end, or end with its status."""
        try:
            return await self.stub.Retrieve(request, timeout=context.time_remaining())
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())


async def serve(stub: Any) -> tuple[Any, int]:
    """Start a server on the running event loop; return it and its port."""
    server = grpc.aio.server()
    add_KeyValueServiceServicer_to_server(Front(stub), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


async def _serve(front: Any, **settings: Any) -> tuple[Any, int]:
    server = grpc.aio.server(**settings)
    add_KeyValueServiceServicer_to_server(front, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


BLOCKED = (
    "while one call waited for the back end, the event loop did nothing else: your method blocks"
    " its only thread. Wait with `await`, which lets other tasks run."
)


class _FrontFailed(Exception):
    """The learner's server did something that it must not do; the text says what."""


class _FrontUnderTrial:
    """A running front of the learner's: its loop, its back end, and a stub that calls it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, back_end: Puppet, stub: Any) -> None:
        self.loop, self.back_end, self.stub = loop, back_end, stub

    def begin(self, key: bytes, deadline_s: float | None = DEADLINE_S) -> Any:
        """Start a Retrieve and return its future."""
        return self.stub.Retrieve.future(pb.RetrieveRequest(key=key), deadline_s)

    def outcome(self, call: Any) -> bytes | grpc.StatusCode:
        """Return the value, or the status. Raises `_FrontFailed` for an error in the method."""
        error = call.exception()
        if error is None:
            return bytes(call.result().value)
        details = str(error.details() or "")
        code: grpc.StatusCode = error.code()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            raise _FrontFailed(
                "the server does not know the method: connect the servicer and the server with"
                " `add_KeyValueServiceServicer_to_server`, before `server.start()`."
            )
        if "AioRpcError" in details:
            raise _FrontFailed(
                "the back end's call failed, and the error left your method: the caller got"
                " UNKNOWN. Catch `grpc.aio.AioRpcError` and abort with its `code()`."
            )
        if "erialize" in details or "coroutine" in details:
            raise _FrontFailed(
                "your method returned something else than a reply message: `await` the call to"
                " the back end, and return its reply."
            )
        if code is grpc.StatusCode.UNKNOWN:
            raise _FrontFailed(f"your method stopped with an error: {details}")
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
def _own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop in a thread of its own while the block lasts.

    A server that the answer did not return stops itself once it is forgotten, in tasks of this
    loop: the loop ends after its last task. One that is blocked, or whose server is still held,
    is left to its daemon thread: tasks of grpc.aio must not be lost while they are pending.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="loop of 07.front", daemon=True)
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
def _started(answer: Callable[..., Any]) -> Iterator[_FrontUnderTrial]:
    """Start the learner's front between a back end and a stub; all ends with the block."""

    async def begin(address: str) -> tuple[Any, Any]:
        channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        found = answer(KeyValueServiceStub(channel))
        return channel, await found if inspect.isawaitable(found) else found

    async def end(channel: Any, server: Any) -> None:
        if isinstance(server, grpc.aio.Server):
            await server.stop(0)
        await channel.close()

    log = logging.getLogger("grpc._cython.cygrpc")  # prints the error of every method that fails
    was, log.disabled = log.disabled, True
    try:
        with puppet(VALUES, FAILURES) as (back_end, address), _own_loop() as loop:
            channel, returned = asyncio.run_coroutine_threadsafe(begin(address), loop).result()
            server = returned[0] if isinstance(returned, tuple | list) and returned else None
            try:
                with _connected(returned) as stub:
                    yield _FrontUnderTrial(loop, back_end, stub)
            finally:
                with suppress(TimeoutError):
                    asyncio.run_coroutine_threadsafe(end(channel, server), loop).result(PATIENCE_S)
    finally:
        log.disabled = was


@contextmanager
def _connected(returned: Any) -> Iterator[Any]:
    """Yield a stub of the server that `serve` returned. Raises `_FrontFailed` if none answers."""
    try:
        server, port = returned
        address = f"127.0.0.1:{int(port)}"
    except (TypeError, ValueError):
        raise _FrontFailed(
            f"`serve` must return two things, the server and its port, got {returned!r:.60}."
        ) from None
    if not isinstance(server, grpc.aio.Server):
        raise _FrontFailed(
            f"the server must be one of `grpc.aio.server()`, got {type(server).__name__}: only"
            " such a server runs coroutines on the event loop."
        )
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        try:
            channel.unary_unary("/kvstore.course/Ready")(b"", PATIENCE_S, wait_for_ready=True)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise _FrontFailed(
                    f"no server answers at {address}. Did you `await server.start()`, and is"
                    " `port` what `server.add_insecure_port` returned?"
                ) from None
        yield KeyValueServiceStub(channel)


def _judge_front(answer: Any) -> Verdict:
    draw = random.Random(7)
    try:
        with _started(answer) as trial:
            for step in (_values, _many_at_once, _ends, _deadlines):
                if problem := step(trial, draw):
                    return not_yet(problem)
    except _FrontFailed as failed:
        return not_yet(str(failed))
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
        wait_until(lambda: trial.back_end.waiting >= AT_ONCE)
        waiting, free = trial.back_end.waiting, trial.loop_answers()
    found = [trial.outcome(call) for call in calls]
    if not free:
        return BLOCKED
    if grpc.StatusCode.RESOURCE_EXHAUSTED in found:
        return f"{AT_ONCE} users called, and your server refused some: set no limit on the calls."
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


# Known-wrong servers, each as a learner would write it.


class _Blocks(Front):
    async def Retrieve(self, request: Any, context: Any) -> Any:
        call = self.stub.Retrieve(request, timeout=context.time_remaining())
        await asyncio.sleep(0.01)  # lets the call leave
        while not call.done():
            time.sleep(0.005)
            if time.perf_counter() > self.give_up_s:
                break
        return await call

    def __init__(self, stub: Any) -> None:
        super().__init__(stub)
        self.give_up_s = time.perf_counter() + 4 * PATIENCE_S


class _OneAtATime(Front):
    def __init__(self, stub: Any) -> None:
        super().__init__(stub)
        self.places = asyncio.Semaphore(1)

    async def Retrieve(self, request: Any, context: Any) -> Any:
        async with self.places:
            return await super().Retrieve(request, context)


class _TenAtATime(_OneAtATime):
    def __init__(self, stub: Any) -> None:
        super().__init__(stub)
        self.places = asyncio.Semaphore(10)


class _NeverAwaits(Front):
    async def Retrieve(self, request: Any, context: Any) -> Any:
        return self.stub.Retrieve(request, timeout=context.time_remaining())


class _LetsErrorsOut(Front):
    async def Retrieve(self, request: Any, context: Any) -> Any:
        return await self.stub.Retrieve(request, timeout=context.time_remaining())


class _AlwaysNotFound(Front):
    async def Retrieve(self, request: Any, context: Any) -> Any:
        try:
            return await self.stub.Retrieve(request, timeout=context.time_remaining())
        except grpc.aio.AioRpcError:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such key")


class _EmptyReply(Front):
    async def Retrieve(self, request: Any, context: Any) -> Any:
        try:
            return await self.stub.Retrieve(request, timeout=context.time_remaining())
        except grpc.aio.AioRpcError:
            return pb.RetrieveResponse()


class _NoDeadline(Front):
    async def Retrieve(self, request: Any, context: Any) -> Any:
        try:
            return await self.stub.Retrieve(request)
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())


class _OwnDeadline(Front):
    async def Retrieve(self, request: Any, context: Any) -> Any:
        try:
            return await self.stub.Retrieve(request, timeout=4)
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())


class _Caches(Front):
    def __init__(self, stub: Any) -> None:
        super().__init__(stub)
        self.known: dict[bytes, Any] = {}

    async def Retrieve(self, request: Any, context: Any) -> Any:
        if request.key not in self.known:
            self.known[request.key] = await super().Retrieve(request, context)
        return self.known[request.key]


class _Shares(Front):
    """Keeps the request in the servicer, which all calls share."""

    async def Retrieve(self, request: Any, context: Any) -> Any:
        self.request = request
        await asyncio.sleep(0.01)
        return await super().Retrieve(self.request, context)


def serving_with(front: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """Return a `serve` that starts a server with this servicer."""

    async def serve(stub: Any) -> Any:
        return await _serve(front(stub), **settings)

    return serve


async def _port_only(stub: Any) -> Any:
    return (await serve(stub))[1]


async def _not_started(stub: Any) -> Any:
    server = grpc.aio.server()
    add_KeyValueServiceServicer_to_server(Front(stub), server)
    return server, server.add_insecure_port("127.0.0.1:0")


async def _not_added(stub: Any) -> Any:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


async def _threads(stub: Any) -> Any:
    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(64))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


FRONT = Exercise(
    id="07.front",
    title="A server that waits with await",
    hints=(
        "`Retrieve`: `return await self.stub.Retrieve(request, timeout=context.time_remaining())`.",
        "Put it in a `try`, and `except grpc.aio.AioRpcError as error:`"
        " `await context.abort(error.code(), error.details())`.",
        "`serve`: `server = grpc.aio.server()`, then"
        " `add_KeyValueServiceServicer_to_server(Front(stub), server)`,"
        ' `port = server.add_insecure_port("127.0.0.1:0")`, `await server.start()`, and return'
        " both.",
    ),
    reference=serve,
    solution_parts=(Front,),
    wrong=(
        WrongAnswer(serving_with(_Blocks), "blocks its only thread"),
        WrongAnswer(serving_with(_OneAtATime), "only one call at a time"),
        WrongAnswer(serving_with(_TenAtATime), "never more than 10"),
        WrongAnswer(serving_with(_NeverAwaits), "something else than a reply message"),
        WrongAnswer(serving_with(_LetsErrorsOut), "the error left your method"),
        WrongAnswer(serving_with(_AlwaysNotFound), "the caller got NOT_FOUND"),
        WrongAnswer(serving_with(_EmptyReply), "the caller got OK"),
        WrongAnswer(serving_with(_NoDeadline), "had no deadline"),
        WrongAnswer(serving_with(_OwnDeadline), "had a deadline of 4.0 s"),
        WrongAnswer(serving_with(_Caches), "made 0 calls to the back end"),
        WrongAnswer(serving_with(Front, maximum_concurrent_rpcs=8), "refused some"),
        WrongAnswer(_port_only, "must return two things"),
        WrongAnswer(_not_started, "no server answers"),
        WrongAnswer(_not_added, "does not know the method"),
        WrongAnswer(_threads, "only such a server runs coroutines"),
        WrongAnswer(serving_with(_Shares), "the value of another caller's key"),
    ),
    judge=_judge_front,
    timeout_s=40.0,
)
