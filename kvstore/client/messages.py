"""Operations and their messages: one operation in a unary request, many in a stream request."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from google.protobuf.message import Message

from kvstore.client.errors import MessageTooLarge
from kvstore.protocol import (
    BATCH,
    CREATE,
    DELETE,
    KINDS,
    MESSAGE_LIMIT_BYTES,
    OK,
    RETRIEVE,
    UNKNOWN_STATIONS,
    UPDATE,
    StationTimes,
)
from kvstore.v1 import kvstore_pb2 as pb

METHODS = {CREATE: "Create", RETRIEVE: "Retrieve", UPDATE: "Update", DELETE: "Delete"}
"""Name of the unary method by kind of operation."""

SERVICE: str = pb.DESCRIPTOR.services_by_name["KeyValueService"].full_name
PIPELINE = f"/{SERVICE}/Pipeline"
"""Full name of the streaming method."""

_WITH_VALUE: dict[int, Callable[..., Message]] = {
    CREATE: pb.CreateRequest,
    UPDATE: pb.UpdateRequest,
}
_KEY_ONLY: dict[int, Callable[..., Message]] = {
    RETRIEVE: pb.RetrieveRequest,
    DELETE: pb.DeleteRequest,
}


class Operation(NamedTuple):
    """One operation on the store, ready for a stub: `operation.rpc(stub)(operation.request)`."""

    kind: int
    """One of CREATE, RETRIEVE, UPDATE, DELETE."""
    key: bytes
    value: bytes = b""
    due_s: float = math.nan
    """Due time in seconds from the start of the run; NaN: as soon as possible."""

    @property
    def name(self) -> str:
        """The name of the kind."""
        return KINDS[self.kind]

    def rpc(self, stub: Any) -> Any:
        """Return the method of the stub that this operation calls.

        On a measured channel, the method also gets the due time of the call.
        """
        method = getattr(stub, METHODS[self.kind])
        if self.due_s >= 0 and hasattr(method, "due"):  # in a closed loop it is NaN
            return method.due(self.due_s)
        return method

    @property
    def request(self) -> Message:
        """The request of that method. Raises `MessageTooLarge`."""
        kind, key, value, _ = self
        size_bytes = len(key) + len(value)
        if size_bytes > MESSAGE_LIMIT_BYTES - 64:
            raise MessageTooLarge(
                f"a {self.name} of {size_bytes:,} bytes is over gRPC's limit of"
                f" {MESSAGE_LIMIT_BYTES:,} bytes for one message: use a smaller value, or split it"
                " over several keys"
            )
        if kind in _KEY_ONLY:
            return _KEY_ONLY[kind](key=key)
        return _WITH_VALUE[kind](key=key, value=value)


def create(key: bytes, value: bytes) -> Operation:
    """Return the operation that stores a value under a new key."""
    return Operation(CREATE, key, value)


def retrieve(key: bytes) -> Operation:
    """Return the operation that reads the value of a key."""
    return Operation(RETRIEVE, key)


def update(key: bytes, value: bytes) -> Operation:
    """Return the operation that replaces the value of a key."""
    return Operation(UPDATE, key, value)


def delete(key: bytes) -> Operation:
    """Return the operation that deletes a key."""
    return Operation(DELETE, key)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Operations in columns, in the layout of the contract: the first is `kinds[0]` on `keys[0]`.

    At a million operations per second, an object for each operation would cost too much.
    """

    kinds: bytes
    keys: Sequence[bytes]
    values: Sequence[bytes]
    """One for each create and update, in their order."""
    due_s: float = math.nan
    """Due time of the first operation, in seconds from the start of the run."""
    written: Sequence[bytes] | None = None
    """The value that each retrieve has to read, in order; None where that is unknown."""

    kept: "pb.PipelineRequest | None" = field(default=None, repr=False)
    """The encoded message, where it is sent many times; see `keep`."""
    count: int = field(init=False)
    """Number of operations. This and the next four are computed once: every record needs them."""
    kind: int = field(init=False)
    """The kind in the records: that of a single operation, else BATCH."""
    all_ok: bytes = field(init=False, repr=False)
    """The statuses of a reply in which each operation is OK."""
    creates: bool = field(init=False, repr=False)
    """Whether one of the operations is a create."""
    retrieves: int = field(init=False, repr=False)
    """How many of the operations are retrieves."""

    def __post_init__(self) -> None:
        count = len(self.kinds)
        computed = {
            "count": count,
            "kind": self.kinds[0] if count == 1 else BATCH,
            "all_ok": bytes([OK]) * count,
            "creates": CREATE in self.kinds,
            "retrieves": self.kinds.count(RETRIEVE),
        }
        for name, value in computed.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return self.count

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys and values together."""
        return sum(map(len, self.keys)) + sum(map(len, self.values))

    def first(self, count: int) -> "Batch":
        """Return the first `count` operations of a batch of retrieves and updates."""
        updates = self.kinds[:count].count(UPDATE)
        return replace(
            self,
            kinds=self.kinds[:count],
            keys=self.keys[:count],
            values=self.values[:updates],
            written=None if self.written is None else self.written[: count - updates],
            kept=None,
        )

    def keep(self) -> "Batch":
        """Return the batch with its message encoded now, because it will be sent many times."""
        return replace(self, kept=self.message(0))

    def message(self, request_id: int) -> pb.PipelineRequest:
        """Return the stream request with these operations.

        A kept message is used again with another id, so serialise it before the next call.
        Raises `MessageTooLarge`.
        """
        if self.kept is not None:
            self.kept.id = request_id
            return self.kept
        message = pb.PipelineRequest(
            id=request_id, kinds=self.kinds, keys=self.keys, values=self.values
        )
        if self.payload_bytes > MESSAGE_LIMIT_BYTES // 2:
            size_bytes = message.ByteSize()
            if size_bytes > MESSAGE_LIMIT_BYTES:
                raise MessageTooLarge(
                    f"a batch of {self.count:,} operations makes a message of {size_bytes:,} bytes,"
                    f" over gRPC's limit of {MESSAGE_LIMIT_BYTES:,} bytes: send fewer operations in"
                    " each, or smaller values"
                )
        return message


def batch_of(operations: Sequence[Operation]) -> Batch:
    """Return operations in columns."""
    return Batch(
        bytes([operation.kind for operation in operations]),
        [operation.key for operation in operations],
        [operation.value for operation in operations if operation.kind in _WITH_VALUE],
        operations[0].due_s if operations else math.nan,
    )


class StreamRequest(NamedTuple):
    """One or many operations, ready for a stream: `await call.write(operation.request)`."""

    id: int
    batch: Batch

    @property
    def request(self) -> pb.PipelineRequest:
        """The message, valid until the next one is encoded. Raises `MessageTooLarge`."""
        return self.batch.message(self.id)


class PipelineReader:
    """Reads statuses, values and station times from the messages of `Pipeline`.

    The methods return plain tuples, because they run many thousand times per second.
    """

    def __init__(self, on_created: Callable[[bytes], object] = lambda key: None) -> None:
        self.unsent: dict[int, Batch] = {}
        """Batches by the id of their request, from when they are drawn until they are sent."""
        self._on_created = on_created

    def sent(self, request: Any) -> Batch:
        """Return the operations of a request, drawn from a workload or not."""
        batch = self.unsent.pop(request.id, None)
        return batch or Batch(request.kinds, request.keys, request.values)

    def replied(self, batch: Batch, reply: Any) -> tuple[int, int, StationTimes]:
        """Return the reply's first status that is not OK, and how many operations were OK.

        Raises `ValueError` when the reply does not fit its request: another number of statuses, not
        one value for each retrieve that succeeded, or a value that is not the one written.
        """
        statuses: bytes = reply.statuses
        all_ok = statuses == batch.all_ok
        if not all_ok and len(statuses) != batch.count:
            raise ValueError(f"{len(statuses)} statuses for {batch.count} operations")
        values = reply.values
        if not all_ok or len(values) != batch.retrieves:
            _check_count(batch, statuses, len(values))
        if batch.written is not None and values != batch.written:
            verify(batch, statuses, list(values))
        if batch.creates:
            for kind, key, status in zip(batch.kinds, batch.keys, statuses, strict=True):
                if kind == CREATE and status == OK:
                    self._on_created(key)
        stations = UNKNOWN_STATIONS
        if reply.HasField("station_times"):
            times = reply.station_times
            stations = StationTimes(times.pool_s, times.lock_s, times.disk_s, times.rest_s)
        if all_ok:
            return OK, batch.count, stations
        return next(filter(None, statuses)), statuses.count(OK), stations


def _check_count(batch: Batch, statuses: bytes, values: int) -> None:
    """Raise `ValueError` unless there is one value for each retrieve that succeeded."""
    pairs = zip(batch.kinds, statuses, strict=True)
    good = sum(kind == RETRIEVE and status == OK for kind, status in pairs)
    if values != good:
        raise ValueError(f"{values} values for {good} retrieves that succeeded")


def verify(batch: Batch, statuses: bytes, values: Sequence[bytes]) -> None:
    """Compare the values read with the values written, for a batch that has the latter.

    Raises `ValueError` naming the first key with another value.
    """
    assert batch.written is not None
    columns = zip(batch.kinds, batch.keys, statuses, strict=True)
    reads = [(key, status) for kind, key, status in columns if kind == RETRIEVE]
    good = [
        (key, value)
        for (key, status), value in zip(reads, batch.written, strict=True)
        if status == OK
    ]
    for (key, written), read in zip(good, values, strict=True):
        if read != written:
            raise ValueError(
                f"a retrieve of {key!r:.40} read {read!r:.40}, but {written!r:.40} was written"
            )
