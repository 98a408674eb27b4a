"""The client of a run: a function of addresses, operations and the most calls in flight."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import grpc
from IPython.core.getipython import get_ipython
from tqdm.auto import tqdm

from kvstore.client.messages import Operation
from kvstore.protocol import CREATE, UPDATE
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

Client = Callable[[Sequence[str], Iterator[Operation], int], object]
"""Sends every operation with gRPC, at most so many at a time; returns when all calls have ended."""


def plain(
    addresses: Sequence[str],
    operations: Iterator[Operation],
    in_flight: int,
    connections: int = 1,
) -> None:
    """Send each operation once, to the addresses in turn, over `connections` to each."""
    with ExitStack() as stack:
        stubs = []
        for address in [*addresses] * connections:
            channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
            stubs.append(KeyValueServiceStub(stack.enter_context(channel)))
        free = threading.Semaphore(in_flight)
        for operation, stub in zip(operations, itertools.cycle(stubs), strict=False):
            free.acquire()
            call = operation.rpc(stub).future(operation.request)
            call.add_done_callback(lambda _: free.release())
        for _ in range(in_flight):  # all places are free again: all calls have ended
            free.acquire()


def patient(
    addresses: Sequence[str],
    operations: Iterator[Operation],
    in_flight: int,
    timeout_s: float = 1.0,
    connections: int = 1,
) -> None:
    """Send an operation again, to the other server, when its call fails.

    It also fails when it takes `timeout_s`. Each further attempt may take twice as long.
    """
    with ExitStack() as stack:
        stubs = []
        own = [("grpc.use_local_subchannel_pool", 1)]
        for address in [*addresses] * connections:
            channel = grpc.insecure_channel(address, own)
            stubs.append(KeyValueServiceStub(stack.enter_context(channel)))
        free = threading.Semaphore(in_flight)

        def send(operation: Operation, number: int, attempt: int = 1) -> None:
            stub = stubs[number % len(stubs)]
            # Longer each time: else a slow service gets more and more calls.
            patience_s = timeout_s * 2 ** (attempt - 1)
            call = operation.rpc(stub).future(operation.request, timeout=patience_s)
            call.add_done_callback(lambda call: ended(call, operation, number, attempt))

        def ended(call: Any, operation: Operation, number: int, attempt: int) -> None:
            if call.code() is grpc.StatusCode.OK or attempt == ATTEMPTS:
                free.release()
            else:  # the operation keeps its place
                send(operation, number + 1, attempt + 1)

        for number, operation in enumerate(operations):
            free.acquire()
            send(operation, number)
        for _ in range(in_flight):
            free.acquire()


ATTEMPTS = 5
"""The most attempts of `patient` for one operation."""


def operations_of(begun: dict[str, Any], doing: str) -> Iterator[Operation]:
    """Yield the operations of a run, each when it is due; in a closed loop until time is over."""
    value = bytes(begun["value_bytes"])
    due_s, duration_s = begun["due_s"], begun["duration_s"]
    began_s = time.perf_counter()
    with tqdm(
        total=round(duration_s), desc=doing, unit="s", leave=False, disable=get_ipython() is None
    ) as bar:
        for serial, (kind, item) in enumerate(zip(begun["kinds"], begun["items"], strict=True)):
            passed_s = time.perf_counter() - began_s
            if due_s is None and passed_s >= duration_s:
                return
            if due_s is not None and due_s[serial] > passed_s:
                time.sleep(due_s[serial] - passed_s)
            if int(passed_s) > bar.n:
                bar.update(int(passed_s) - bar.n)
            key = b"item-%d/%d" % (item, serial)
            yield Operation(kind, key, value if kind in (CREATE, UPDATE) else b"")
