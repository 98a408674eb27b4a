"""A back end that holds every call until the trial releases it; it sees how many wait at once.

It runs in this process, on a loopback port: nothing is measured on it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import grpc

from kvstore.v1.kvstore_pb2 import RetrieveResponse
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    add_KeyValueServiceServicer_to_server,
)

THREADS: Final = 64
"""The most calls that the back end can hold."""
HELD_S: Final = 8.0
"""No call is held for longer, so that a trial that fails comes to its end."""
PATIENCE_S: Final = 2.0
"""How long a trial waits for something that a right answer does at once."""


class Arrived(NamedTuple):
    """A call as the back end saw it."""

    key: bytes
    deadline_s: float
    """Seconds that the call had left; a very large number where it had no deadline."""


class HeldBackEnd(KeyValueServiceServicer):
    """Answers Retrieve from `values`; a key in `failures` ends with that status."""

    def __init__(
        self, values: Mapping[bytes, bytes], failures: Mapping[bytes, grpc.StatusCode]
    ) -> None:
        self.arrived: list[Arrived] = []
        """Every call, in the order of arrival."""
        self.given_up: set[int] = set()
        """Calls by their number (from 0) that their caller ended before they were answered."""
        self._values, self._failures = values, failures
        self._open: set[int] = set()
        self._shut = False
        self._changed = threading.Condition()

    def Retrieve(self, request: Any, context: Any) -> RetrieveResponse:
        """Wait until the call is released, then answer."""
        with self._changed:
            number = len(self.arrived)
            self.arrived.append(Arrived(request.key, context.time_remaining()))
            self._open.add(number)
            self._changed.notify_all()
        if not context.add_callback(lambda: self._ended(number)):
            self._ended(number)
        with self._changed:
            self._changed.wait_for(lambda: not self._shut or number not in self._open, HELD_S)
            self._open.discard(number)
        if request.key in self._failures:
            context.abort(self._failures[request.key], "the check wants this call to fail")
        if request.key not in self._values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        return RetrieveResponse(value=self._values[request.key])

    def _ended(self, number: int) -> None:
        with self._changed:
            if number in self._open:
                self.given_up.add(number)

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Hold every call for as long as the block lasts."""
        self._shut = True
        try:
            yield
        finally:
            with self._changed:
                self._shut = False
                self._changed.notify_all()

    def open(self) -> int:
        """Return how many calls wait for their answer now."""
        with self._changed:
            return len(self._open)

    def release(self, number: int) -> None:
        """Let the call that arrived as this number (from 0) be answered."""
        with self._changed:
            self._open.discard(number)
            self._changed.notify_all()


@contextmanager
def held_back_end(
    values: Mapping[bytes, bytes], failures: Mapping[bytes, grpc.StatusCode]
) -> Iterator[tuple[HeldBackEnd, str]]:
    """Serve a back end while the block lasts; yield it and its address."""
    back_end = HeldBackEnd(values, failures)
    server = grpc.server(ThreadPoolExecutor(THREADS))
    add_KeyValueServiceServicer_to_server(back_end, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield back_end, f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait(PATIENCE_S)


def wait_until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> bool:
    """Return whether the condition became true within the time."""
    end_s = time.perf_counter() + patience_s
    while not condition():
        if time.perf_counter() > end_s:
            return False
        time.sleep(0.001)
    return True
