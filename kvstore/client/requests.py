"""Messages: an operation as the request of its method, and a batch as one stream request."""

from collections.abc import Callable, Sequence

import numpy as np
from google.protobuf.message import Message

from kvstore.client.batch import Batch, batch_of
from kvstore.client.workload import Operation
from kvstore.codes import CREATE, DELETE, RETRIEVE, UPDATE
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.wire import MESSAGE_LIMIT_BYTES

METHODS = {CREATE: "Create", RETRIEVE: "Retrieve", UPDATE: "Update", DELETE: "Delete"}
"""Name of the unary method by kind of operation."""

_WITH_VALUE: dict[int, Callable[..., Message]] = {
    CREATE: pb.CreateRequest,
    UPDATE: pb.UpdateRequest,
}
_KEY_ONLY: dict[int, Callable[..., Message]] = {
    RETRIEVE: pb.RetrieveRequest,
    DELETE: pb.DeleteRequest,
}

_CARRY_VALUE = (CREATE, UPDATE)
_FRAME_BYTES = 16
"""The most that a request takes beside its operations: its id, and the length of `kinds`."""


class MessageTooLarge(ValueError):
    """A request is over gRPC's limit; it was not sent."""


def unary_request(operation: Operation) -> Message:
    """The request of the operation's own method. Raises `MessageTooLarge`."""
    kind, key, value, _ = operation
    size_bytes = len(key) + len(value)
    if size_bytes > MESSAGE_LIMIT_BYTES - 64:
        raise MessageTooLarge(
            f"a {operation.name} of {size_bytes:,} bytes is over gRPC's limit of"
            f" {MESSAGE_LIMIT_BYTES:,} bytes for one message: use a smaller value, or split it"
            " over several keys"
        )
    if kind in _KEY_ONLY:
        return _KEY_ONLY[kind](key=key)
    return _WITH_VALUE[kind](key=key, value=value)


def stream_request(request_id: int, operations: Batch | Sequence[Operation]) -> bytes:
    """One stream request for all the operations, in columns and encoded.

    The encoding of two messages, one after the other, is that of both merged: that is how
    protobuf reads it. So columns that are there already want the id before them and no more.

    Raises `MessageTooLarge`, which says how many operations of this size would fit.
    """
    batch = operations if isinstance(operations, Batch) else batch_of(operations)
    request: bytes = pb.PipelineRequest(id=request_id).SerializeToString()
    request += batch.encoded or columns(batch)
    if len(request) > MESSAGE_LIMIT_BYTES:
        raise MessageTooLarge(_too_large(batch, len(request)))
    return request


def columns(batch: Batch) -> bytes:
    """A request that carries the batch, encoded but for its id."""
    request = pb.PipelineRequest(kinds=batch.kinds, keys=batch.keys, values=batch.values)
    encoded: bytes = request.SerializeToString()
    return encoded


def fitting(batch: Batch) -> int:
    """The largest number of neighbours in a batch that fit into one message, whichever they are.

    0 when one of the operations is too large on its own.
    """
    values = iter(batch.values)
    sizes_bytes = [
        1 + _field_bytes(key) + (_field_bytes(next(values)) if kind in _CARRY_VALUE else 0)
        for kind, key in zip(batch.kinds, batch.keys, strict=True)
    ]
    ends_bytes = np.cumsum(sizes_bytes)
    room_bytes = ends_bytes - sizes_bytes + MESSAGE_LIMIT_BYTES - _FRAME_BYTES
    first_outside = np.searchsorted(ends_bytes, room_bytes, side="right")
    fit = first_outside - np.arange(len(batch))
    return int(fit[first_outside < len(batch)].min(initial=len(batch)))


def _too_large(batch: Batch, size_bytes: int) -> str:
    fit = fitting(batch)
    advice = (
        f"with operations of this size, {fit:,} fit into one"
        if fit
        else "one of them is too large on its own: use a smaller value, or split it over several"
        " keys"
    )
    return (
        f"a batch of {len(batch):,} operations makes a message of {size_bytes:,} bytes, over"
        f" gRPC's limit of {MESSAGE_LIMIT_BYTES:,} bytes: {advice}"
    )


def _field_bytes(content: bytes) -> int:
    """What bytes take as a field of a message: a tag, their length as a varint, themselves."""
    return 1 + max(1, (len(content).bit_length() + 6) // 7) + len(content)
