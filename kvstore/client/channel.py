"""Connect to a server, in plain text or with TLS, and check that it is the right one."""

import ipaddress
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import psutil

from kvstore.client.errors import ServerNotReached, TlsMismatch, WrongServer
from kvstore.client.tls_check import explained
from kvstore.client.token_channel import with_token
from kvstore.credentials import CA, REFUSED, TOKEN, read_token
from kvstore.protocol import OWN_CONNECTION
from kvstore.uninterruptible import uninterrupted
from kvstore.v1 import server_status_pb2 as pb
from kvstore.v1 import server_status_pb2_grpc

CONNECT_S = 5.0
"""Seconds to wait for a server before `ServerNotReached`."""

OPTIONS = [OWN_CONNECTION]

NOT_REACHED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Statuses of a first call whose connection was not established."""

_NO_REPORT = (
    # How servers answer a method they do not have; the first status is the standard one.
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    # How servers answer a call without the metadata that they require.
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)


@dataclass(frozen=True, kw_only=True)
class Tls:
    """The settings of encrypted connections: certificates in the PEM format.

    The client's own `certificate` and `key` are for servers that require one. Raises `ValueError`
    for only one of the two. `Tls.of(folder)` reads what `course.py certificate` made.
    """

    ca: bytes | None = None
    """The certificates that sign the server's; None: those that gRPC brings along."""
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    server_name: str | None = None
    """The name in the server's certificate, if it is not the host of the address."""
    token: str | None = field(default=None, repr=False)
    """A word that each call carries as `authorization: Bearer TOKEN`."""

    @classmethod
    def of(cls, folder: str | Path) -> "Tls":
        """Return what the files `ca.pem` and `token.txt` of a folder say.

        Raises `OSError` for a missing file, and `ValueError` for a file without a token.
        """
        return cls(ca=Path(folder, CA).read_bytes(), token=read_token(Path(folder, TOKEN)))

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError(
                "a client certificate needs its private key, and a key needs its certificate: give"
                " both or none"
            )


class Target(NamedTuple):
    """The server of a run."""

    address: str
    identity: str | None = None
    """The identity that the server must report; None when it was started by hand."""
    tls: Tls | None = None
    """How its connections are encrypted; None: they are not."""

    @property
    def shards(self) -> list["Target"]:
        """The server, or each of several whose addresses are separated by commas."""
        addresses = self.address.split(",")
        known = None if self.identity is None else self.identity.split(",")
        identities: list[str] | list[None] = known or [None] * len(addresses)
        return [
            Target(address, identity, self.tls)
            for address, identity in zip(addresses, identities, strict=True)
        ]

    def channel(self, api: Any = grpc, service_config: Mapping[str, Any] | None = None) -> Any:
        """Return a new channel of `grpc` or `grpc.aio`, with a connection of its own.

        `service_config` is gRPC's, such as one with a retryPolicy.
        """
        tls = self.tls
        options: list[tuple[str, Any]] = [*OPTIONS]
        if service_config:
            options.append(("grpc.service_config", json.dumps(service_config)))
        if tls is None:
            return api.insecure_channel(self.address, options=options)
        if tls.server_name is not None:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
        channel = api.secure_channel(self.address, credentials, options=options)
        return channel if tls.token is None else with_token(channel, tls.token)


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
    folder = getattr(getattr(server, "settings", None), "tls", None)
    return target_of(Target(address, identity, Tls.of(folder) if folder else None))


@contextmanager
def connected(target: Target) -> Iterator[tuple[grpc.Channel, pb.GetServerStatusResponse]]:
    """Yield a channel to the target, after checking its identity, and the status it reported.

    A server without a status service is accepted, with an empty status, unless the target has an
    identity.

    Raises:
        ServerNotReached: no server answered within `CONNECT_S`.
        TlsMismatch: one listens, but the two do not agree about encryption or the token.
        WrongServer: the identity is not the expected one.
    """
    if len(target.shards) > 1:
        raise ValueError(
            f"the target must be one server, got {len(target.shards)}: {target.address}"
        )
    with target.channel() as channel:
        try:
            status = server_status(channel, target, CONNECT_S, wait_for_ready=True)
        except ServerNotReached as error:
            raise explained(error, target) from None
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

    It is empty when the server has no such method, as other services have none: the server is
    there, and that is enough for a run. Raises `ServerNotReached`, and `TlsMismatch` for a token
    that the server refuses.
    """
    stub = server_status_pb2_grpc.ServerStatusServiceStub(channel)
    try:
        answer: pb.GetServerStatusResponse = uninterrupted(
            lambda: stub.GetServerStatus(
                pb.GetServerStatusRequest(), timeout=timeout_s, wait_for_ready=wait_for_ready
            )
        )
    except grpc.RpcError as error:
        raise_if_refused(error, target)
        if error.code() in _NO_REPORT:
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


def raise_if_refused(error: Any, target: Target) -> None:
    """Raise `TlsMismatch` if a call failed because the server demands another token, or any."""
    if (error.details() or "").startswith(REFUSED):
        raise TlsMismatch(f"the server at {target.address} refused the call: {error.details()}")


def local_pids(status: pb.GetServerStatusResponse, target: Target) -> list[int]:
    """Return the process ids of the server if it runs on this machine; empty if they are unknown.

    The server reports its process id. If it does not, these are the processes that listen on its
    port, as far as the system lets us see them.
    """
    if status.process_id:
        return [status.process_id] if status.host_name == socket.gethostname() else []
    host, _, port = target.address.rpartition(":")
    if not is_loopback(host):
        return []
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS shows sockets of other processes to root only
        return []
    listening = {
        each.pid
        for each in sockets
        if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == int(port)
    }
    return sorted(pid for pid in listening if pid is not None and pid != os.getpid())


def is_loopback(host: str) -> bool:
    """Return whether every address of this host is one of this machine's loopback interface."""
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host.strip("[]"), None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(each.partition("%")[0]).is_loopback
        for each in found)  # fmt: skip
