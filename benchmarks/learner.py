"""A strategy as a learner runs it: the generated stub on a channel, and operations.

The channel is the measured one or gRPC's own, so the ratio of two runs is the cost of measuring.
Both give each unary call the deadline that the bare loops set. On the plain channel, a service
config does.
"""

import asyncio
import inspect
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, NamedTuple

import grpc

from benchmarks.loops import DEADLINE_S, VALUE, LoopOptions, LoopResult
from kvstore.client import measured_channel
from kvstore.client.channel import OPTIONS
from kvstore.client.messages import SERVICE, Batch, Operation, StreamRequest, retrieve
from kvstore.client.strategies import Strategy, supports
from kvstore.protocol import RETRIEVE, event_loop_factory
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

CONNECT_S = 10.0


class Channel(NamedTuple):
    """How to open a channel to an address, for threads and for asyncio."""

    threads: Callable[[str], AbstractContextManager[Any]]
    asyncio: Callable[[str], AbstractAsyncContextManager[Any]]


_METHOD = {"name": [{"service": SERVICE, "method": "Retrieve"}], "timeout": f"{DEADLINE_S:g}s"}
_WITH_DEADLINE = [*OPTIONS, ("grpc.service_config", json.dumps({"methodConfig": [_METHOD]}))]


def _measured(address: str) -> measured_channel:
    return measured_channel(address, deadline_s=DEADLINE_S)


CHANNELS: Final[Mapping[str, Channel]] = {
    "measured": Channel(_measured, _measured),
    "plain": Channel(
        lambda address: grpc.insecure_channel(address, options=_WITH_DEADLINE),
        lambda address: grpc.aio.insecure_channel(address, options=_WITH_DEADLINE),
    ),
}


class Repeated(Iterator[Any], AsyncIterator[Any]):
    """The same operation, or batch of operations, until the time is over."""

    def __init__(self, options: LoopOptions, in_messages: bool) -> None:
        self._each = options.batch
        self._operation = retrieve(options.key)
        self._batch: Batch | None = None
        if in_messages:
            count = options.batch
            self._batch = Batch(
                bytes([RETRIEVE]) * count, [options.key] * count, [], written=[VALUE] * count
            )
        self._ids = itertools.count(1)
        self._sent = 0
        self._cpu_s, self._start_s = time.process_time(), time.perf_counter()
        self._end_s = self._start_s + options.seconds

    def __next__(self) -> Operation | StreamRequest:
        if time.perf_counter() >= self._end_s:
            raise StopIteration
        self._sent += 1
        return (
            self._operation if self._batch is None else StreamRequest(next(self._ids), self._batch)
        )

    async def __anext__(self) -> Operation | StreamRequest:
        try:
            return self.__next__()
        except StopIteration:
            raise StopAsyncIteration from None

    def result(self) -> LoopResult:
        """Return what was done until now."""
        took_s, cpu_s = time.perf_counter() - self._start_s, time.process_time() - self._cpu_s
        return LoopResult(self._sent * self._each, took_s, cpu_s)


def run(strategy: Strategy, options: LoopOptions, channel: Channel) -> LoopResult:
    """Run a strategy until the time is over. The clock starts when the connection is ready."""
    if not inspect.iscoroutinefunction(strategy):
        with channel.threads(options.address) as opened:
            _ready(opened, options)
            operations = Repeated(options, in_messages=False)
            strategy(KeyValueServiceStub(opened), operations, options.in_flight)
            return operations.result()
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(_run(strategy, options, channel))


async def _run(strategy: Strategy, options: LoopOptions, channel: Channel) -> LoopResult:
    streams = options.streams if supports(strategy).streams else 1
    async with channel.asyncio(options.address) as opened:
        await opened.channel_ready()
        operations = Repeated(options, in_messages=supports(strategy).streams)
        stub, each = KeyValueServiceStub(opened), max(1, options.in_flight // streams)
        await asyncio.gather(*(strategy(stub, operations, each) for _ in range(streams)))
        return operations.result()


def _ready(channel: grpc.Channel, options: LoopOptions) -> None:
    request = retrieve(options.key)
    request.rpc(KeyValueServiceStub(channel))(
        request.request, timeout=CONNECT_S, wait_for_ready=True
    )
