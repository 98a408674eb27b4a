"""The key-value service, on a thread pool and on one event loop, and its count of operations."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from queue import SimpleQueue
from typing import Any

import grpc

from kvstore.protocol import (
    CREATE,
    DEADLINE_EXCEEDED,
    DELETE,
    KINDS,
    METADATA_KEY,
    OK,
    RETRIEVE,
    STATUSES,
    UPDATE,
    StationClock,
    to_header,
)
from kvstore.server.admission import MeasuredPool, too_late
from kvstore.server.settings import ServerSettings
from kvstore.server.store import ASYNC_LOCKS, DETAILS, LOCKS, STORES, Disk, LooksFirst
from kvstore.server.stream import (
    Answer,
    AsyncStreamWindow,
    Batch,
    StreamWindow,
    answer_to,
    operations_of,
    problem_of,
    refused,
)
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

STATUS_CODE: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
"""gRPC's status by its number."""

_Done = SimpleQueue[tuple[Answer, int] | Exception | int]
"""Events for the writer of a stream: an answer and its bytes, an error that ends the stream, or,
when the client has sent all requests, their number."""


class Counts:
    """The number of operations answered, by kind and status; safe for several threads.

    It is independent of the client's count, so a wrong count of the client is detected.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, kind: int, status: int) -> None:
        """Count one operation."""
        with self._lock:
            self._counts[kind, status] += 1

    def add_columns(self, kinds: bytes, statuses: bytes | bytearray) -> None:
        """Count the operations of one message."""
        if len(kinds) == 1:
            self.add(kinds[0], statuses[0])
            return
        found: Iterable[tuple[tuple[int, int], int]]
        if statuses.count(OK) == len(statuses):  # then one count for each kind suffices
            found = [((kind, OK), kinds.count(kind)) for kind in set(kinds)]
        else:
            found = Counter(zip(kinds, statuses, strict=True)).items()
        with self._lock:
            for what, count in found:
                self._counts[what] += count

    def by_name(self) -> dict[str, int]:
        """Return the counts under names such as "create/OK"."""
        with self._lock:
            counts = dict(self._counts)
        return {f"{_kind_name(kind)}/{STATUSES[s]}": n for (kind, s), n in counts.items()}


def _kind_name(kind: int) -> str:
    return KINDS[kind] if 0 < kind < len(KINDS) else f"kind {kind}"


class KeyValueService(kvstore_pb2_grpc.KeyValueServiceServicer):
    """Answers calls in the threads of gRPC's pool."""

    def __init__(self, settings: ServerSettings, pool: MeasuredPool, counts: Counts) -> None:
        self._store = STORES[settings.writing]()
        self._looks_first = self._store if isinstance(self._store, LooksFirst) else None
        self._disk = Disk(settings)
        self._locks = LOCKS[settings.locking]()
        self._group_commit = settings.group_commit
        self._time_needed_s = settings.time_needed_s
        self._report_times = settings.station_times
        self._pool = pool
        self._counts = counts
        # A stream occupies a thread of gRPC's pool while it is open. Its operations go to a
        # second pool of the same size: in the same pool, as many streams as threads would
        # deadlock.
        self._stream_pool = MeasuredPool(settings.threads, "stream")

    def close(self) -> None:
        """Release what the service holds, after its last call: with data in memory, nothing."""

    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> pb.CreateResponse:
        """Store a value under a new key."""
        self._answer(CREATE, request.key, request.value, context)
        return pb.CreateResponse()

    def Retrieve(
        self, request: pb.RetrieveRequest, context: grpc.ServicerContext
    ) -> pb.RetrieveResponse:
        """Return the value of a key."""
        return pb.RetrieveResponse(value=self._answer(RETRIEVE, request.key, b"", context))

    def Update(self, request: pb.UpdateRequest, context: grpc.ServicerContext) -> pb.UpdateResponse:
        """Replace the value of a key."""
        self._answer(UPDATE, request.key, request.value, context)
        return pb.UpdateResponse()

    def Delete(self, request: pb.DeleteRequest, context: grpc.ServicerContext) -> pb.DeleteResponse:
        """Delete a key."""
        self._answer(DELETE, request.key, b"", context)
        return pb.DeleteResponse()

    def Pipeline(
        self, request_iterator: Iterable[pb.PipelineRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.PipelineResponse]:
        """Answer each request of the stream as its operations finish.

        One thread reads requests, the stream pool answers them, and this thread writes: gRPC takes
        the next reply when the previous one is written. Only then is its place in the window free.
        """
        window, done = StreamWindow(), _Done()
        threading.Thread(
            target=self._read_stream, args=(request_iterator, window, done), daemon=True
        ).start()
        admitted, written = None, 0
        try:
            while written != admitted:
                event = done.get()
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, int):
                    admitted = event
                    continue
                answer, answer_bytes = event
                yield answer.reply()
                window.written(answer_bytes)
                written += 1
        finally:
            window.close()  # the client may have gone

    def _read_stream(
        self, requests: Iterable[pb.PipelineRequest], window: StreamWindow, done: _Done
    ) -> None:
        """Submit requests to the stream pool while the window has room; report their number."""

        def answer(batch: Batch, batch_bytes: int) -> None:
            try:
                answered = self._answer_request(batch)
            except Exception as error:
                done.put(error)  # it ends the call: a missing reply would hang it
                return
            answer_bytes = answered.held_bytes()
            window.answered(batch_bytes, answer_bytes)
            done.put((answered, answer_bytes))

        admitted = 0
        try:
            for request in requests:
                batch = Batch.of(request)
                batch_bytes = batch.held_bytes()
                if not window.admit(batch_bytes):
                    break
                self._stream_pool.submit(answer, batch, batch_bytes)
                admitted += 1
        except (grpc.RpcError, RuntimeError):
            pass  # the client has gone, or the server stops: started operations end
        finally:
            done.put(admitted)

    def _answer(self, kind: int, key: bytes, value: bytes, context: grpc.ServicerContext) -> bytes:
        """Execute one unary operation; a refusal becomes the status of the call."""
        clock = StationClock(self._pool.waited_s())
        if self._time_needed_s and too_late(context, self._time_needed_s):
            status, found = DEADLINE_EXCEEDED, b""
        else:
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
        clock = StationClock(self._stream_pool.waited_s())
        if problem := problem_of(request):
            return refused(request, problem)
        statuses, values = self._apply_all(request, clock)
        times = clock.times() if self._report_times else None
        answer = answer_to(request, statuses, values, times)
        self._counts.add_columns(request.kinds, answer.statuses)
        return answer

    def _apply_all(self, request: Batch, clock: StationClock) -> tuple[bytes, list[bytes]]:
        """Execute all operations of a request: with one commit if that is set, else one by one."""
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

    def _commit(self, request: Batch, clock: StationClock) -> tuple[bytes, list[bytes]]:
        """Execute all operations with one commit: all locks, the disk once, then the store."""
        kinds, keys = request.kinds, request.keys
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
        """Acquire the lock, use the disk and apply the operation, in the order of the locking."""
        if self._locks.through_disk:
            with self._locks.holding(kind, key):
                clock.locked()
                self._disk.work(kind)
                clock.worked()
                return self._store.apply(kind, key, value)
        if self._looks_first is not None:  # not `if store`: an empty store is false
            return self._look_and_settle(self._looks_first, kind, key, value, clock)
        self._disk.work(kind)
        clock.worked()
        with self._locks.holding(kind, key):
            clock.locked()
            return self._store.apply(kind, key, value)

    def _look_and_settle(
        self, store: LooksFirst, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        """Read, use the disk, write; begin again if another write came between."""
        while True:
            seen = store.look(key)
            self._disk.work(kind)
            clock.worked()
            with self._locks.holding(kind, key):
                clock.locked()
                answer = store.settle(kind, key, value, seen)
            if answer is not None:
                return answer


# ---- service async ------------------------------------------------------------------------------
# The key-value service on one event loop: a call holds a task, not a thread.


Context = Any  # grpc.aio.ServicerContext, generic in messages that protoc leaves untyped

_AsyncDone = asyncio.Queue[tuple[Answer, int] | Exception | int]
"""Events for the writer of a stream: an answer and its bytes, an error that ends the stream, or,
when the client has sent all requests, their number."""


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
        self._report_times = settings.station_times
        self._counts = counts

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

    async def Pipeline(self, request_iterator: object, context: Context) -> None:
        """Answer each request of the stream as its operations finish.

        It uses `context.read` and `context.write`, not a generator over the iterator: the two
        generators in between took a fifth of the CPU time of a message of one operation.
        """
        if self._at_once:  # nothing waits, so requests finish in their order
            while (request := await context.read()) is not grpc.aio.EOF:
                await context.write(self._answer_at_once(Batch.of(request)).reply())
            return
        window, done = AsyncStreamWindow(), _AsyncDone()
        reader = asyncio.create_task(self._read_stream(context, window, done))
        admitted, written = None, 0
        try:
            while written != admitted:
                event = await done.get()
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, int):
                    admitted = event
                    continue
                answer, answer_bytes = event
                await context.write(answer.reply())
                window.written(answer_bytes)
                written += 1
        finally:
            reader.cancel()  # the client may have gone; a finished reader does not mind
            await asyncio.wait([reader])

    async def _read_stream(
        self, context: Context, window: AsyncStreamWindow, done: _AsyncDone
    ) -> None:
        """Start a task for each request while the window has room; report their number."""

        async def answer(batch: Batch, batch_bytes: int) -> None:
            try:
                answered = await self._answer_request(batch)
            except Exception as error:
                done.put_nowait(error)  # it ends the call: a missing reply would hang it
                return
            answer_bytes = answered.held_bytes()
            window.answered(batch_bytes, answer_bytes)
            done.put_nowait((answered, answer_bytes))

        admitted = 0
        async with asyncio.TaskGroup() as group:
            try:
                while (request := await context.read()) is not grpc.aio.EOF:
                    batch = Batch.of(request)
                    batch_bytes = batch.held_bytes()
                    if window.full:
                        await window.room()
                    window.admit(batch_bytes)
                    group.create_task(answer(batch, batch_bytes))
                    admitted += 1
            except Exception as error:
                done.put_nowait(error)  # such as a message that cannot be parsed
            else:
                done.put_nowait(admitted)

    async def _answer(self, kind: int, key: bytes, value: bytes, context: Context) -> bytes:
        """Execute one unary operation; a refusal becomes the status of the call."""
        clock = StationClock()
        if self._time_needed_s and too_late(context, self._time_needed_s):
            status, found = DEADLINE_EXCEEDED, b""
        else:
            status, found = await self._apply(kind, key, value, clock)
        self._counts.add(kind, status)
        if self._report_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))
        if status != OK:
            context.set_code(STATUS_CODE[status])
            context.set_details(DETAILS[status])
        return found

    def _answer_at_once(self, request: Batch) -> Answer:
        """Execute the operations of a request without a disk time: no lock is held either."""
        clock = StationClock()
        if problem := problem_of(request):
            return refused(request, problem)
        kinds = request.kinds
        statuses, values = self._store.apply_columns(kinds, request.keys, request.values)
        return self._replied(request, statuses, values, clock)

    async def _answer_request(self, request: Batch) -> Answer:
        """Execute the operations of one stream request, one after the other."""
        clock = StationClock()
        if problem := problem_of(request):
            return refused(request, problem)
        statuses, values = await self._apply_all(request, clock)
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

    async def _apply_all(self, request: Batch, clock: StationClock) -> tuple[bytes, list[bytes]]:
        """Execute all operations of a request: with one commit if that is set, else one by one."""
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

    async def _commit(self, request: Batch, clock: StationClock) -> tuple[bytes, list[bytes]]:
        """Execute all operations with one commit: all locks, the disk once, then the store."""
        kinds, keys = request.kinds, request.keys
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
        """Acquire the lock, use the disk and apply the operation, in the order of the locking."""
        if self._locks.through_disk:
            async with self._locks.holding(kind, key):
                clock.locked()
                await self._disk.work_async(kind)
                clock.worked()
                return self._store.apply(kind, key, value)
        if self._looks_first is not None:  # not `if store`: an empty store is false
            return await self._look_and_settle(self._looks_first, kind, key, value, clock)
        await self._disk.work_async(kind)
        clock.worked()
        async with self._locks.holding(kind, key):
            clock.locked()
            return self._store.apply(kind, key, value)

    async def _look_and_settle(
        self, store: LooksFirst, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        """Read, use the disk, write; begin again if another write came between."""
        while True:
            seen = store.look(key)
            await self._disk.work_async(kind)
            clock.worked()
            async with self._locks.holding(kind, key):
                clock.locked()
                answer = store.settle(kind, key, value, seen)
            if answer is not None:
                return answer
