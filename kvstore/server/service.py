"""The key-value service on a thread pool: a call holds its thread until it is answered."""

import threading
from collections.abc import Iterable, Iterator
from queue import SimpleQueue

import grpc

from kvstore.codes import CREATE, DEADLINE_EXCEEDED, DELETE, OK, RETRIEVE, UPDATE
from kvstore.server.batch import kept_within_limit, operations_of, problem_of, refused, reply_to
from kvstore.server.deadlines import too_late
from kvstore.server.disk import Disk
from kvstore.server.limits import STREAM_REQUESTS
from kvstore.server.locking import LOCKS
from kvstore.server.pool import MeasuredPool
from kvstore.server.racing import STORES, LooksFirst
from kvstore.server.settings import ServerSettings
from kvstore.server.status import STATUS_CODE, Counts
from kvstore.server.store import DETAILS
from kvstore.stations import METADATA_KEY, StationClock, to_header
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


class KeyValueService(kvstore_pb2_grpc.KeyValueServiceServicer):
    """Answers calls in the threads that gRPC's pool lends."""

    def __init__(self, settings: ServerSettings, pool: MeasuredPool, counts: Counts) -> None:
        self._store = STORES[settings.writing]()
        self._looks_first = self._store if isinstance(self._store, LooksFirst) else None
        self._disk = Disk(settings)
        self._locks = LOCKS[settings.locking]()
        self._group_commit = settings.group_commit
        self._time_needed_s = settings.time_needed_s
        self._tell_times = settings.station_times
        self._pool = pool
        self._counts = counts
        # A stream keeps its own thread of gRPC's pool while it is open. Its operations
        # go to a second pool of the same size: in the same one, as many streams as
        # threads would wait for one another for ever.
        self._stream_pool = MeasuredPool(settings.threads, "stream")

    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> pb.CreateResponse:
        """Store a value under a new key."""
        self._answer(CREATE, request.key, request.value, context)
        return pb.CreateResponse()

    def Retrieve(
        self, request: pb.RetrieveRequest, context: grpc.ServicerContext
    ) -> pb.RetrieveResponse:
        """Answer the value of a key."""
        return pb.RetrieveResponse(value=self._answer(RETRIEVE, request.key, b"", context))

    def Update(self, request: pb.UpdateRequest, context: grpc.ServicerContext) -> pb.UpdateResponse:
        """Replace the value of a key."""
        self._answer(UPDATE, request.key, request.value, context)
        return pb.UpdateResponse()

    def Delete(self, request: pb.DeleteRequest, context: grpc.ServicerContext) -> pb.DeleteResponse:
        """Forget a key."""
        self._answer(DELETE, request.key, b"", context)
        return pb.DeleteResponse()

    def Pipeline(
        self, request_iterator: Iterable[pb.PipelineRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.PipelineResponse]:
        """Answer each request of the stream as its operations finish."""
        replies: SimpleQueue[pb.PipelineResponse | None] = SimpleQueue()
        threading.Thread(
            target=self._read_stream, args=(request_iterator, replies), daemon=True
        ).start()
        while (reply := replies.get()) is not None:
            yield reply

    def _read_stream(
        self,
        requests: Iterable[pb.PipelineRequest],
        replies: "SimpleQueue[pb.PipelineResponse | None]",
    ) -> None:
        """Hand requests to the stream pool, at most `STREAM_REQUESTS` at once; None ends."""
        free = threading.Semaphore(STREAM_REQUESTS)

        def answer(request: pb.PipelineRequest) -> None:
            try:
                replies.put(self._answer_request(request))
            finally:
                free.release()

        try:
            for request in requests:
                free.acquire()
                self._stream_pool.submit(answer, request)
        except (grpc.RpcError, RuntimeError):
            pass  # the caller has gone, or the server stops: what was begun is finished
        finally:
            for _ in range(STREAM_REQUESTS):  # all free again: all answered
                free.acquire()
            replies.put(None)

    def _answer(self, kind: int, key: bytes, value: bytes, context: grpc.ServicerContext) -> bytes:
        """One unary operation; a refusal becomes the status of the call."""
        clock = StationClock(self._pool.waited_s())
        if self._time_needed_s and too_late(context, self._time_needed_s):
            status, found = DEADLINE_EXCEEDED, b""
        else:
            status, found = self._apply(kind, key, value, clock)
        self._counts.add(kind, status)
        if self._tell_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))
        if status != OK:
            context.set_code(STATUS_CODE[status])
            context.set_details(DETAILS[status])
        return found

    def _answer_request(self, request: pb.PipelineRequest) -> pb.PipelineResponse:
        """The operations of one stream request, one after the other."""
        clock = StationClock(self._stream_pool.waited_s())
        if problem := problem_of(request):
            return refused(request, problem)
        statuses, values = self._apply_all(request, clock)
        statuses, read = kept_within_limit(request, statuses, values)
        self._counts.add_columns(request.kinds, statuses)
        return reply_to(request, statuses, read, clock.times() if self._tell_times else None)

    def _apply_all(
        self, request: pb.PipelineRequest, clock: StationClock
    ) -> tuple[bytes, list[bytes]]:
        """All operations of a request: as a group where that is set, else one by one."""
        if self._group_commit:
            return self._commit(request, clock)
        statuses = bytearray()
        values = []
        for kind, key, value in operations_of(request):
            clock.begin()
            status, found = self._apply(kind, key, value, clock)
            statuses.append(status)
            if kind == RETRIEVE and status == OK:
                values.append(found)
        return bytes(statuses), values

    def _commit(
        self, request: pb.PipelineRequest, clock: StationClock
    ) -> tuple[bytes, list[bytes]]:
        """All operations at one price: the locks of all, the disk once, then the store."""
        kinds, keys = request.kinds, list(request.keys)
        kind = self._disk.heaviest(kinds)
        clock.begin()
        if self._locks.through_disk:
            with self._locks.holding_all(kinds, keys):
                clock.locked()
                self._disk.work(kind)
                clock.worked()
                return self._store.apply_columns(kinds, keys, request.values)
        self._disk.work(kind)
        clock.worked()
        with self._locks.holding_all(kinds, keys):
            clock.locked()
            return self._store.apply_columns(kinds, keys, request.values)

    def _apply(self, kind: int, key: bytes, value: bytes, clock: StationClock) -> tuple[int, bytes]:
        """Take the lock, use the disk and touch the store, in the order that the locking says."""
        if self._locks.through_disk:
            with self._locks.holding(kind, key):
                clock.locked()
                self._disk.work(kind)
                clock.worked()
                return self._store.apply(kind, key, value)
        if self._looks_first is not None:  # an empty store counts as false
            return self._look_and_settle(self._looks_first, kind, key, value, clock)
        self._disk.work(kind)
        clock.worked()
        with self._locks.holding(kind, key):
            clock.locked()
            return self._store.apply(kind, key, value)

    def _look_and_settle(
        self, store: LooksFirst, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        """Look, use the disk, write; and begin again if somebody came between."""
        while True:
            seen = store.look(key)
            self._disk.work(kind)
            clock.worked()
            with self._locks.holding(kind, key):
                clock.locked()
                answer = store.settle(kind, key, value, seen)
            if answer is not None:
                return answer
