"""The key-value service with its data in etcd, on asyncio, called through etcd's own gRPC API.

An operation is one call of etcd: a transaction on the version of the key, which is 0 for a key that
does not exist. A batch in one commit is one transaction of many keys. For each key, the effect of
its operations depends only on whether the key exists at first. So both cases are worked out here,
and etcd chooses one of them for each key, in one step for all keys.
"""

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

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
from kvstore.server.settings import ServerSettings
from kvstore.server.stream import Batch, operations_of
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
MOST_KEYS: Final = 126
"""Limit on the keys of a transaction. etcd's default (`--max-txn-ops`) is 128 operations, and those
of a transaction count on top of those of the one around it: here two at most."""
MOST_BYTES: Final = 1_000_000
"""Limit on the values of a transaction; etcd's own default is 1.5 MiB for a request."""

OPTIONS: Final = [
    OWN_CONNECTION,
    ("grpc.max_receive_message_length", -1),  # a transaction may read many values
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A node that stalls keeps its connection open. etcd refuses pings closer than 5 s.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.ping_timeout_ms", 2_000),
]

Answer = tuple[bytes, list[bytes]]
"""One status code for each operation, and one value for each retrieve that succeeded."""


# ---- one operation ------------------------------------------------------------------------


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


# ---- a batch ------------------------------------------------------------------------------


class _Untouched:
    """The entry as it was before the batch."""


_BEFORE: Final = _Untouched()
_Entry = bytes | _Untouched | None


class _Case(NamedTuple):
    """What the operations on one key do, for a key that exists at first or does not."""

    statuses: list[int]
    reads: list[bytes | _Untouched]
    """The value that each successful retrieve returns, in order."""
    entry: _Entry
    """The entry afterwards; None if there is none."""


class _Key(NamedTuple):
    """One key of a batch: its operations, their places in the batch, and both cases."""

    name: bytes
    places: list[int]
    operations: list[tuple[int, bytes]]

    def case(self, entry: _Entry) -> _Case:
        """Return what the operations do, in their order, to an entry."""
        statuses, reads = [], list[bytes | _Untouched]()
        for kind, value in self.operations:
            status = OK
            if kind == CREATE:
                status = OK if entry is None else ALREADY_EXISTS
            elif kind != DELETE and entry is None:
                status = NOT_FOUND
            if status == OK and kind == RETRIEVE:
                reads.append(entry)  # type: ignore[arg-type]  # it is there: the status is OK
            elif status == OK:
                entry = None if kind == DELETE else value
            statuses.append(status)
        return _Case(statuses, reads, entry)


class Transaction:
    """One transaction for operations of a batch, with at most `MOST_KEYS` keys."""

    def __init__(self) -> None:
        self._keys: dict[bytes, _Key] = {}
        self._kinds: set[int] = set()
        self._operations = 0
        self._bytes = 0
        self._refused = False

    def __len__(self) -> int:
        return len(self._keys)

    def has_room(self, key: bytes, value: bytes) -> bool:
        """Return whether one more operation fits into a request that etcd accepts."""
        if key not in self._keys and len(self._keys) == MOST_KEYS:
            return False
        return not self._bytes or self._bytes + len(value) <= MOST_BYTES

    def add(self, place: int, kind: int, key: bytes, value: bytes) -> None:
        """Add an operation with its place in the batch."""
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = _Key(PREFIX + key, [], [])
        found.places.append(place)
        found.operations.append((kind, value))
        self._kinds.add(kind)
        self._operations += 1
        self._bytes += len(value)

    @property
    def _all_alike(self) -> bool:
        """Whether these are only creates or only updates, of different keys, not refused yet."""
        alike = self._kinds in ({CREATE}, {UPDATE}) and self._operations == len(self._keys)
        return alike and not self._refused

    def request(self) -> pb.TxnRequest:
        """Return the message for etcd's `Txn`.

        Creates of different keys mostly succeed, all of them, and updates as well. Then one list of
        conditions and one of puts is enough, at a third of the CPU time. See `refused`.
        """
        request = pb.TxnRequest()
        if self._all_alike:
            condition = _ABSENT if CREATE in self._kinds else _PRESENT
            for name, _, ((_, value),) in self._keys.values():
                request.compare.add(key=name, target=_VERSION, result=condition, version=0)
                put = request.success.add().request_put
                put.key, put.value = name, value
            return request
        for key in self._keys.values():
            self._add(request.success.add(), key)
        return request

    def _add(self, into: pb.RequestOp, key: _Key) -> None:
        name, present, absent = key.name, key.case(_BEFORE), key.case(None)
        if present.entry is _BEFORE and absent.entry is None:  # nothing is written
            into.request_range.key = name
            return
        chosen = into.request_txn
        chosen.compare.add(key=name, target=_VERSION, result=_PRESENT, version=0)
        if _BEFORE in present.reads:
            chosen.success.add().request_range.key = name
        if present.entry is None:
            chosen.success.add().request_delete_range.key = name
        elif isinstance(present.entry, bytes):
            chosen.success.add(request_put=pb.PutRequest(key=name, value=present.entry))
        if isinstance(absent.entry, bytes):
            chosen.failure.add(request_put=pb.PutRequest(key=name, value=absent.entry))

    def refused(self, reply: pb.TxnResponse) -> bool:
        """Return whether etcd has changed nothing, and the next `request` has to be sent."""
        self._refused = self._all_alike and not reply.succeeded
        return self._refused

    def places(self) -> Iterator[int]:
        """Yield the places of its operations in the batch."""
        for key in self._keys.values():
            yield from key.places

    def outcomes(self, reply: pb.TxnResponse) -> Iterator[tuple[int, int, bytes | None]]:
        """Yield place and status of each operation, and the value that a retrieve has read."""
        if self._all_alike:
            yield from ((place, OK, None) for place in self.places())
            return
        for key, response in zip(self._keys.values(), reply.responses, strict=True):
            found: bytes | None = None  # the value before the batch, if it was read
            if response.HasField("response_range"):
                entries = response.response_range.kvs
                existed, found = bool(entries), entries[0].value if entries else None
            else:
                chosen = response.response_txn
                existed = chosen.succeeded
                if _BEFORE in key.case(_BEFORE).reads and existed:
                    found = chosen.responses[0].response_range.kvs[0].value
            case = key.case(_BEFORE if existed else None)
            reads = iter(case.reads)
            for place, status, (kind, _) in zip(
                key.places, case.statuses, key.operations, strict=True
            ):
                value = next(reads) if kind == RETRIEVE and status == OK else None
                yield place, status, found if isinstance(value, _Untouched) else value


def transactions(batch: Batch) -> Iterator[Transaction]:
    """Yield the transactions of a batch, in order: one, unless etcd would refuse its size."""
    current = Transaction()
    for place, (kind, key, value) in enumerate(operations_of(batch)):
        if _valid(kind, key):
            if not current.has_room(key, value):
                yield current
                current = Transaction()
            current.add(place, kind, key, value)
    if len(current):
        yield current


def _valid(kind: int, key: bytes) -> bool:
    return bool(key) and kind in (CREATE, RETRIEVE, UPDATE, DELETE)


class _Outcomes:
    """The answer to a batch while its transactions are executed."""

    def __init__(self, batch: Batch) -> None:
        self._statuses = bytearray([INVALID_ARGUMENT]) * len(batch.kinds)
        self._values: dict[int, bytes] = {}

    def note(self, transaction: Transaction, status: int, reply: Any) -> None:
        """Note the outcome of a transaction; `status` is not OK if etcd has not executed it."""
        if status != OK:
            for place in transaction.places():
                self._statuses[place] = status
            return
        for place, each, value in transaction.outcomes(reply):
            self._statuses[place] = each
            if value is not None:
                self._values[place] = value

    def answer(self) -> Answer:
        """Return the statuses, and the values in the order of their operations."""
        return bytes(self._statuses), [self._values[place] for place in sorted(self._values)]


# ---- calls that fail -----------------------------------------------------------------------


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
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        try:
            status = MaintenanceStub(channel).Status(
                pb.StatusRequest(), timeout=CONNECT_S, wait_for_ready=True
            )
        except grpc.RpcError:
            return False
    return bool(status.leader == status.header.member_id)


# ---- the service ---------------------------------------------------------------------------


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
        if not _valid(kind, key):
            return INVALID_ARGUMENT, b""
        method, request = call_of(kind, key, value)
        status, reply = await self._call(method, request, kind == RETRIEVE)
        clock.worked()
        return outcome_of(kind, reply) if status == OK else (status, b"")

    async def _commit(self, request: Batch, clock: StationClock) -> Answer:
        outcomes = _Outcomes(request)
        clock.begin()
        for transaction in transactions(request):
            status, reply = await self._call("Txn", transaction.request(), False)
            if status == OK and transaction.refused(reply):
                status, reply = await self._call("Txn", transaction.request(), False)
            outcomes.note(transaction, status, reply)
        clock.worked()
        return outcomes.answer()

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
