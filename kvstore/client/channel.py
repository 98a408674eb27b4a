"""Connect to a server, and check that it is the right one."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import grpc

from kvstore.client.errors import ServerNotReached, WrongServer
from kvstore.protocol import OWN_CONNECTION
from kvstore.uninterruptible import uninterrupted
from kvstore.v1 import server_status_pb2 as pb
from kvstore.v1 import server_status_pb2_grpc

CONNECT_S = 5.0
"""Seconds to wait for a server before `ServerNotReached`."""

OPTIONS = [OWN_CONNECTION]

_NOT_KNOWN_HERE = (
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
"""Statuses with which servers answer a method they do not have; the first is the standard one."""


class Target(NamedTuple):
    """The server of a run."""

    address: str
    identity: str | None = None
    """The identity that the server must report; None when it was started by hand."""

    @property
    def shards(self) -> list["Target"]:
        """The server, or each of several whose addresses are separated by commas."""
        addresses = self.address.split(",")
        if self.identity is None:
            return [Target(address) for address in addresses]
        return [*map(Target, addresses, self.identity.split(","))]


def target_of(server: object) -> Target:
    """Return the target for a `Server` of `serving()`, or for an address such as 127.0.0.1:40123.

    Raises `ValueError` for anything else.
    """
    if isinstance(server, str):
        server = Target(server)
    if isinstance(server, Target):
        addresses = server.address.split(",")
        if len(set(addresses)) < len(addresses):
            raise ValueError(
                f"each server has one shard, so give each address once, got {server.address!r}"
            )
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
                "this server was not started: write `with serving() as server:` and make the run in"
                " that block, with `server`"
            )
        raise ValueError(
            "server must be what `with serving() as server:` gives, or an address such as"
            f" '127.0.0.1:40123', got {server!r}"
        )
    return Target(address, identity)


@contextmanager
def connected(target: Target) -> Iterator[tuple[grpc.Channel, pb.GetServerStatusResponse]]:
    """Yield a channel to the target, after checking its identity, and the status it reported.

    A server without a status service is accepted, with an empty status, unless the target has an
    identity.

    Raises:
        ServerNotReached: no server answered within `CONNECT_S`.
        WrongServer: the identity is not the expected one.
    """
    if len(target.shards) > 1:
        raise ValueError(
            f"the target must be one server, got {len(target.shards)}: {target.address}"
        )
    with grpc.insecure_channel(target.address, options=OPTIONS) as channel:
        status = server_status(channel, target, CONNECT_S, wait_for_ready=True)
        if target.identity is not None and status.identity != target.identity:
            raise WrongServer(
                f"the server at {target.address} has the identity {status.identity!r},"
                f" but {target.identity!r} was started: another program has taken the port."
                " Start the server again."
            )
        yield channel, status


def server_status(
    channel: grpc.Channel, target: Target, timeout_s: float, *, wait_for_ready: bool = False
) -> pb.GetServerStatusResponse:
    """Return the status that the server reports: its identity, settings and counts.

    It is empty when the server has no such method, as another implementation has none: the server
    is there, and that is enough for a run. Raises `ServerNotReached`.
    """
    stub = server_status_pb2_grpc.ServerStatusServiceStub(channel)
    try:
        answer: pb.GetServerStatusResponse = uninterrupted(
            lambda: stub.GetServerStatus(
                pb.GetServerStatusRequest(), timeout=timeout_s, wait_for_ready=wait_for_ready
            )
        )
    except grpc.RpcError as error:
        if error.code() in _NOT_KNOWN_HERE:
            return pb.GetServerStatusResponse()
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise ServerNotReached(
                f"the server at {target.address} refused the status request (RESOURCE_EXHAUSTED:"
                f" {error.details()}): it has as many calls as it accepts. Repeat this when they"
                " have ended, or start the server with a larger max_concurrent_rpcs."
            ) from None
        raise ServerNotReached(
            f"no server answers at {target.address} ({error.code().name} after"
            f" {timeout_s:g} s). Is it running? `with serving() as server:` starts one,"
            " and it ends with its block."
        ) from None
    return answer


def local_pid(status: pb.GetServerStatusResponse) -> int | None:
    """Return the process id of the server if it runs on this machine, else None."""
    here = status.process_id and status.host_name == socket.gethostname()
    return status.process_id if here else None
