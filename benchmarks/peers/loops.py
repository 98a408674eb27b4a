"""The shortest loops that grpcio allows over the same stub.

What ours costs beyond them is what drawing, scheduling, recording and accounting cost. They make
a request for each call, give it a deadline and look at its answer, as anybody should, and answer
for nothing: no record of a call, no account of what was lost. Messages, channel and event loop
are as ours are, and so is the clock: it starts when the connection stands and stops with the
last answer. Only the loops differ.
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

from kvstore.client.channel import CONNECT_S, OPTIONS
from kvstore.codes import OK, RETRIEVE
from kvstore.event_loop import event_loop_factory
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

DEADLINE_S = 30.0
"""As ours: it costs gRPC a timer for each unary call. A stream has none."""
KEY_BYTES = 8
VALUE = bytes(16)


def new_key(address: str) -> bytes:
    """A key that the server holds `VALUE` under from now on."""
    key = secrets.token_bytes(KEY_BYTES)
    with grpc.insecure_channel(address) as channel:
        create = kvstore_pb2_grpc.KeyValueServiceStub(channel).Create
        create(pb.CreateRequest(key=key, value=VALUE))
    return key


class Asked(NamedTuple):
    """What a loop has to do."""

    address: str
    key: bytes
    seconds: float
    in_flight: int = 1
    streams: int = 1
    batch: int = 1
    verified: bool = True
    """Whether answers are looked at: each operation's status, and the value it read."""


class Did(NamedTuple):
    """What a loop has done."""

    operations: int
    took_s: float
    """Seconds from when its connection stood until its last answer."""
    cpu_s: float
    """Processor seconds of this process from then until all was closed: ours counts that too."""


class _Clock:
    """Starts when it is made: once the connection stands, as our own clock does."""

    def __init__(self, seconds: float) -> None:
        self._cpu_s, self._start_s = time.process_time(), time.perf_counter()
        self.end_s = self._start_s + seconds
        self._operations, self._took_s = 0, 0.0

    def stop(self, operations: int) -> "_Clock":
        """All answers are there; what was opened is still to be closed."""
        self._operations, self._took_s = operations, time.perf_counter() - self._start_s
        return self

    def did(self) -> Did:
        return Did(self._operations, self._took_s, time.process_time() - self._cpu_s)


def made(loop: str, asked: Asked) -> Did:
    """Make calls in the loop of this name, one of `LOOPS`, and close what it opened."""
    return LOOPS[loop](asked).did()


def sync(asked: Asked) -> _Clock:
    """Wait for each answer, in each of so many threads."""
    calls = [0] * asked.in_flight
    with _connected(asked) as retrieve:
        clock = _Clock(asked.seconds)

        def loop(number: int) -> None:
            while time.perf_counter() < clock.end_s:
                reply = retrieve(pb.RetrieveRequest(key=asked.key), timeout=DEADLINE_S)
                if asked.verified and reply.value != VALUE:
                    raise _wrong(reply)
                calls[number] += 1

        with ThreadPoolExecutor(asked.in_flight) as pool:
            callers = [pool.submit(loop, number) for number in range(asked.in_flight)]
        for caller in callers:
            caller.result()
        return clock.stop(sum(calls))


def future(asked: Asked) -> _Clock:
    """Futures and a semaphore."""
    free = threading.Semaphore(asked.in_flight)
    wrong: list[BaseException] = []
    calls = 0

    def ended(answer: Any) -> None:
        try:
            reply = answer.result()
            if asked.verified and reply.value != VALUE:
                raise _wrong(reply)
        except BaseException as error:  # gRPC would log it and go on
            wrong.append(error)
        finally:
            free.release()

    with _connected(asked) as retrieve:
        clock = _Clock(asked.seconds)
        while time.perf_counter() < clock.end_s and not wrong:
            free.acquire()
            call = retrieve.future(pb.RetrieveRequest(key=asked.key), timeout=DEADLINE_S)
            call.add_done_callback(ended)
            calls += 1
        for _each in range(asked.in_flight):
            free.acquire()
        if wrong:
            raise wrong[0]
        return clock.stop(calls)


def chain(asked: Asked) -> _Clock:
    """Futures, each of which sends the next when it is done."""
    ended = threading.Semaphore(0)
    calls = itertools.count()
    wrong: list[BaseException] = []

    with _connected(asked) as retrieve:
        clock = _Clock(asked.seconds)

        def send(before: Any = None) -> None:
            try:
                if before is not None:
                    reply = before.result()
                    if asked.verified and reply.value != VALUE:
                        raise _wrong(reply)
                if time.perf_counter() < clock.end_s:
                    next(calls)
                    call = retrieve.future(pb.RetrieveRequest(key=asked.key), timeout=DEADLINE_S)
                    call.add_done_callback(send)
                    return
            except BaseException as error:  # gRPC would log it and go on
                wrong.append(error)
            ended.release()

        for _each in range(asked.in_flight):
            send()
        for _each in range(asked.in_flight):
            ended.acquire()
        if wrong:
            raise wrong[0]
        return clock.stop(next(calls))


def aio(asked: Asked) -> _Clock:
    """Tasks that each wait for their own answer."""

    async def loop(retrieve: Any, clock: _Clock) -> int:
        calls = 0
        while time.perf_counter() < clock.end_s:
            reply = await retrieve(pb.RetrieveRequest(key=asked.key), timeout=DEADLINE_S)
            if asked.verified and reply.value != VALUE:
                raise _wrong(reply)
            calls += 1
        return calls

    async def loops() -> _Clock:
        async with grpc.aio.insecure_channel(asked.address, options=OPTIONS) as channel:
            await channel.channel_ready()
            retrieve = kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve
            clock = _Clock(asked.seconds)
            callers = (loop(retrieve, clock) for _ in range(asked.in_flight))
            return clock.stop(sum(await asyncio.gather(*callers)))

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(loops())


def stream(asked: Asked) -> _Clock:
    """Requests of `batch` operations on streams, `in_flight` of them open at any time."""
    kinds, keys = bytes([RETRIEVE]) * asked.batch, [asked.key] * asked.batch
    statuses, values = bytes([OK]) * asked.batch, [VALUE] * asked.batch

    async def one(stub: Any, window: int, clock: _Clock) -> int:
        call = stub.Pipeline()
        for number in range(window):
            await call.write(pb.PipelineRequest(id=number, kinds=kinds, keys=keys))
        answered, ended = 0, False
        while (reply := await call.read()) is not grpc.aio.EOF:  # `async for` is dearer
            answered += 1
            if asked.verified and (reply.statuses != statuses or list(reply.values) != values):
                raise _wrong(reply)
            if time.perf_counter() < clock.end_s:
                await call.write(pb.PipelineRequest(id=answered, kinds=kinds, keys=keys))
            elif not ended:
                await call.done_writing()
                ended = True
        return answered

    async def all_of_them() -> _Clock:
        async with grpc.aio.insecure_channel(asked.address, options=OPTIONS) as channel:
            await channel.channel_ready()
            stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
            count = asked.streams
            shares = [
                asked.in_flight // count + (n < asked.in_flight % count) for n in range(count)
            ]
            clock = _Clock(asked.seconds)
            answered = await asyncio.gather(*(one(stub, share, clock) for share in shares))
            return clock.stop(asked.batch * sum(answered))

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(all_of_them())


@contextmanager
def _connected(asked: Asked) -> Iterator[Any]:
    """`Retrieve` of a channel whose connection stands."""
    with grpc.insecure_channel(asked.address, options=OPTIONS) as channel:
        grpc.channel_ready_future(channel).result(CONNECT_S)
        yield kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve


def _wrong(reply: Any) -> ValueError:
    return ValueError(f"a retrieve did not read what was written: {reply!r:.200}")


LOOPS = {loop.__name__: loop for loop in (sync, future, chain, aio, stream)}
