"""The edge to the network: reaching a server, and making sure it is the right one."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import grpc

from kvstore.apart import apart
from kvstore.v1 import server_status_pb2 as pb
from kvstore.v1 import server_status_pb2_grpc
from kvstore.wire import OWN_CONNECTION

CONNECT_S = 5.0
"""Seconds to wait for a server before saying that nothing answers."""

OPTIONS = [OWN_CONNECTION]

_NOT_KNOWN_HERE = (
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
"""How servers answer to a method they do not have: the first is right, the others occur."""


class ServerNotReached(ConnectionError):
    """Nothing answers at the address."""


class WrongServer(RuntimeError):
    """Something answers at the address, but not the server that was started."""


class Target(NamedTuple):
    """The server a run is made against."""

    address: str
    identity: str | None = None
    """What it must answer to; None when it was started by hand."""

    @property
    def shards(self) -> list["Target"]:
        """The server, or each of several whose addresses stand here with commas between."""
        addresses = self.address.split(",")
        if self.identity is None:
            return [Target(address) for address in addresses]
        return [*map(Target, addresses, self.identity.split(","))]


def target_of(server: object) -> Target:
    """The target for a `Server` of `serving()`, or for an address such as "127.0.0.1:40123"."""
    if isinstance(server, str):
        server = Target(server)
    if isinstance(server, Target):
        addresses = server.address.split(",")
        if len(set(addresses)) < len(addresses):
            raise ValueError(f"a server keeps one shard, got {server.address!r}")
        for each in addresses:
            host, _, port = each.rpartition(":")
            if not host or not port.isdigit():
                raise ValueError(f"an address is host:port, such as 127.0.0.1:40123, got {each!r}")
        if server.identity and server.identity.count(",") != server.address.count(","):
            raise ValueError(
                f"each server has an identity: got {server.address!r} and {server.identity!r}"
            )
        return server
    address, identity = getattr(server, "address", None), getattr(server, "identity", None)
    if not isinstance(address, str):
        if hasattr(server, "__enter__"):
            raise ValueError(
                "this server was not started: write `with serving() as server:`, and the run"
                " indented below it, where `server` is what the block gives"
            )
        raise ValueError(
            "server must be what `with serving() as server:` gives, or an address such as"
            f" '127.0.0.1:40123', got {server!r}"
        )
    return Target(address, identity)


@contextmanager
def connected(target: Target) -> Iterator[tuple[grpc.Channel, pb.GetServerStatusResponse]]:
    """A channel whose other end was checked, and what the server says of itself.

    A server that has no status service is taken as it is, with an empty answer, unless
    an identity is asked for.

    Raises:
        ServerNotReached: nothing answered within `CONNECT_S`.
        WrongServer: the identity is not the expected one.
    """
    if len(target.shards) > 1:
        raise ValueError(f"one server is wanted here, got {len(target.shards)}: {target.address}")
    with grpc.insecure_channel(target.address, options=OPTIONS) as channel:
        status = server_status(channel, target, CONNECT_S, wait_for_ready=True)
        if target.identity is not None and status.identity != target.identity:
            raise WrongServer(
                f"the server at {target.address} says it is {status.identity or 'nobody'!r},"
                f" but {target.identity!r} was started: another program has taken the port."
                " Start the server again."
            )
        yield channel, status


def server_status(
    channel: grpc.Channel, target: Target, timeout_s: float, *, wait_for_ready: bool = False
) -> pb.GetServerStatusResponse:
    """Ask the server who it is and what it has counted.

    Raises `ServerNotReached`. Empty when the server answers that it does not know the
    question, as one of another make does: it is there, and that is enough for a run.
    """
    stub = server_status_pb2_grpc.ServerStatusServiceStub(channel)
    try:
        answer: pb.GetServerStatusResponse = apart(
            lambda: stub.GetServerStatus(
                pb.GetServerStatusRequest(), timeout=timeout_s, wait_for_ready=wait_for_ready
            )
        )
    except grpc.RpcError as error:
        if error.code() in _NOT_KNOWN_HERE:
            return pb.GetServerStatusResponse()
        raise ServerNotReached(
            f"no server answers at {target.address} ({error.code().name} after"
            f" {timeout_s:g} s). Is it running? `with serving() as server:` starts one,"
            " and it ends with its block."
        ) from None
    return answer


def local_pid(status: pb.GetServerStatusResponse) -> int | None:
    """The server's process, when it runs on this machine and can be watched from here."""
    here = status.process_id and status.host_name == socket.gethostname()
    return status.process_id if here else None
