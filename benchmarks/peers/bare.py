"""The shortest loops that grpcio allows over the same stub, in a process of their own.

What ours costs beyond them is what drawing, scheduling, recording and accounting cost. They make
a request for each call and give it a deadline, as anybody should, and answer for nothing: no
record of a call, no account of what was lost. Channel, event loop and garbage collector are set
as ours are, so that only the loops differ.
"""

import argparse
import asyncio
import itertools
import json
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc
import psutil

from kvstore import garbage
from kvstore.client.channel import OPTIONS
from kvstore.codes import RETRIEVE
from kvstore.event_loop import event_loop_factory
from kvstore.lifeline import child, end_with_parent, interrupt_main
from kvstore.server import Server
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

START_AND_END_S = 30.0
"""Seconds beyond the run itself for the process to come up and the last answers to come."""

DEADLINE_S = 30.0
"""As ours: it costs gRPC a timer for each unary call. A stream has none."""


class Bare(NamedTuple):
    """What a bare loop did."""

    per_s: float
    """Operations per second."""
    client_cpu_s: float
    """Processor seconds for each operation."""
    server_cpu_s: float


def bare(
    shape: str, server: Server, *, in_flight: int, seconds: float, streams: int = 1, batch: int = 1
) -> Bare:
    """Retrieve one small value for so long through a loop of this shape, one of `LOOPS`.

    Raises `RuntimeError` with the loop's own words when it failed.
    """
    watched = psutil.Process(server.pid)
    arguments = [
        shape, server.address,
        f"--in-flight={in_flight}", f"--seconds={seconds}",
        f"--streams={streams}", f"--batch={batch}",
    ]  # fmt: skip
    before = watched.cpu_times()
    with child("benchmarks.peers.bare", arguments) as process:
        told = process.first_line(seconds + START_AND_END_S)
        after = watched.cpu_times()
        if not told:
            raise RuntimeError(f"the bare {shape} loop ended early: {process.error_text()}")
    operations, took_s, cpu_s = json.loads(told)
    server_s = after.user + after.system - before.user - before.system
    return Bare(operations / took_s, cpu_s / operations, server_s / operations)


def sync(address: str, key: bytes, in_flight: int, end_s: float, **_: int) -> int:
    """Wait for each answer, in each of so many threads."""
    calls = [0] * in_flight
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        retrieve = kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve

        def loop(number: int) -> None:
            while time.perf_counter() < end_s:
                retrieve(pb.RetrieveRequest(key=key), timeout=DEADLINE_S)
                calls[number] += 1

        callers = [threading.Thread(target=loop, args=(number,)) for number in range(in_flight)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    return sum(calls)


def future(address: str, key: bytes, in_flight: int, end_s: float, **_: int) -> int:
    """Futures and a semaphore."""
    free = threading.Semaphore(in_flight)
    calls = 0

    def ended(answer: Any) -> None:
        answer.result()
        free.release()

    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        retrieve = kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve
        while time.perf_counter() < end_s:
            free.acquire()
            retrieve.future(pb.RetrieveRequest(key=key), timeout=DEADLINE_S).add_done_callback(
                ended
            )
            calls += 1
        for _each in range(in_flight):
            free.acquire()
    return calls


def chain(address: str, key: bytes, in_flight: int, end_s: float, **_: int) -> int:
    """Futures, each of which sends the next when it is done."""
    ended = threading.Semaphore(0)
    calls = itertools.count()

    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        retrieve = kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve

        def send(before: Any = None) -> None:
            if before is not None:
                before.result()
            if time.perf_counter() >= end_s:
                ended.release()
                return
            next(calls)
            retrieve.future(pb.RetrieveRequest(key=key), timeout=DEADLINE_S).add_done_callback(send)

        for _each in range(in_flight):
            send()
        for _each in range(in_flight):
            ended.acquire()
    return next(calls)


def aio(address: str, key: bytes, in_flight: int, end_s: float, **_: int) -> int:
    """Tasks that each wait for their own answer."""

    async def loop(retrieve: Any) -> int:
        calls = 0
        while time.perf_counter() < end_s:
            await retrieve(pb.RetrieveRequest(key=key), timeout=DEADLINE_S)
            calls += 1
        return calls

    async def loops() -> int:
        async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
            retrieve = kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve
            return sum(await asyncio.gather(*(loop(retrieve) for _ in range(in_flight))))

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(loops())


def stream(
    address: str, key: bytes, in_flight: int, end_s: float, *, streams: int, batch: int
) -> int:
    """Requests of `batch` operations on streams, `in_flight` of them open at any time."""

    async def one(stub: Any, window: int) -> int:
        call = stub.Pipeline()
        kinds, keys = bytes([RETRIEVE]) * batch, [key] * batch
        for number in range(window):
            await call.write(pb.PipelineRequest(id=number, kinds=kinds, keys=keys))
        answered, ended = 0, False
        async for _ in call:
            answered += 1
            if time.perf_counter() < end_s:
                await call.write(pb.PipelineRequest(id=answered, kinds=kinds, keys=keys))
            elif not ended:
                await call.done_writing()
                ended = True
        return answered

    async def all_of_them() -> int:
        async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
            stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
            shares = [in_flight // streams + (n < in_flight % streams) for n in range(streams)]
            return batch * sum(await asyncio.gather(*(one(stub, share) for share in shares)))

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(all_of_them())


LOOPS = {loop.__name__: loop for loop in (sync, future, chain, aio, stream)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one loop; print operations answered, seconds, processor seconds as JSON."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks.peers.bare")
    parse.add_argument("shape", choices=LOOPS)
    parse.add_argument("address")
    for name in ("in-flight", "streams", "batch"):
        parse.add_argument(f"--{name}", type=int, default=1)
    parse.add_argument("--seconds", type=float, default=1.0)
    parse.add_argument("--end-with-parent", type=int, required=True, metavar="PID")
    options = parse.parse_args(arguments)
    end_with_parent(options.end_with_parent, interrupt_main)
    key = secrets.token_bytes(8)
    with grpc.insecure_channel(options.address) as channel:
        create = kvstore_pb2_grpc.KeyValueServiceStub(channel).Create
        create(pb.CreateRequest(key=key, value=bytes(16)))
    own = psutil.Process()
    with garbage.settled():
        before, start_s = own.cpu_times(), time.perf_counter()
        operations = LOOPS[options.shape](
            options.address, key, options.in_flight, start_s + options.seconds,
            streams=options.streams, batch=options.batch,
        )  # fmt: skip
        took_s, after = time.perf_counter() - start_s, own.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    print(json.dumps([operations, took_s, cpu_s]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
