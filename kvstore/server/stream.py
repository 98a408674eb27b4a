"""A stream request with many operations and its reply; back-pressure on one stream."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from queue import SimpleQueue
from typing import Final, NamedTuple

from kvstore.protocol import (
    CREATE,
    INVALID_ARGUMENT,
    MESSAGE_LIMIT_BYTES,
    OK,
    RESOURCE_EXHAUSTED,
    RETRIEVE,
    UPDATE,
    StationTimes,
)
from kvstore.server.store import CARRY_VALUE, DETAILS
from kvstore.v1 import kvstore_pb2 as pb

_FIELD_BYTES = 5
"""Limit on the overhead of a value in bytes: its tag, and its length as a varint."""
_FRAME_BYTES = 11 + 5 + 38 + 3
"""Overhead of a reply besides statuses, values and detail: id, lengths, station times."""

OPERATION_BYTES = 64
"""Memory of an operation besides its key and value: the objects that hold them."""


class Batch(NamedTuple):
    """The operations of one stream request, in columns."""

    id: int
    kinds: bytes
    keys: list[bytes]
    values: list[bytes]

    @classmethod
    def of(cls, request: pb.PipelineRequest) -> "Batch":
        """Return the operations of this message, copied only once."""
        return cls(request.id, request.kinds, list(request.keys), list(request.values))

    def held_bytes(self) -> int:
        """Return the memory of these operations while they wait for their answer."""
        keys, values = self.keys, self.values
        held = OPERATION_BYTES * len(keys) + sum(map(len, keys))
        return held + sum(map(len, values)) if values else held


class Answer(NamedTuple):
    """The content of a reply. Its values are the objects of the store, not copies.

    So an answer that waits takes little memory, even with a large value. `reply` copies the values.
    """

    id: int
    statuses: bytes
    values: Sequence[bytes] = ()
    value_bytes: int = 0
    """Bytes of all values."""
    detail: str = ""
    times: StationTimes | None = None

    def held_bytes(self) -> int:
        """Return the memory of this answer while it waits to be written."""
        return OPERATION_BYTES * len(self.statuses) + self.value_bytes

    def reply(self) -> pb.PipelineResponse:
        """Return the message."""
        reply = pb.PipelineResponse(id=self.id, statuses=self.statuses, values=self.values)
        if self.detail:
            reply.detail = self.detail
        if (times := self.times) is not None:
            reply.station_times.pool_s = times.pool_s
            reply.station_times.lock_s = times.lock_s
            reply.station_times.disk_s = times.disk_s
            reply.station_times.rest_s = times.rest_s
        return reply


def problem_of(request: Batch) -> str | None:
    """Return what is wrong with the columns of a request; None if nothing is."""
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


def operations_of(request: Batch) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield kind, key and value of each operation, in order; b"" where there is no value."""
    values = iter(request.values)
    for kind, key in zip(request.kinds, request.keys, strict=True):
        yield kind, key, next(values) if kind in CARRY_VALUE else b""


def refused(request: Batch, problem: str) -> Answer:
    """Return the answer to a malformed request: INVALID_ARGUMENT for every operation."""
    count = max(1, len(request.kinds), len(request.keys))
    return Answer(request.id, bytes([INVALID_ARGUMENT]) * count, detail=problem)


def answer_to(
    request: Batch, statuses: bytes, values: Sequence[bytes], times: StationTimes | None
) -> Answer:
    """Return the answer with a status for each operation and a value for each successful read.

    A client refuses a message above the limit, which ends the stream with all its requests. So from
    the first value on that does not fit, retrieves fail with RESOURCE_EXHAUSTED. All other statuses
    stay: the writes were executed.
    """
    value_bytes = sum(map(len, values))
    limit_bytes = MESSAGE_LIMIT_BYTES - _FRAME_BYTES - len(statuses)
    if value_bytes + _FIELD_BYTES * len(values) > limit_bytes:
        statuses, values = _trimmed(request, statuses, values, limit_bytes)
        value_bytes = sum(map(len, values))
    failed = statuses.count(OK) < len(statuses)
    detail = DETAILS[next(filter(None, statuses))] if failed else ""
    return Answer(request.id, statuses, values, value_bytes, detail, times)


def _trimmed(
    request: Batch, statuses: bytes, values: Sequence[bytes], limit_bytes: int
) -> tuple[bytes, Sequence[bytes]]:
    """Return statuses and values without the values that would exceed the limit."""
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


# Back-pressure on one stream: a limit on what the server holds for a client that does not read.
#
# A request counts from its reading until its reply is written: until HTTP/2 flow control accepted
# it. A client that does not read its replies fills this window. The server then reads no more
# requests from the stream, and flow control makes the client wait.


STREAM_REQUESTS: Final = 16_384
"""Limit on the requests of one stream that the server holds."""
STREAM_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one stream at which the server stops reading: requests without an answer, and replies
that are not written yet."""


class _Window:
    """The requests and bytes that the server holds for a stream."""

    def __init__(self) -> None:
        self._requests = 0
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether the next request has to wait; an empty window is never full."""
        return self._requests >= STREAM_REQUESTS or self._bytes >= STREAM_BYTES


class StreamWindow(_Window):
    """The window of a stream that is served by threads.

    Only the thread that reads the stream uses the counts. Other threads send it their changes
    through a queue: with a lock, the threads of a busy pool waited for each other.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changes: SimpleQueue[tuple[int, int] | None] = SimpleQueue()

    def admit(self, request_bytes: int) -> bool:
        """Wait for room and count a request; return False if the stream was closed meanwhile."""
        while self.full or not self._changes.empty():
            change = self._changes.get()
            if change is None:
                return False
            self._requests += change[0]
            self._bytes += change[1]
        self._requests += 1
        self._bytes += request_bytes
        return True

    def answered(self, request_bytes: int, reply_bytes: int) -> None:
        """Count the reply in place of its request."""
        self._changes.put((0, reply_bytes - request_bytes))

    def written(self, reply_bytes: int) -> None:
        """Remove a request whose reply is written."""
        self._changes.put((-1, -reply_bytes))

    def close(self) -> None:
        """End the wait in `admit`: no further reply will be written."""
        self._changes.put(None)


class AsyncStreamWindow(_Window):
    """The window of a stream that is served by an event loop: `room` when it is full, `admit`."""

    def __init__(self) -> None:
        super().__init__()
        self._waits: asyncio.Future[None] | None = None

    async def room(self) -> None:
        """Wait until the window is no longer full; one task at a time."""
        self._waits = asyncio.get_running_loop().create_future()
        await self._waits
        self._waits = None

    def admit(self, request_bytes: int) -> None:
        """Count a request."""
        self._requests += 1
        self._bytes += request_bytes

    def answered(self, request_bytes: int, reply_bytes: int) -> None:
        """Count the reply in place of its request."""
        self._bytes += reply_bytes - request_bytes
        if self._waits:
            self._wake(self._waits)

    def written(self, reply_bytes: int) -> None:
        """Remove a request whose reply is written."""
        self._requests -= 1
        self._bytes -= reply_bytes
        if self._waits:
            self._wake(self._waits)

    def _wake(self, waits: "asyncio.Future[None]") -> None:
        if not self.full and not waits.done():
            waits.set_result(None)
