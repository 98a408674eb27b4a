"""Bare loops: the shortest loops that grpcio allows over the same stub, for comparison.

A bare loop makes a request for each call, sets a deadline and checks the reply. It records no call
and counts no lost call. The difference between our client and a bare loop is the cost of drawing
operations, scheduling, recording and counting. Messages, channel and event loop are those of our
client. The clock starts when the connection is ready and stops with the last reply, as in our
client.
"""

import asyncio
import itertools
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc

from kvstore.client.channel import CONNECT_S, OPTIONS, Target, server_status
from kvstore.protocol import OK, RETRIEVE, event_loop_factory
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

DEADLINE_S = 30.0
"""Seconds, as in our client: gRPC needs a timer for each unary call. A stream has no deadline."""
KEY_BYTES = 8
VALUE = bytes(16)


def new_key(address: str) -> bytes:
    """Create a key with the value `VALUE` on the server and return it."""
    key = secrets.token_bytes(KEY_BYTES)
    with grpc.insecure_channel(address) as channel:
        create = kvstore_pb2_grpc.KeyValueServiceStub(channel).Create
        create(pb.CreateRequest(key=key, value=VALUE))
    return key


class LoopOptions(NamedTuple):
    """The options of a bare loop."""

    address: str
    key: bytes
    seconds: float
    in_flight: int = 1
    streams: int = 1
    batch: int = 1


class LoopResult(NamedTuple):
    """What a bare loop measured."""

    operations: int
    took_s: float
    """Seconds from when its connection was ready until its last reply."""
    cpu_s: float
    """CPU seconds of this process from then until everything was closed, as in our client."""


class _Clock:
    """Starts when it is constructed: when the connection is ready, as in our client."""

    def __init__(self, seconds: float) -> None:
        self._cpu_s, self._start_s = time.process_time(), time.perf_counter()
        self.end_s = self._start_s + seconds
        self._operations, self._took_s = 0, 0.0

    def stop(self, operations: int) -> "_Clock":
        """Note the time of the last reply; connections are closed afterwards."""
        self._operations, self._took_s = operations, time.perf_counter() - self._start_s
        return self

    def result(self) -> LoopResult:
        return LoopResult(self._operations, self._took_s, time.process_time() - self._cpu_s)


def run_loop(loop: str, options: LoopOptions) -> LoopResult:
    """Run the loop of this name, one of `LOOPS`, close its connections and return the result."""
    return LOOPS[loop](options).result()


def sync(options: LoopOptions) -> _Clock:
    """Make blocking calls in `in_flight` threads."""
    calls = [0] * options.in_flight
    with _connected(options) as retrieve:
        clock = _Clock(options.seconds)

        def loop(number: int) -> None:
            while time.perf_counter() < clock.end_s:
                reply = retrieve(pb.RetrieveRequest(key=options.key), timeout=DEADLINE_S)
                if reply.value != VALUE:
                    raise _wrong(reply)
                calls[number] += 1

        with ThreadPoolExecutor(options.in_flight) as pool:
            callers = [pool.submit(loop, number) for number in range(options.in_flight)]
        for caller in callers:
            caller.result()
        return clock.stop(sum(calls))


def future(options: LoopOptions) -> _Clock:
    """Make calls with futures, limited by a semaphore."""
    free = threading.Semaphore(options.in_flight)
    wrong: list[BaseException] = []
    calls = 0

    def ended(answer: Any) -> None:
        try:
            reply = answer.result()
            if reply.value != VALUE:
                raise _wrong(reply)
        except BaseException as error:  # gRPC would only log it
            wrong.append(error)
        finally:
            free.release()

    with _connected(options) as retrieve:
        clock = _Clock(options.seconds)
        while time.perf_counter() < clock.end_s and not wrong:
            free.acquire()
            call = retrieve.future(pb.RetrieveRequest(key=options.key), timeout=DEADLINE_S)
            call.add_done_callback(ended)
            calls += 1
        for _each in range(options.in_flight):
            free.acquire()
        if wrong:
            raise wrong[0]
        return clock.stop(calls)


def chain(options: LoopOptions) -> _Clock:
    """Make calls with futures; the end of each call sends the next one."""
    ended = threading.Semaphore(0)
    calls = itertools.count()
    wrong: list[BaseException] = []

    with _connected(options) as retrieve:
        clock = _Clock(options.seconds)

        def send(before: Any = None) -> None:
            try:
                if before is not None:
                    reply = before.result()
                    if reply.value != VALUE:
                        raise _wrong(reply)
                if time.perf_counter() < clock.end_s:
                    next(calls)
                    call = retrieve.future(pb.RetrieveRequest(key=options.key), timeout=DEADLINE_S)
                    call.add_done_callback(send)
                    return
            except BaseException as error:  # gRPC would only log it
                wrong.append(error)
            ended.release()

        for _each in range(options.in_flight):
            send()
        for _each in range(options.in_flight):
            ended.acquire()
        if wrong:
            raise wrong[0]
        return clock.stop(next(calls))


def aio(options: LoopOptions) -> _Clock:
    """Make calls in `in_flight` asyncio tasks."""

    async def loop(retrieve: Any, clock: _Clock) -> int:
        calls = 0
        while time.perf_counter() < clock.end_s:
            reply = await retrieve(pb.RetrieveRequest(key=options.key), timeout=DEADLINE_S)
            if reply.value != VALUE:
                raise _wrong(reply)
            calls += 1
        return calls

    async def loops() -> _Clock:
        async with grpc.aio.insecure_channel(options.address, options=OPTIONS) as channel:
            await channel.channel_ready()
            retrieve = kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve
            clock = _Clock(options.seconds)
            callers = (loop(retrieve, clock) for _ in range(options.in_flight))
            return clock.stop(sum(await asyncio.gather(*callers)))

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(loops())


def stream(options: LoopOptions) -> _Clock:
    """Keep `in_flight` requests of `batch` operations open on `streams` streams."""
    kinds, keys = bytes([RETRIEVE]) * options.batch, [options.key] * options.batch
    statuses, values = bytes([OK]) * options.batch, [VALUE] * options.batch

    async def one(stub: Any, window: int, clock: _Clock) -> int:
        call = stub.Pipeline()
        for number in range(window):
            await call.write(pb.PipelineRequest(id=number, kinds=kinds, keys=keys))
        answered, ended = 0, False
        while (reply := await call.read()) is not grpc.aio.EOF:  # `async for` takes more CPU time
            answered += 1
            if reply.statuses != statuses or list(reply.values) != values:
                raise _wrong(reply)
            if time.perf_counter() < clock.end_s:
                await call.write(pb.PipelineRequest(id=answered, kinds=kinds, keys=keys))
            elif not ended:
                await call.done_writing()
                ended = True
        return answered

    async def all_of_them() -> _Clock:
        async with grpc.aio.insecure_channel(options.address, options=OPTIONS) as channel:
            await channel.channel_ready()
            stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
            count = options.streams
            shares = [
                options.in_flight // count + (n < options.in_flight % count) for n in range(count)
            ]
            clock = _Clock(options.seconds)
            answered = await asyncio.gather(*(one(stub, share, clock) for share in shares))
            return clock.stop(options.batch * sum(answered))

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(all_of_them())


@contextmanager
def _connected(options: LoopOptions) -> Iterator[Any]:
    """Yield `Retrieve` of a channel whose connection is ready."""
    with grpc.insecure_channel(options.address, options=OPTIONS) as channel:
        server_status(channel, Target(options.address), CONNECT_S, wait_for_ready=True)
        yield kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve


def _wrong(reply: Any) -> ValueError:
    return ValueError(f"a retrieve must return the value that was written, got {reply!r:.200}")


LOOPS = {loop.__name__: loop for loop in (sync, future, chain, aio, stream)}
