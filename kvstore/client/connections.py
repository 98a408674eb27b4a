"""Connections: how many there really are, and which of them a call takes.

Channels to one address share a TCP connection unless each keeps to itself, so the server is
asked over each what it sees at the other end: as many callers as connections, or no run.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import Any

import grpc

from kvstore.client.channel import CONNECT_S, OPTIONS, ServerNotReached, Target, server_status
from kvstore.client.requests import METHODS
from kvstore.client.route import route
from kvstore.client.workload import Operation
from kvstore.v1 import kvstore_pb2, kvstore_pb2_grpc, server_status_pb2_grpc
from kvstore.v1 import server_status_pb2 as pb

PIPELINE = "/{}/Pipeline".format(
    kvstore_pb2.DESCRIPTOR.services_by_name["KeyValueService"].full_name
)


class ConnectionsShared(RuntimeError):
    """There are fewer connections than were asked for."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection that stands."""

    channel: Any
    """A channel of `grpc`, or of `grpc.aio` where the calls are made on an event loop."""
    connect_s: float
    """Seconds from opening it until calls could be sent: TCP's and HTTP/2's hand-shake."""
    peer: str
    """What the server calls this end; empty where it does not tell."""


class Connections:
    """The connections of one client: opened when first needed, by threads or on a loop.

    A single one for threads is the channel the client was given.
    """

    def __init__(
        self, channel: grpc.Channel, address: str, count: int, on_stand: Callable[[], object]
    ) -> None:
        each = Target(address).shards
        self.shards = len(each)
        """Servers that share out the keys; connection i leads to server i modulo this."""
        self._targets = each * count
        self._route = route(self.shards, count)
        self._on_stand = on_stand
        self._methods = [] if self._route else [methods(channel)]
        self._amethods: list[dict[int, Any]] = []
        self._lock = Lock()
        self._channels = ExitStack()
        self._streams = 0
        self.opened: Sequence[Opened] = ()

    @property
    def verified(self) -> int:
        """How many of those opened the server sees; 0 where it does not tell."""
        return _count(self._targets, self.opened)

    def stand(self) -> None:
        """Open those that the calls of threads take, unless all stand or a loop has its own."""
        with self._lock:
            if not self._methods and not self._amethods:
                self.opened = open_all(self._targets, self._channels)
                self._methods = [methods(each.channel) for each in self.opened]
                self._on_stand()

    def take(self, operation: Operation) -> tuple[int, dict[int, Any]]:
        """For a call of a thread: its connection, and the methods of it by kind."""
        if self._route is None:
            return 0, self._methods[0]
        self.stand()
        number = self._route.take(operation)
        return number, self._methods[number]

    async def aopen(self, stack: AsyncExitStack) -> None:
        """Open them on the event loop that runs, to be closed with `stack`."""
        self.opened = await aopen_all(self._targets, stack)
        self._amethods = [methods(each.channel) for each in self.opened]
        self._on_stand()

    def atake(self, operation: Operation) -> tuple[int, dict[int, Any]]:
        """For a call of a task: its connection, and the methods of it by kind."""
        number = 0 if self._route is None else self._route.take(operation)
        return number, self._amethods[number]

    def give(self, connection: int) -> None:
        """A call has ended on this connection."""
        if self._route is not None:
            self._route.give(connection)

    def next_for_stream(self) -> tuple[int, Any]:
        """The connection of the next stream, in turn, and what opens one on it.

        Requests are given to it encoded, see `stream_request`; the stub of the contract would
        encode each anew.
        """
        number = self._streams % len(self._targets)
        self._streams += 1
        return number, self.opened[number].channel.stream_stream(
            PIPELINE, response_deserializer=kvstore_pb2.PipelineResponse.FromString
        )

    def close(self) -> None:
        """Close those that threads opened; the channel that was given is the giver's."""
        self._channels.close()


def methods(channel: Any) -> dict[int, Any]:
    """The methods of the key-value service by kind of operation."""
    stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
    return {kind: getattr(stub, method) for kind, method in METHODS.items()}


class _Opening:
    """A connection that is being opened; several are at once."""

    def __init__(self, target: Target, stack: ExitStack) -> None:
        self._target = target
        self._since_s = self._ready_s = time.perf_counter()
        self._channel = stack.enter_context(grpc.insecure_channel(target.address, options=OPTIONS))
        self._ready = grpc.channel_ready_future(self._channel)
        self._ready.add_done_callback(self._stamp)

    def _stamp(self, _: object) -> None:
        self._ready_s = time.perf_counter()

    def finish(self) -> Opened:
        try:
            self._ready.result(CONNECT_S)
        except grpc.FutureTimeoutError:
            raise _not_reached(self._target) from None
        peer = server_status(self._channel, self._target, CONNECT_S).peer
        return Opened(self._channel, self._ready_s - self._since_s, peer)


def open_all(targets: Sequence[Target], stack: ExitStack) -> list[Opened]:
    """One connection to each target, all closed with `stack`.

    Raises:
        ServerNotReached: one did not stand within `CONNECT_S`.
        ConnectionsShared: the server sees fewer than there are targets.
    """
    openings = [_Opening(target, stack) for target in targets]
    return _distinct(targets, [opening.finish() for opening in openings])


async def aopen_all(targets: Sequence[Target], stack: AsyncExitStack) -> list[Opened]:
    """The same on the event loop that runs; raises what `open_all` raises."""

    async def one(target: Target) -> Opened:
        since_s = time.perf_counter()
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(target.address, options=OPTIONS)
        )
        try:
            await asyncio.wait_for(channel.channel_ready(), CONNECT_S)
        except TimeoutError:
            raise _not_reached(target) from None
        connect_s = time.perf_counter() - since_s
        return Opened(channel, connect_s, await _peer(channel))

    return _distinct(targets, await asyncio.gather(*(one(target) for target in targets)))


async def _peer(channel: grpc.aio.Channel) -> str:
    stub = server_status_pb2_grpc.ServerStatusServiceStub(channel)
    try:
        answer = await stub.GetServerStatus(pb.GetServerStatusRequest(), timeout=CONNECT_S)
    except grpc.aio.AioRpcError:
        return ""  # a server of another make, or one that is going: the calls will tell
    return str(answer.peer)


def _count(targets: Sequence[Target], opened: Sequence[Opened]) -> int:
    """How many connections the servers see; 0 where one does not tell.

    Two servers may each see the same port at our end, and yet these are two connections.
    """
    ends = {(target, each.peer) for target, each in zip(targets, opened, strict=True)}
    return 0 if any(not each.peer for each in opened) else len(ends)


def _distinct(targets: Sequence[Target], opened: list[Opened]) -> list[Opened]:
    seen = _count(targets, opened)
    if 0 < seen < len(opened):
        raise ConnectionsShared(
            f"{len(opened)} connections were asked for, but the server sees {seen}:"
            " channels share them. Is a proxy in between?"
        )
    return opened


def _not_reached(target: Target) -> ServerNotReached:
    return ServerNotReached(
        f"no connection to {target.address} stood within {CONNECT_S:g} s: is the server running?"
    )
