"""One call of the key-value service, from request to reply: its lock, the disk, the data.

`UnaryMethods` is for threads. `AsyncUnaryMethods` is for an event loop: it has again what may wait.
"""

from typing import Any

import grpc

from kvstore.protocol import (
    CREATE,
    DELETE,
    METADATA_KEY,
    OK,
    RETRIEVE,
    UPDATE,
    StationClock,
    to_header,
)
from kvstore.server.admission import MeasuredPool
from kvstore.server.counts import Counts
from kvstore.server.store import ASYNC_LOCKS, DETAILS, LOCKS, Store, disk_for
from kvstore.server.stream import Answer, Batch, answer_to, operations_of, problem_of, refused
from kvstore.server_settings import ServerSettings
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

STATUS_CODE: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
"""gRPC's status by its number."""

Context = Any  # of grpc or grpc.aio: protoc leaves the types of messages open


class UnaryMethods(kvstore_pb2_grpc.KeyValueServiceServicer):
    """The unary methods of the service, and what a request of a stream needs, on threads."""

    _all_locks: Any = LOCKS

    def __init__(
        self, settings: ServerSettings, counts: Counts, pool: MeasuredPool | None = None
    ) -> None:
        self._store = Store()
        self._disk = disk_for(settings)
        self._locks = self._all_locks[settings.locking]()
        self._report_times = settings.station_times
        self._counts = counts
        self._pool = pool

    def close(self) -> Any:
        """Release what the service holds, after its last call: with data in memory, nothing."""

    def Create(self, request: pb.CreateRequest, context: Context) -> Any:
        """Store a value under a new key."""
        self._answer(CREATE, request.key, request.value, context)
        return pb.CreateResponse()

    def Retrieve(self, request: pb.RetrieveRequest, context: Context) -> Any:
        """Return the value of a key."""
        return pb.RetrieveResponse(value=self._answer(RETRIEVE, request.key, b"", context))

    def Update(self, request: pb.UpdateRequest, context: Context) -> Any:
        """Replace the value of a key."""
        self._answer(UPDATE, request.key, request.value, context)
        return pb.UpdateResponse()

    def Delete(self, request: pb.DeleteRequest, context: Context) -> Any:
        """Delete a key."""
        self._answer(DELETE, request.key, b"", context)
        return pb.DeleteResponse()

    def _answer(self, kind: int, key: bytes, value: bytes, context: Context) -> Any:
        """Execute one unary operation; a refusal becomes the status of the call."""
        clock = self._clock()
        status, read = self._apply(kind, key, value, clock)
        self._end(kind, status, clock, context)
        return read

    def _answer_request(self, request: Batch) -> Any:
        """Execute the operations of one stream request, one after the other."""
        clock = self._clock()
        if problem := problem_of(request):
            return refused(request, problem)
        statuses, values = bytearray(), []
        for kind, key, value in operations_of(request):
            clock.begin()
            status, read = self._apply(kind, key, value, clock)
            statuses.append(status)
            if kind == RETRIEVE and status == OK:
                values.append(read)
        return self._replied(request, bytes(statuses), values, clock)

    def _apply(self, kind: int, key: bytes, value: bytes, clock: StationClock) -> Any:
        """Acquire the lock, use the disk and apply the operation, in the order of the locking."""
        if self._locks.through_disk:
            with self._locks.holding(kind, key):
                clock.locked()
                self._disk.work(kind)
                clock.worked()
                return self._store.apply(kind, key, value)
        self._disk.work(kind)
        clock.worked()
        with self._locks.holding(kind, key):
            clock.locked()
            return self._store.apply(kind, key, value)

    def _clock(self) -> StationClock:
        return StationClock(self._waited_s())

    def _waited_s(self) -> float:
        """Return the seconds for which this call waited for its thread; 0 on an event loop."""
        return 0.0 if self._pool is None else self._pool.waited_s()

    def _end(self, kind: int, status: int, clock: StationClock, context: Context) -> None:
        """Count a unary call, and set its status and its station times."""
        self._counts.add(kind, status)
        if self._report_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))
        if status != OK:
            context.set_code(STATUS_CODE[status])
            context.set_details(DETAILS[status])

    def _replied(
        self, request: Batch, statuses: bytes, values: list[bytes], clock: StationClock
    ) -> Answer:
        times = clock.times() if self._report_times else None
        answer = answer_to(request, statuses, values, times)
        self._counts.add_columns(request.kinds, answer.statuses)
        return answer


class AsyncUnaryMethods(UnaryMethods):
    """The same on an event loop."""

    _all_locks = ASYNC_LOCKS

    async def close(self) -> None:
        """Release what the service holds, after its last call: with data in memory, nothing."""

    async def Create(self, request: pb.CreateRequest, context: Context) -> pb.CreateResponse:
        """Store a value under a new key."""
        await self._answer(CREATE, request.key, request.value, context)
        return pb.CreateResponse()

    async def Retrieve(self, request: pb.RetrieveRequest, context: Context) -> pb.RetrieveResponse:
        """Return the value of a key."""
        return pb.RetrieveResponse(value=await self._answer(RETRIEVE, request.key, b"", context))

    async def Update(self, request: pb.UpdateRequest, context: Context) -> pb.UpdateResponse:
        """Replace the value of a key."""
        await self._answer(UPDATE, request.key, request.value, context)
        return pb.UpdateResponse()

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> pb.DeleteResponse:
        """Delete a key."""
        await self._answer(DELETE, request.key, b"", context)
        return pb.DeleteResponse()

    async def _answer(self, kind: int, key: bytes, value: bytes, context: Context) -> bytes:
        clock = self._clock()
        status, read = await self._apply(kind, key, value, clock)
        self._end(kind, status, clock, context)
        return read

    async def _answer_request(self, request: Batch) -> Answer:
        clock = self._clock()
        if problem := problem_of(request):
            return refused(request, problem)
        statuses, values = await self._apply_all(request, clock)
        return self._replied(request, statuses, values, clock)

    async def _apply_all(self, request: Batch, clock: StationClock) -> tuple[bytes, list[bytes]]:
        """Execute the operations of a request one by one."""
        statuses, values = bytearray(), []
        for kind, key, value in operations_of(request):
            clock.begin()
            status, read = await self._apply(kind, key, value, clock)
            statuses.append(status)
            if kind == RETRIEVE and status == OK:
                values.append(read)
        return bytes(statuses), values

    async def _apply(
        self, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        if self._locks.through_disk:
            async with self._locks.holding(kind, key):
                clock.locked()
                await self._disk.work_async(kind)
                clock.worked()
                return self._store.apply(kind, key, value)
        await self._disk.work_async(kind)
        clock.worked()
        async with self._locks.holding(kind, key):
            clock.locked()
            return self._store.apply(kind, key, value)
