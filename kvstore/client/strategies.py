"""The strategies: how many calls a client has in flight. Read them: they are the course.

Each is a function of `(stub, operations, in_flight)`, written in gRPC's own API. It sends every
operation and returns when each call has ended, with any status. A `def` gets the generated stub
on a `grpc.Channel`, an `async def` the stub on a `grpc.aio.Channel`. `operations` is an iterator,
which in an open loop waits until the next operation is due. A strategy counts nothing and measures
nothing: the channel records every call.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import grpc

Strategy = Callable[..., Any]
"""`strategy(stub, operations, in_flight)`."""


def blocking(stub, operations, in_flight=1):
    """Wait for each reply before the next call."""
    for operation in operations:
        try:
            operation.rpc(stub)(operation.request)
        except grpc.RpcError:
            pass  # a failed call is data: the channel has recorded it


def threads(stub, operations, in_flight):
    """Run `blocking` in each of `in_flight` threads."""
    with ThreadPoolExecutor(in_flight) as pool:
        callers = [pool.submit(blocking, stub, operations) for _ in range(in_flight)]
    for caller in callers:
        caller.result()  # raises the error of the thread, if any


def futures(stub, operations, in_flight=0):
    """Send without waiting; nothing limits how many calls are in flight."""
    sent, ended = 0, threading.Semaphore(0)
    for operation in operations:
        call = operation.rpc(stub).future(operation.request)
        call.add_done_callback(lambda _: ended.release())
        sent += 1
    for _ in range(sent):
        ended.acquire()


def bounded(stub, operations, in_flight):
    """Send without waiting; a semaphore limits how many calls are in flight."""
    free = threading.Semaphore(in_flight)
    for operation in operations:
        free.acquire()
        call = operation.rpc(stub).future(operation.request)
        call.add_done_callback(lambda _: free.release())
    for _ in range(in_flight):  # all of the limit is free again: every call has ended
        free.acquire()


def chained(stub, operations, in_flight):
    """Start `in_flight` calls; the end of each call sends the next one.

    The limit is that of `bounded`, but no sending thread has to wake up when a call ends.
    """
    ended = SimpleQueue()

    def send_next(_=None):
        try:
            operation = next(operations)
            call = operation.rpc(stub).future(operation.request)
        except BaseException as error:  # gRPC's thread would only log it
            ended.put(error)
        else:
            call.add_done_callback(send_next)

    for _ in range(in_flight):
        send_next()
    for _ in range(in_flight):
        error = ended.get()
        if not isinstance(error, StopIteration):  # no operation is left
            raise error


async def tasks(stub, operations, in_flight):
    """Run `in_flight` asyncio tasks; each waits for its own replies."""

    async def caller():
        async for operation in operations:
            try:
                await operation.rpc(stub)(operation.request)
            except grpc.RpcError:
                pass  # a failed call is data: the channel has recorded it

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(caller())


async def pipelined(stub, operations, in_flight):
    """Keep `in_flight` requests open on one stream; replies come in any order."""
    free = asyncio.Semaphore(in_flight)
    call = stub.Pipeline()

    async def receive():
        async for _ in call:
            free.release()

    async with asyncio.TaskGroup() as group:
        group.create_task(receive())
        async for operation in operations:
            await free.acquire()
            await call.write(operation.request)
        await call.done_writing()


@dataclass(frozen=True, kw_only=True)
class Supports:
    """What a strategy supports beyond one operation in each unary call."""

    limit: bool = True
    """Whether `in_flight` limits the calls in flight."""
    due_times: bool = True
    """Whether it can run an open loop."""
    joins: bool = False
    """Whether it has several callers, which can join one by one."""
    streams: bool = False
    """Whether it sends on a stream. Then a run may have several streams, each with an equal share
    of `in_flight`, and a request may carry a batch of operations."""


_DECLARED = {
    threads: Supports(joins=True),
    futures: Supports(limit=False),
    chained: Supports(due_times=False),
    tasks: Supports(joins=True),
    pipelined: Supports(streams=True),
}


def supports(strategy: Strategy) -> Supports:
    """Return what a strategy supports: as declared here, or by its attribute `supports`."""
    declared = _DECLARED.get(strategy) or getattr(strategy, "supports", None)
    return declared if isinstance(declared, Supports) else Supports()


STRATEGIES: tuple[Strategy, ...] = (
    blocking,
    threads,
    futures,
    bounded,
    chained,
    tasks,
    pipelined,
)
"""All of them, for tests and comparisons."""
