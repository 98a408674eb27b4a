"""One pipeline request taken apart, and its reply put together; both stacks share it."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile

from kvstore.codes import (
    CREATE,
    INVALID_ARGUMENT,
    OK,
    RESOURCE_EXHAUSTED,
    RETRIEVE,
    UPDATE,
)
from kvstore.server.store import CARRY_VALUE, DETAILS
from kvstore.stations import StationTimes
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.wire import MESSAGE_LIMIT_BYTES

_FIELD_BYTES = 5
"""A value's tag, and its length as a varint: what it takes beside itself, at most."""
_FRAME_BYTES = 11 + 5 + 38 + 3
"""What a reply takes beside statuses, values and words: id, lengths, station times."""


def problem_of(request: pb.PipelineRequest) -> str | None:
    """What is wrong with the columns of a request, in words; None when they fit together."""
    kinds = request.kinds
    if not kinds:
        return "kinds is empty: a request carries at least one operation"
    if len(request.keys) != len(kinds):
        return f"{len(kinds)} kinds but {len(request.keys)} keys: one key for each operation"
    carried = kinds.count(CREATE) + kinds.count(UPDATE)
    if len(request.values) != carried:
        return (
            f"{carried} creates and updates but {len(request.values)} values:"
            " one value for each of them"
        )
    return None


def operations_of(request: pb.PipelineRequest) -> Iterator[tuple[int, bytes, bytes]]:
    """Kind, key and value of each operation, in order; the value is b"" where there is none."""
    values = iter(request.values)
    for kind, key in zip(request.kinds, request.keys, strict=True):
        yield kind, key, next(values) if kind in CARRY_VALUE else b""


def refused(request: pb.PipelineRequest, problem: str) -> pb.PipelineResponse:
    """The reply to columns that do not fit: every operation INVALID_ARGUMENT, none applied."""
    count = max(1, len(request.kinds), len(request.keys))
    return pb.PipelineResponse(
        id=request.id, statuses=bytes([INVALID_ARGUMENT]) * count, detail=problem
    )


def kept_within_limit(
    request: pb.PipelineRequest, statuses: bytes, values: Sequence[bytes]
) -> tuple[bytes, Sequence[bytes]]:
    """Statuses and values of a reply that the caller can receive.

    A client refuses a larger message and ends the stream, with all that is in flight on it.
    So from the first value on that does not fit, retrieves fail with RESOURCE_EXHAUSTED.
    Nothing else is touched: writes were done, and say so.
    """
    limit_bytes = MESSAGE_LIMIT_BYTES - _FRAME_BYTES - len(statuses)
    if sum(map(len, values)) + _FIELD_BYTES * len(values) <= limit_bytes:
        return statuses, values
    limit_bytes -= len(DETAILS[RESOURCE_EXHAUSTED])
    ends_bytes = accumulate(len(value) + _FIELD_BYTES for value in values)
    kept = sum(1 for _ in takewhile(limit_bytes.__ge__, ends_bytes))
    trimmed, read = bytearray(statuses), 0
    for place, (kind, status) in enumerate(zip(request.kinds, statuses, strict=True)):
        if kind == RETRIEVE and status == OK:
            read += 1
            if read > kept:
                trimmed[place] = RESOURCE_EXHAUSTED
    return bytes(trimmed), values[:kept]


def reply_to(
    request: pb.PipelineRequest,
    statuses: bytes,
    values: Sequence[bytes],
    times: StationTimes | None,
) -> pb.PipelineResponse:
    """The reply that carries one status for each operation and one value for each good read."""
    reply = pb.PipelineResponse(id=request.id, statuses=statuses, values=values)
    if statuses.count(OK) < len(statuses):
        reply.detail = DETAILS[next(filter(None, statuses))]
    if times is not None:
        reply.station_times.pool_s = times.pool_s
        reply.station_times.lock_s = times.lock_s
        reply.station_times.disk_s = times.disk_s
        reply.station_times.rest_s = times.rest_s
    return reply
