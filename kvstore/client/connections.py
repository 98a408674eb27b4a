"""The connections of a client, and the route that chooses the connection of each call.

By default, gRPC channels to one address share a connection; here each channel has its own. A route
shares the calls out evenly among the connections, sends each key to its server, or lets a function
choose the server.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

import grpc
import numpy as np

from kvstore.client.channel import (
    CONNECT_S,
    NOT_REACHED,
    Target,
    explained,
    raise_if_refused,
    server_status,
)
from kvstore.client.errors import ConnectionsShared, ServerNotReached
from kvstore.client.recording import Route
from kvstore.protocol import shard_of
from kvstore.v1 import server_status_pb2 as pb
from kvstore.v1 import server_status_pb2_grpc


class EvenShare:
    """A route that gives each connection the same number of slots; each call holds one.

    With N calls in flight over c connections, no connection has more than N / c, rounded up. In a
    closed loop, the next call takes the slot of the call that ended. So each connection keeps
    N / c calls in flight, as the clients of h2load do.
    """

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._free: deque[int] = deque()
        self._lock = Lock()

    def take(self, request: Any) -> int:
        """Return the connection of the slot that has been free for longest.

        If no slot is free, each connection gets one more.
        """
        while True:
            try:
                return self._free.popleft()  # atomic in the interpreter: it needs no lock
            except IndexError:
                with self._lock:
                    if not self._free:
                        self._free.extend(range(self._connections))

    def give(self, connection: int) -> None:
        """Free a slot of this connection."""
        self._free.append(connection)


class ByKey:
    """A route that sends each call to the server of its key, evenly over its connections.

    Connection i goes to server i modulo `shards`; each server has `connections` of them.
    """

    def __init__(self, shards: int, connections: int) -> None:
        self._shards = shards
        self._shares = [EvenShare(connections) for _ in range(shards)]

    def take(self, request: Any) -> int:
        """Return a connection to the server that has the request's key."""
        shard = shard_of(request.key, self._shards)
        return self._shares[shard].take(request) * self._shards + shard

    def give(self, connection: int) -> None:
        """Free the connection of a call that has ended."""
        self._shares[connection % self._shards].give(connection // self._shards)


Choose = Callable[[list[int]], int]
"""A function that chooses the server of the next call: its number, from 0. Its argument has the
number of calls that this client has open at each server."""


class Chosen:
    """A route that asks a function for the server of each call; each server has one connection."""

    def __init__(self, choose: Choose, servers: int) -> None:
        self._choose = choose
        self._open_calls = [0] * servers
        self._lock = Lock()

    def take(self, request: Any) -> int:
        """Return the server that the function chooses.

        Raises `ValueError` unless that is the number of a server, and what the function raises.
        """
        with self._lock:
            chosen, servers = self._choose(list(self._open_calls)), len(self._open_calls)
            if not isinstance(chosen, int | np.integer) or not 0 <= chosen < servers:
                raise ValueError(
                    f"choose must return the number of a server, from 0 to {servers - 1}, got"
                    f" {chosen!r}"
                )
            self._open_calls[chosen] += 1
        return int(chosen)

    def give(self, connection: int) -> None:
        """Count one call less at this server."""
        with self._lock:
            self._open_calls[connection] -= 1


def route(shards: int, connections: int) -> Route | None:
    """Return the route for so many servers and connections to each; None for one connection."""
    if shards > 1:
        return ByKey(shards, connections)
    return EvenShare(connections) if connections > 1 else None


@dataclass(frozen=True, slots=True)
class Opened:
    """An established connection."""

    channel: Any
    """A channel of `grpc`, or of `grpc.aio` where the calls are made on an event loop."""
    connect_s: float
    """Seconds from opening it until its first call, a status request, was answered."""
    peer: str
    """This end's address as the server sees it; empty where the server does not report it."""


class Connections:
    """The connections of one run, opened before its first call, by threads or on an event loop.

    For threads, a single connection and no service config, this is the channel that was given.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        server: Target | str,
        count: int,
        service_config: Mapping[str, Any] | None = None,
        choose: Choose | None = None,
    ) -> None:
        each = (server if isinstance(server, Target) else Target(server)).shards
        self.shards = len(each)
        """Number of servers that share the keys; connection i goes to server i modulo this."""
        self._targets = each * count
        self.route = Chosen(choose, self.shards) if choose else route(self.shards, count)
        """Chooses the connection of a call; None where there is one."""
        self._given = channel
        self._service_config = service_config
        self._lock = Lock()
        self._stack = ExitStack()
        self._channels: Sequence[grpc.Channel] = ()
        self.opened: Sequence[Opened] = ()

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def verified(self) -> int:
        """How many of the opened connections the server sees; 0 where it does not report them."""
        return _count(self._targets, self.opened)

    def open(self) -> Sequence[grpc.Channel]:
        """Return the channels for calls from threads; the first call of this method opens them.

        Raises what `open_all` raises.
        """
        with self._lock:
            if not self._channels and self.route is None and not self._service_config:
                self._channels = [self._given]
            elif not self._channels:
                self.opened = open_all(self._targets, self._stack, self._service_config)
                self._channels = [each.channel for each in self.opened]
            return self._channels

    async def aopen(self, stack: AsyncExitStack) -> Sequence[grpc.aio.Channel]:
        """Return the channels for calls on the running event loop; `stack` closes them."""
        self.opened = await aopen_all(self._targets, stack, self._service_config)
        return [each.channel for each in self.opened]

    def close(self) -> None:
        """Close the channels that `open` opened; the caller closes the given channel."""
        self._stack.close()


def _opening(
    target: Target, stack: ExitStack, service_config: Mapping[str, Any] | None
) -> Callable[[], Opened]:
    """Begin to establish a connection, at the same time as others; return what waits for it.

    It is ready once the server has answered a first call. gRPC's own `channel_ready_future` is not
    used: it starts a thread that monitors the channel, and raises an error in this thread when the
    channel is closed meanwhile.
    """
    ended_s: Future[float] = Future()
    since_s = time.perf_counter()
    channel = stack.enter_context(target.channel(service_config=service_config))
    call = server_status_pb2_grpc.ServerStatusServiceStub(channel).GetServerStatus.future(
        pb.GetServerStatusRequest(), timeout=CONNECT_S, wait_for_ready=True
    )
    call.add_done_callback(lambda _: ended_s.set_result(time.perf_counter() - since_s))

    def opened() -> Opened:
        connect_s = ended_s.result()  # the call has a deadline
        if call.code() in NOT_REACHED:
            raise _not_reached(target)
        raise_if_refused(call, target)
        peer = ""
        if call.code() is grpc.StatusCode.OK:
            answer = call.result()
            peer = answer.peer if answer is not None else ""  # None: it does not parse
        else:  # once more: the first call may have been refused among so many
            with suppress(ServerNotReached):  # refused again, or it ends: the run will show it
                peer = server_status(channel, target, CONNECT_S).peer
        return Opened(channel, connect_s, peer)

    return opened


def open_all(
    targets: Sequence[Target], stack: ExitStack, service_config: Mapping[str, Any] | None = None
) -> list[Opened]:
    """Return one connection to each target; `stack` closes them all.

    Raises:
        ServerNotReached: a connection was not ready within `CONNECT_S`.
        ConnectionsShared: the server sees fewer than there are targets.
    """
    openings = [_opening(target, stack, service_config) for target in targets]
    return _distinct(targets, [opened() for opened in openings])


async def aopen_all(
    targets: Sequence[Target],
    stack: AsyncExitStack,
    service_config: Mapping[str, Any] | None = None,
) -> list[Opened]:
    """Return one connection to each target, on the running event loop; else as `open_all`."""

    async def one(target: Target) -> Opened:
        since_s = time.perf_counter()
        channel = await stack.enter_async_context(target.channel(grpc.aio, service_config))
        stub = server_status_pb2_grpc.ServerStatusServiceStub(channel)
        peer = ""
        try:
            answer = await stub.GetServerStatus(
                pb.GetServerStatusRequest(), timeout=CONNECT_S, wait_for_ready=True
            )
            peer = answer.peer if answer is not None else ""  # None: it does not parse
        except grpc.aio.AioRpcError as error:
            if error.code() in NOT_REACHED:
                raise _not_reached(target) from None
            raise_if_refused(error, target)
        return Opened(channel, time.perf_counter() - since_s, peer)

    return _distinct(targets, await asyncio.gather(*(one(target) for target in targets)))


def _count(targets: Sequence[Target], opened: Sequence[Opened]) -> int:
    """Return how many connections the servers see; 0 where one does not report them.

    Two servers may see the same port at this end, and still these are two connections.
    """
    ends = {(target, each.peer) for target, each in zip(targets, opened, strict=True)}
    return 0 if any(not each.peer for each in opened) else len(ends)


def _distinct(targets: Sequence[Target], opened: list[Opened]) -> list[Opened]:
    count = _count(targets, opened)
    if 0 < count < len(opened):
        raise ConnectionsShared(
            f"{len(opened)} connections were requested, but the server sees {count}: channels share"
            " them. Is there a proxy between client and server?"
        )
    return opened


def _not_reached(target: Target) -> ServerNotReached:
    error = ServerNotReached(
        f"no call was answered over a new connection to {target.address} within {CONNECT_S:g} s:"
        " is the server running?"
    )
    return explained(error, target)
