"""Calls over channels to several servers, and which of them answered."""

import functools
import itertools
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

import grpc

from kvstore.client.channel import connected, target_of
from kvstore.v1.kvstore_pb2 import CreateRequest, RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

DEADLINE_S: Final = 10.0
"""The longest wait for a reply."""


@dataclass(frozen=True)
class Spread:
    """Calls over one channel, as the servers counted them."""

    answered: tuple[int, ...]
    """Calls that each server answered."""
    window_s: float
    """Seconds from the first call to the end of the last one."""

    @property
    def answered_per_s(self) -> float:
        """Return the throughput of all servers together, in calls/s."""
        return sum(self.answered) / self.window_s


def copy_key(servers: Sequence[object], key: bytes) -> None:
    """Create the same key on every server, so that each can answer every read of it."""
    for server in servers:
        with connected(target_of(server)) as (channel, _):
            stub = KeyValueServiceStub(channel)
            stub.Create(CreateRequest(key=key, value=b"value"), timeout=DEADLINE_S)


def spread_over(
    servers: Sequence[object], *channels: grpc.Channel, in_flight: int, duration_s: float
) -> Spread:
    """Read one key over the channels, with `in_flight` calls, and see who answered.

    The channels have equal shares of these calls, and stay open. Every server has a copy of the
    key. Raise `RuntimeError` if a call fails, and `ServerNotReached` as every client does.
    """
    key = secrets.token_bytes(8)
    copy_key(servers, key)
    request = RetrieveRequest(key=key)
    methods = [KeyValueServiceStub(channel).Retrieve for channel in channels]
    for retrieve in methods:
        for _ in range(4 * len(servers)):  # connections are established one after the other
            retrieve(request, timeout=DEADLINE_S, wait_for_ready=True)
            time.sleep(0.01)
    before = _retrieved(servers)
    free: SimpleQueue[Any] = SimpleQueue()
    for retrieve in itertools.islice(itertools.cycle(methods), in_flight):
        free.put(retrieve)
    failed = threading.Event()

    def done(retrieve: Any, call: grpc.Future) -> None:
        if call.cancelled() or call.exception() is not None:
            failed.set()
        free.put(retrieve)

    began_s = time.perf_counter()
    while time.perf_counter() < began_s + duration_s and not failed.is_set():
        retrieve = free.get()
        call = retrieve.future(request, timeout=DEADLINE_S)
        call.add_done_callback(functools.partial(done, retrieve))
    for _ in range(in_flight):
        free.get()
    window_s = time.perf_counter() - began_s
    if failed.is_set():
        raise RuntimeError("a call over a channel failed: does each of the servers still run?")
    after = _retrieved(servers)
    return Spread(tuple(b - a for a, b in zip(before, after, strict=True)), window_s)


def _retrieved(servers: Sequence[object]) -> list[int]:
    """Return how many reads each server has answered OK, by its own count."""
    counts = []
    for server in servers:
        with connected(target_of(server)) as (_, status):
            counts.append(status.operations.get("retrieve/OK", 0))
    return counts
