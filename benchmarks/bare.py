"""A bare loop: a strategy with the generated stub on a channel, and nothing else.

It reads one key again and again. The channel is gRPC's own, or the measured one: the ratio of two
runs is the cost of measuring. Beside `load.run`, a bare loop draws no operations and has no
schedule, recorder or monitor. Both channels give each unary call the same deadline, because gRPC
needs a timer for it. The clock starts when the connection is ready and stops with the last reply.
"""

import asyncio
import inspect
import itertools
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import grpc

from benchmarks.harness import Turn
from kvstore import gc_control
from kvstore.client import measured_channel
from kvstore.client.channel import CONNECT_S, OPTIONS, Target, server_status
from kvstore.client.messages import SERVICE, Batch, Operation, StreamRequest, create, retrieve
from kvstore.client.strategies import Strategy, supports
from kvstore.protocol import RETRIEVE, event_loop_factory
from kvstore.subprocesses import shielded
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

DEADLINE_S: Final = 30.0
"""Seconds, as in our client. A stream has no deadline."""
KEY_BYTES: Final = 8
VALUE: Final = bytes(16)
_METHOD = {"name": [{"service": SERVICE, "method": "Retrieve"}], "timeout": f"{DEADLINE_S:g}s"}
_WITH_DEADLINE = [*OPTIONS, ("grpc.service_config", json.dumps({"methodConfig": [_METHOD]}))]


class Shape(NamedTuple):
    """A strategy and its options."""

    strategy: Strategy
    in_flight: int = 1
    streams: int = 1
    batch: int = 1

    def __str__(self) -> str:
        streams = f" on {self.streams} streams" if supports(self.strategy).streams else ""
        batches = f", batches of {self.batch}" if self.batch > 1 else ""
        return f"{self.strategy.__name__} x{self.in_flight}{streams}{batches}"


class _Repeated(Iterator[Any], AsyncIterator[Any]):
    """The same operation, or batch of operations, until the time is over."""

    def __init__(self, key: bytes, batch: int | None, seconds: float) -> None:
        self._each, self._operation = batch or 1, retrieve(key)
        self._batch: Batch | None = None
        if batch is not None:
            self._batch = Batch(
                bytes([RETRIEVE]) * batch, [key] * batch, [], written=[VALUE] * batch
            )
        self._ids = itertools.count(1)
        self._sent = 0
        self._cpu_s, self._start_s = time.process_time(), time.perf_counter()
        self._end_s = self._start_s + seconds

    def __next__(self) -> Operation | StreamRequest:
        if time.perf_counter() >= self._end_s:
            raise StopIteration
        self._sent += 1
        if self._batch is None:
            return self._operation
        return StreamRequest(next(self._ids), self._batch)

    async def __anext__(self) -> Operation | StreamRequest:
        try:
            return self.__next__()
        except StopIteration:
            raise StopAsyncIteration from None

    def done(self) -> tuple[int, float, float]:
        """Return the operations until now, their seconds and CPU seconds."""
        took_s, cpu_s = time.perf_counter() - self._start_s, time.process_time() - self._cpu_s
        return self._sent * self._each, took_s, cpu_s


def run(shape: Shape, address: str, seconds: float, *, measured: bool = False) -> Turn:
    """Take one turn, with the settings of the garbage collector that our client has.

    Ctrl-C takes effect after the turn: within gRPC's code it can leave a call that was started and
    not watched, and closing the channel waits for that call for ever.

    Raises `RuntimeError` if the server did not answer every operation OK, by its own count.
    """
    with shielded():
        return _turn(shape, address, seconds, measured)


def _turn(shape: Shape, address: str, seconds: float, measured: bool) -> Turn:
    in_loop = inspect.iscoroutinefunction(shape.strategy)
    opened: Callable[[], Any] = partial(measured_channel, address, deadline_s=DEADLINE_S)
    if not measured:
        api: Any = grpc.aio if in_loop else grpc
        opened = partial(api.insecure_channel, address, options=_WITH_DEADLINE)
    key = secrets.token_bytes(KEY_BYTES)
    with grpc.insecure_channel(address, options=OPTIONS) as beside:
        creation = create(key, VALUE)
        creation.rpc(KeyValueServiceStub(beside))(
            creation.request, wait_for_ready=True, timeout=CONNECT_S
        )
        before = _answered_ok(beside, address)
        with gc_control.settled():
            if in_loop:
                with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
                    done = runner.run(_coroutines(shape, opened, key, seconds))
            else:
                done = _threads(shape, opened, key, seconds)
        operations, took_s, cpu_s = done
        answered = _answered_ok(beside, address) - before
    if answered != operations:
        raise RuntimeError(f"{shape}: {operations} operations, and {answered} were answered OK")
    return Turn(operations / took_s, cpu_s / operations)


def _answered_ok(channel: grpc.Channel, address: str) -> int:
    counted = server_status(channel, Target(address), CONNECT_S).operations
    return int(counted.get("retrieve/OK", 0))


def _threads(
    shape: Shape, opened: Callable[[], Any], key: bytes, seconds: float
) -> tuple[int, float, float]:
    with opened() as channel:
        stub, first = KeyValueServiceStub(channel), create(secrets.token_bytes(KEY_BYTES), VALUE)
        first.rpc(stub)(first.request, timeout=CONNECT_S, wait_for_ready=True)
        operations = _Repeated(key, None, seconds)
        shape.strategy(stub, operations, shape.in_flight)
        return operations.done()


async def _coroutines(
    shape: Shape, opened: Callable[[], Any], key: bytes, seconds: float
) -> tuple[int, float, float]:
    async with opened() as channel:
        await channel.channel_ready()
        streams = supports(shape.strategy).streams
        operations = _Repeated(key, shape.batch if streams else None, seconds)
        stub, each = KeyValueServiceStub(channel), max(1, shape.in_flight // shape.streams)
        await asyncio.gather(
            *(shape.strategy(stub, operations, each) for _ in range(shape.streams))
        )
        return operations.done()
