"""The key-value service with its data in etcd, on asyncio, called through etcd's own gRPC API.

An operation is one call of etcd: a transaction on the version of the key, which is 0 for a key that
does not exist. The operations of a batch are such calls one after the other.
"""

import asyncio
import socket
import time
from typing import Any, Final

import grpc

from kvstore.protocol import (
    ALREADY_EXISTS,
    CREATE,
    DELETE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    OWN_CONNECTION,
    RESOURCE_EXHAUSTED,
    RETRIEVE,
    UNAVAILABLE,
    UPDATE,
    StationClock,
)
from kvstore.server.counts import Counts
from kvstore.server.service import AsyncKeyValueService
from kvstore.server_settings import ServerSettings
from kvstore.v1 import etcd_pb2 as pb
from kvstore.v1.etcd_pb2_grpc import KVStub, MaintenanceStub

PREFIX: Final = b"kvstore/"
"""What our keys begin with: the cluster may hold the keys of other programs."""
PATIENCE_S: Final = 10.0
"""Deadline of a call to etcd; etcd gives up on a proposal after 5 s and two election timeouts."""
CONNECT_S: Final = 2.0
"""Seconds in which a node must answer when the server starts."""
AGAIN_S: Final = 0.02
"""Pause before the same call is sent again."""
OPTIONS: Final = [
    OWN_CONNECTION,
    ("grpc.max_receive_message_length", -1),  # a value may be as large as a message of ours
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A node that stalls keeps its connection open. etcd refuses pings closer than 5 s.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.ping_timeout_ms", 2_000),
]


def call_of(kind: int, key: bytes, value: bytes) -> tuple[str, Any]:
    """Return the name of etcd's method for one operation, and the request."""
    name = PREFIX + key
    if kind == RETRIEVE:
        return "Range", pb.RangeRequest(key=name)
    if kind == DELETE:
        return "DeleteRange", pb.DeleteRangeRequest(key=name)
    condition = _ABSENT if kind == CREATE else _PRESENT
    return "Txn", pb.TxnRequest(
        compare=[pb.Compare(key=name, target=_VERSION, result=condition, version=0)],
        success=[pb.RequestOp(request_put=pb.PutRequest(key=name, value=value))],
    )


def outcome_of(kind: int, reply: Any) -> tuple[int, bytes]:
    """Return the status of one operation and the value that it read, or b""."""
    if kind == RETRIEVE:
        return (OK, reply.kvs[0].value) if reply.kvs else (NOT_FOUND, b"")
    if kind == DELETE or reply.succeeded:
        return OK, b""
    return (ALREADY_EXISTS if kind == CREATE else NOT_FOUND), b""


_VERSION = pb.Compare.VERSION
_ABSENT, _PRESENT = pb.Compare.EQUAL, pb.Compare.GREATER
"""The version of a key compared with 0."""


def not_executed(error: Any, reads: bool) -> bool:
    """Return whether a call may be sent again: it only reads, or etcd dropped it unexecuted.

    A node without a leader drops what it is sent. It is UNKNOWN to gRPC, and recognised by its
    words.
    """
    code = error.code()
    if code is grpc.StatusCode.UNKNOWN and "proposal dropped" in (error.details() or ""):
        return True
    return reads and code is grpc.StatusCode.UNAVAILABLE


def status_of(error: Any) -> int:
    """Return our status for an error of etcd: it refused the call, or the effect is unknown."""
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED or "too large" in details:
        return RESOURCE_EXHAUSTED
    return UNAVAILABLE


def target(addresses: str) -> str:
    """Return gRPC's target for the nodes at these addresses, the leader first.

    The channel uses the first node that answers, and another one when it fails. Raises `OSError` if
    no node answers.
    """
    nodes = [_resolved(address) for address in addresses.split(",")]
    leaders = [node for node in nodes if _leads(node)]
    ordered = leaders + [node for node in nodes if node not in leaders]
    if not leaders:
        raise OSError(
            f"no etcd cluster with a leader answers at {addresses}: start one with `python3"
            " course.py class etcd --nodes 3`, or check the addresses (the ports for clients,"
            " without TLS)"
        )
    return "ipv4:" + ",".join(ordered)


def _resolved(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        return f"{socket.gethostbyname(host)}:{port}"
    except OSError as error:
        raise OSError(f"the name of the etcd node {address} is not known: {error}") from None


def _leads(address: str) -> bool:
    """Return whether the node at this address answers and is the leader."""
    status = status_at(address, CONNECT_S)
    return status is not None and status.leader == status.header.member_id


def status_at(address: str, within_s: float) -> pb.StatusResponse | None:
    """Return what a node says of itself and of the leader; None without an answer in time."""
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        try:
            return MaintenanceStub(channel).Status(  # type: ignore[no-any-return]
                pb.StatusRequest(), timeout=within_s, wait_for_ready=True
            )
        except grpc.RpcError:
            return None


class EtcdService(AsyncKeyValueService):
    """The event loop serves other calls until etcd has answered.

    Raises `OSError` when no cluster answers.
    """

    def __init__(self, settings: ServerSettings, counts: Counts) -> None:
        super().__init__(settings, counts)
        self._channel = grpc.aio.insecure_channel(target(settings.store_place), options=OPTIONS)
        etcd: Any = KVStub(self._channel)
        self._methods = {name: getattr(etcd, name) for name in ("Range", "DeleteRange", "Txn")}

    def _at_once(self) -> bool:
        return False

    async def close(self) -> None:
        """Close the connections to the cluster."""
        await self._channel.close()

    async def _apply(
        self, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        if not key or kind not in (CREATE, RETRIEVE, UPDATE, DELETE):
            return INVALID_ARGUMENT, b""
        method, request = call_of(kind, key, value)
        status, reply = await self._call(method, request, kind == RETRIEVE)
        clock.worked()
        return outcome_of(kind, reply) if status == OK else (status, b"")

    async def _call(self, method: str, request: Any, reads: bool) -> tuple[int, Any]:
        end_s, left_s = time.monotonic() + PATIENCE_S, PATIENCE_S
        while True:
            try:
                return OK, await self._methods[method](
                    request, timeout=max(left_s, AGAIN_S), wait_for_ready=True
                )
            except grpc.aio.AioRpcError as error:
                left_s = end_s - time.monotonic()
                if left_s < AGAIN_S or not not_executed(error, reads):
                    return status_of(error), None
            await asyncio.sleep(AGAIN_S)
