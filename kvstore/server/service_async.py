"""The key-value service on one event loop: a call holds a task, not a thread."""

import asyncio
from typing import Any

import grpc

from kvstore.codes import CREATE, DEADLINE_EXCEEDED, DELETE, OK, RETRIEVE, UPDATE
from kvstore.server.batch import kept_within_limit, operations_of, problem_of, refused, reply_to
from kvstore.server.deadlines import too_late
from kvstore.server.disk import Disk
from kvstore.server.limits import STREAM_REQUESTS
from kvstore.server.locking import ASYNC_LOCKS
from kvstore.server.racing import STORES, LooksFirst
from kvstore.server.settings import ServerSettings
from kvstore.server.status import STATUS_CODE, Counts
from kvstore.server.store import DETAILS
from kvstore.stations import METADATA_KEY, StationClock, to_header
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

Context = Any  # grpc.aio.ServicerContext, generic in messages that protoc leaves untyped


class AsyncKeyValueService(kvstore_pb2_grpc.KeyValueServiceServicer):
    """Answers calls in tasks of the running loop."""

    def __init__(self, settings: ServerSettings, counts: Counts) -> None:
        self._store = STORES[settings.writing]()
        self._looks_first = self._store if isinstance(self._store, LooksFirst) else None
        self._disk = Disk(settings)
        self._at_once = self._disk.instant
        self._locks = ASYNC_LOCKS[settings.locking]()
        self._group_commit = settings.group_commit
        self._time_needed_s = settings.time_needed_s
        self._tell_times = settings.station_times
        self._counts = counts

    async def Create(self, request: pb.CreateRequest, context: Context) -> pb.CreateResponse:
        """Store a value under a new key."""
        await self._answer(CREATE, request.key, request.value, context)
        return pb.CreateResponse()

    async def Retrieve(self, request: pb.RetrieveRequest, context: Context) -> pb.RetrieveResponse:
        """Answer the value of a key."""
        return pb.RetrieveResponse(value=await self._answer(RETRIEVE, request.key, b"", context))

    async def Update(self, request: pb.UpdateRequest, context: Context) -> pb.UpdateResponse:
        """Replace the value of a key."""
        await self._answer(UPDATE, request.key, request.value, context)
        return pb.UpdateResponse()

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> pb.DeleteResponse:
        """Forget a key."""
        await self._answer(DELETE, request.key, b"", context)
        return pb.DeleteResponse()

    async def Pipeline(self, request_iterator: object, context: Context) -> None:
        """Answer each request of the stream as its operations finish.

        `context.read` and `context.write` rather than a generator over the iterator: the two
        generators in between cost a message of one operation a fifth of its processor time.
        """
        if self._at_once:  # nothing waits, so the order of asking is that of finishing
            while (request := await context.read()) is not grpc.aio.EOF:
                await context.write(self._answer_at_once(request))
            return
        replies: asyncio.Queue[pb.PipelineResponse | None] = asyncio.Queue()
        reader = asyncio.create_task(self._read_stream(context, replies))
        try:
            while (reply := await replies.get()) is not None:
                await context.write(reply)
        finally:
            reader.cancel()  # the caller has gone; a finished reader does not mind
            await asyncio.wait([reader])

    async def _read_stream(
        self, context: Context, replies: "asyncio.Queue[pb.PipelineResponse | None]"
    ) -> None:
        """Start a task for each request, at most `STREAM_REQUESTS` at once; None ends."""
        free = asyncio.Semaphore(STREAM_REQUESTS)

        async def answer(request: pb.PipelineRequest) -> None:
            replies.put_nowait(await self._answer_request(request))
            free.release()

        async with asyncio.TaskGroup() as group:
            while (request := await context.read()) is not grpc.aio.EOF:
                await free.acquire()
                group.create_task(answer(request))
        replies.put_nowait(None)

    async def _answer(self, kind: int, key: bytes, value: bytes, context: Context) -> bytes:
        """One unary operation; a refusal becomes the status of the call."""
        clock = StationClock()
        if self._time_needed_s and too_late(context, self._time_needed_s):
            status, found = DEADLINE_EXCEEDED, b""
        else:
            status, found = await self._apply(kind, key, value, clock)
        self._counts.add(kind, status)
        if self._tell_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))
        if status != OK:
            context.set_code(STATUS_CODE[status])
            context.set_details(DETAILS[status])
        return found

    def _answer_at_once(self, request: pb.PipelineRequest) -> pb.PipelineResponse:
        """The operations of a request that waits for no disk: then no lock is ever held either."""
        clock = StationClock()
        if problem := problem_of(request):
            return refused(request, problem)
        kinds = request.kinds
        statuses, values = self._store.apply_columns(kinds, list(request.keys), request.values)
        return self._replied(request, statuses, values, clock)

    async def _answer_request(self, request: pb.PipelineRequest) -> pb.PipelineResponse:
        """The operations of one stream request, one after the other."""
        clock = StationClock()
        if problem := problem_of(request):
            return refused(request, problem)
        statuses, values = await self._apply_all(request, clock)
        return self._replied(request, statuses, values, clock)

    def _replied(
        self,
        request: pb.PipelineRequest,
        statuses: bytes,
        values: list[bytes],
        clock: StationClock,
    ) -> pb.PipelineResponse:
        statuses, read = kept_within_limit(request, statuses, values)
        self._counts.add_columns(request.kinds, statuses)
        return reply_to(request, statuses, read, clock.times() if self._tell_times else None)

    async def _apply_all(
        self, request: pb.PipelineRequest, clock: StationClock
    ) -> tuple[bytes, list[bytes]]:
        """All operations of a request: as a group where that is set, else one by one."""
        if self._group_commit:
            return await self._commit(request, clock)
        statuses = bytearray()
        values = []
        for kind, key, value in operations_of(request):
            clock.begin()
            status, found = await self._apply(kind, key, value, clock)
            statuses.append(status)
            if kind == RETRIEVE and status == OK:
                values.append(found)
        return bytes(statuses), values

    async def _commit(
        self, request: pb.PipelineRequest, clock: StationClock
    ) -> tuple[bytes, list[bytes]]:
        """All operations at one price: the locks of all, the disk once, then the store."""
        kinds, keys = request.kinds, list(request.keys)
        kind = self._disk.heaviest(kinds)
        clock.begin()
        if self._locks.through_disk:
            async with self._locks.holding_all(kinds, keys):
                clock.locked()
                await self._disk.work_async(kind)
                clock.worked()
                return self._store.apply_columns(kinds, keys, request.values)
        await self._disk.work_async(kind)
        clock.worked()
        async with self._locks.holding_all(kinds, keys):
            clock.locked()
            return self._store.apply_columns(kinds, keys, request.values)

    async def _apply(
        self, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        """Take the lock, use the disk and touch the store, in the order that the locking says."""
        if self._locks.through_disk:
            async with self._locks.holding(kind, key):
                clock.locked()
                await self._disk.work_async(kind)
                clock.worked()
                return self._store.apply(kind, key, value)
        if self._looks_first is not None:  # an empty store counts as false
            return await self._look_and_settle(self._looks_first, kind, key, value, clock)
        await self._disk.work_async(kind)
        clock.worked()
        async with self._locks.holding(kind, key):
            clock.locked()
            return self._store.apply(kind, key, value)

    async def _look_and_settle(
        self, store: LooksFirst, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        """Look, use the disk, write; and begin again if somebody came between."""
        while True:
            seen = store.look(key)
            await self._disk.work_async(kind)
            clock.worked()
            async with self._locks.holding(kind, key):
                clock.locked()
                answer = store.settle(kind, key, value, seen)
            if answer is not None:
                return answer
