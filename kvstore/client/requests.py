"""Messages: an operation as the request of its method, and a batch as one stream request."""

from collections.abc import Callable, Sequence

from google.protobuf.message import Message

from kvstore.client.batch import Batch, batch_of
from kvstore.client.workload import MESSAGE_LIMIT_BYTES, Operation
from kvstore.measure.codes import CREATE, DELETE, RETRIEVE, UPDATE
from kvstore.v1 import kvstore_pb2 as pb

METHODS = {CREATE: "Create", RETRIEVE: "Retrieve", UPDATE: "Update", DELETE: "Delete"}
"""Name of the unary method by kind of operation."""

_BUILD: dict[int, Callable[[Operation], Message]] = {
    CREATE: lambda op: pb.CreateRequest(key=op.key, value=op.value),
    RETRIEVE: lambda op: pb.RetrieveRequest(key=op.key),
    UPDATE: lambda op: pb.UpdateRequest(key=op.key, value=op.value),
    DELETE: lambda op: pb.DeleteRequest(key=op.key),
}


class MessageTooLarge(ValueError):
    """A request is over gRPC's limit; it was not sent."""


def payload_bytes(operation: Operation) -> int:
    """Bytes of key and value together: what the caller wanted moved."""
    return len(operation.key) + len(operation.value)


def unary_request(operation: Operation) -> Message:
    """The request of the operation's own method. Raises `MessageTooLarge`."""
    if payload_bytes(operation) > MESSAGE_LIMIT_BYTES - 64:
        raise MessageTooLarge(
            f"a {operation.name} of {payload_bytes(operation):,} bytes is over gRPC's limit of"
            f" {MESSAGE_LIMIT_BYTES:,} bytes for one message: use a smaller value, or split it"
            " over several keys"
        )
    return _BUILD[operation.kind](operation)


def stream_request(request_id: int, operations: Batch | Sequence[Operation]) -> pb.PipelineRequest:
    """One stream request for all the operations, in columns. Raises `MessageTooLarge`."""
    batch = batch_of(operations)
    total = batch.payload_bytes + 16 * len(batch)
    if total > MESSAGE_LIMIT_BYTES - 64:
        fits = max(1, len(batch) * MESSAGE_LIMIT_BYTES // (total + 1))
        raise MessageTooLarge(
            f"a batch of {len(batch)} operations and {total:,} bytes is over gRPC's limit of"
            f" {MESSAGE_LIMIT_BYTES:,} bytes for one message: with values of this size about"
            f" {fits} would fit"
        )
    return pb.PipelineRequest(
        id=request_id, kinds=batch.kinds, keys=batch.keys, values=batch.values
    )
