"""One channel to several servers; requests that wait for the slowest of them; shared ports."""

import secrets
import select
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

import grpc
import numpy as np
import numpy.typing as npt

from kvstore.client.channel import CONNECT_S, connected, server_status, target_of
from kvstore.server import Server, serving
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

DEADLINE_S: Final = 10.0
"""The longest wait for a reply; a request without one counts as slow."""

STALL_PERIOD_S, PERIOD_STEP = 0.5, 0.31
"""Seconds between two stalls of the first server; the period grows by this share per server."""


@dataclass(frozen=True)
class FanOut:
    """The time of each server for each request, in seconds from the due time."""

    answer_s: npt.NDArray[np.float64]
    """One row for each request, one column for each server; infinite without a reply."""

    @property
    def requests(self) -> int:
        """Return the number of requests."""
        return len(self.answer_s)

    def residence_s(self, servers: int) -> npt.NDArray[np.float64]:
        """Return the seconds until all of `servers` servers had answered.

        Any choice of servers is as good, so each request counts once for every group of neighbours
        in a circle: 1 and 2, 2 and 3, ..., the last and 1.
        """
        count = self.answer_s.shape[1]
        if not 1 <= servers <= count:
            raise ValueError(f"servers must be from 1 to {count}, got {servers}")
        starts = range(count if servers < count else 1)
        circles = [[(start + n) % count for n in range(servers)] for start in starts]
        return np.concatenate([self.answer_s[:, each].max(axis=1) for each in circles])

    def slow_share(self, servers: int, longer_than_s: float) -> float:
        """Return the share of requests to `servers` servers that took longer than this."""
        return float(np.mean(self.residence_s(servers) > longer_than_s))


@contextmanager
def stalling(
    servers: int, *, slow_share: float, slow_s: float, disk_s: float
) -> Iterator[list[Server]]:
    """Yield servers whose disks stall periodically, each with its own period.

    A share `slow_share` of the replies takes longer than `slow_s` seconds: those that begin early
    enough in a stall. The others take `disk_s`.
    """
    quick = {"use_asyncio": True, "locking": "per_key", "write_delay_s": 0, "read_delay_s": disk_s}
    with ExitStack() as running:
        yield [
            running.enter_context(
                serving(
                    **quick,
                    stall_s=slow_share * every_s + slow_s - disk_s,
                    stall_every_s=every_s,
                )
            )
            for every_s in (
                STALL_PERIOD_S * (1 + PERIOD_STEP * number) for number in range(servers)
            )
        ]


def fan_out(servers: Sequence[object], due_times: Iterable[float], *, duration_s: float) -> FanOut:
    """Send a request to every server at each due time, without waiting for earlier replies.

    Due times are seconds from the start; those from `duration_s` on are left out. Raise
    `ServerNotReached` and `WrongServer` as every client does.
    """
    key = secrets.token_bytes(8)
    due_s = [*_before(due_times, duration_s)]
    answer_s = np.full((len(due_s), len(servers)), np.inf)
    with ExitStack() as open_channels:
        stubs = []
        for server in servers:
            channel, _ = open_channels.enter_context(connected(target_of(server)))
            stubs.append(kvstore_pb2_grpc.KeyValueServiceStub(channel))
            stubs[-1].Create(pb.CreateRequest(key=key, value=b"value"), timeout=DEADLINE_S)
        pending, began_s = _Pending(), time.perf_counter()
        for number, due in enumerate(due_s):
            time.sleep(max(0.0, began_s + due - time.perf_counter()))
            for place, stub in enumerate(stubs):
                call = stub.Retrieve.future(pb.RetrieveRequest(key=key), timeout=DEADLINE_S)

                def done(call: grpc.Future, number: int = number, place: int = place) -> None:
                    if not call.cancelled() and call.exception() is None:
                        passed_s = time.perf_counter() - began_s
                        answer_s[number, place] = passed_s - due_s[number]
                    pending.remove()

                pending.add()
                call.add_done_callback(done)
        pending.wait_for_none()
    return FanOut(answer_s)


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
            stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
            stub.Create(pb.CreateRequest(key=key, value=b"value"), timeout=DEADLINE_S)


def spread_over(
    servers: Sequence[object], channel: grpc.Channel, *, in_flight: int, duration_s: float
) -> Spread:
    """Read one key over the channel, with `in_flight` calls, and see who answered.

    Every server has a copy of the key. The channel stays open. Raise `RuntimeError` if a call
    fails, and `ServerNotReached` as every client does.
    """
    key = secrets.token_bytes(8)
    copy_key(servers, key)
    request = pb.RetrieveRequest(key=key)
    retrieve = kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve
    for _ in range(4 * len(servers)):  # connections are established one after the other
        retrieve(request, timeout=DEADLINE_S, wait_for_ready=True)
        time.sleep(0.01)
    before = _retrieved(servers)
    free, failed = threading.Semaphore(in_flight), threading.Event()

    def done(call: grpc.Future) -> None:
        if call.cancelled() or call.exception() is not None:
            failed.set()
        free.release()

    began_s = time.perf_counter()
    while time.perf_counter() < began_s + duration_s and not failed.is_set():
        free.acquire()
        retrieve.future(request, timeout=DEADLINE_S).add_done_callback(done)
    for _ in range(in_flight):
        free.acquire()
    window_s = time.perf_counter() - began_s
    if failed.is_set():
        raise RuntimeError("a call over this channel failed: does each of the servers still run?")
    after = _retrieved(servers)
    return Spread(tuple(b - a for a, b in zip(before, after, strict=True)), window_s)


def _retrieved(servers: Sequence[object]) -> list[int]:
    """Return how many reads each server has answered OK, by its own count."""
    counts = []
    for server in servers:
        with connected(target_of(server)) as (_, status):
            counts.append(status.operations.get("retrieve/OK", 0))
    return counts


class _Pending:
    """The number of calls without a reply; callbacks run in gRPC's own threads."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def add(self) -> None:
        with self._changed:
            self._count += 1

    def remove(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait_for_none(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0, timeout=2 * DEADLINE_S)


def _before(times_s: Iterable[float], end_s: float) -> Iterable[float]:
    for at_s in times_s:
        if at_s >= end_s:
            return
        yield at_s


def callers_seen(server: object, channels: int, *, apart: bool) -> int:
    """Return the number of connections that a server sees for `channels` open channels.

    Channels of one process to one address share a connection. With `apart`, each has its own.
    Raise `ServerNotReached` as every client does.
    """
    target = target_of(server)
    options = [("grpc.use_local_subchannel_pool", int(apart))]
    with ExitStack() as stack:
        opened = [
            stack.enter_context(grpc.insecure_channel(target.address, options=options))
            for _ in range(channels)
        ]
        reports = [server_status(each, target, CONNECT_S, wait_for_ready=True) for each in opened]
    return len({report.peer for report in reports})


HOST = "127.0.0.1"


def has_shared_ports() -> bool:
    """Return whether several servers can share one port here, as on Linux (SO_REUSEPORT).

    Other systems refuse, or give all connections to the latest server.
    """
    return sys.platform.startswith("linux") and hasattr(socket, "SO_REUSEPORT")


def servers_by_connection(servers: int, connections: int) -> list[int]:
    """Return the server that accepted each connection, of `servers` servers on one port.

    Raise `OSError` if the system does not share ports: see `has_shared_ports`.
    """
    with ExitStack() as open_sockets:
        listening: list[socket.socket] = []
        port = 0
        for _ in range(servers):
            each = open_sockets.enter_context(socket.socket())
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind((HOST, port))
            each.listen()
            port = each.getsockname()[1]
            listening.append(each)
        return [_server_of_next_connection(listening, port) for _ in range(connections)]


def _server_of_next_connection(listening: list[socket.socket], port: int) -> int:
    with socket.create_connection((HOST, port), timeout=5):
        (chosen, *_), _, _ = select.select(listening, [], [], 5)
        chosen.accept()[0].close()
        return listening.index(chosen)
