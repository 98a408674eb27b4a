# Made of unary_aio.py by tools/unasync.py: change that one.

"""One call of the key-value service, from request to reply: its lock, the disk, the data.

It is written for an event loop; the form for threads is made of it by `tools/unasync.py`.
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
from kvstore.server import store
from kvstore.server.admission import MeasuredPool
from kvstore.server.counts import Counts
from kvstore.server.store import DETAILS, Store, disk_for
from kvstore.server.stream import Answer, Batch, answer_to, operations_of, problem_of, refused
from kvstore.server_settings import ServerSettings
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

STATUS_CODE: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
"""gRPC's status by its number."""

Context = Any  # of grpc or grpc.aio: protoc leaves the types of messages open


class UnaryMethods(kvstore_pb2_grpc.KeyValueServiceServicer):
    """The unary methods of the service, and what a request of a stream needs."""

    def __init__(
        self, settings: ServerSettings, counts: Counts, pool: MeasuredPool | None = None
    ) -> None:
        self._store = Store()
        self._disk = disk_for(settings)
        self._locks = store.LOCKS[settings.locking]()
        self._report_times = settings.station_times
        self._counts = counts
        self._pool = pool

    def close(self) -> None:
        """Release what the service holds, after its last call: with data in memory, nothing."""

    def _waited_s(self) -> float:
        """Return the seconds for which this call waited for its thread; 0 on an event loop."""
        return 0.0 if self._pool is None else self._pool.waited_s()

    def Create(self, request: pb.CreateRequest, context: Context) -> pb.CreateResponse:
        """Store a value under a new key."""
        self._answer(CREATE, request.key, request.value, context)
        return pb.CreateResponse()

    def Retrieve(self, request: pb.RetrieveRequest, context: Context) -> pb.RetrieveResponse:
        """Return the value of a key."""
        return pb.RetrieveResponse(value=self._answer(RETRIEVE, request.key, b"", context))

    def Update(self, request: pb.UpdateRequest, context: Context) -> pb.UpdateResponse:
        """Replace the value of a key."""
        self._answer(UPDATE, request.key, request.value, context)
        return pb.UpdateResponse()

    def Delete(self, request: pb.DeleteRequest, context: Context) -> pb.DeleteResponse:
        """Delete a key."""
        self._answer(DELETE, request.key, b"", context)
        return pb.DeleteResponse()

    def _answer(self, kind: int, key: bytes, value: bytes, context: Context) -> bytes:
        """Execute one unary operation; a refusal becomes the status of the call."""
        clock = StationClock(self._waited_s())
        status, found = self._apply(kind, key, value, clock)
        self._counts.add(kind, status)
        if self._report_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))
        if status != OK:
            context.set_code(STATUS_CODE[status])
            context.set_details(DETAILS[status])
        return found

    def _answer_request(self, request: Batch) -> Answer:
        """Execute the operations of one stream request, one after the other."""
        clock = StationClock(self._waited_s())
        if problem := problem_of(request):
            return refused(request, problem)
        statuses, values = self._apply_all(request, clock)
        return self._replied(request, statuses, values, clock)

    def _replied(
        self,
        request: Batch,
        statuses: bytes,
        values: list[bytes],
        clock: StationClock,
    ) -> Answer:
        times = clock.times() if self._report_times else None
        answer = answer_to(request, statuses, values, times)
        self._counts.add_columns(request.kinds, answer.statuses)
        return answer

    def _apply_all(self, request: Batch, clock: StationClock) -> tuple[bytes, list[bytes]]:
        """Execute the operations of a request one by one."""
        statuses = bytearray()
        values = []
        for kind, key, value in operations_of(request):
            clock.begin()
            status, found = self._apply(kind, key, value, clock)
            statuses.append(status)
            if kind == RETRIEVE and status == OK:
                values.append(found)
        return bytes(statuses), values

    def _apply(self, kind: int, key: bytes, value: bytes, clock: StationClock) -> tuple[int, bytes]:
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
