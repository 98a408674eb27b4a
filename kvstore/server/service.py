"""The key-value service, on a thread pool and on one event loop.

The steps of a call are in `unary`. Here is what the stacks do not share: a stream.
"""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from queue import SimpleQueue

import grpc

from kvstore.protocol import StationClock
from kvstore.server.admission import MeasuredPool
from kvstore.server.counts import Counts
from kvstore.server.stream import (
    Answer,
    AsyncStreamWindow,
    Batch,
    StreamWindow,
    problem_of,
    refused,
)
from kvstore.server.unary import AsyncUnaryMethods, Context, UnaryMethods
from kvstore.server_settings import ServerSettings
from kvstore.v1 import kvstore_pb2 as pb

_Done = SimpleQueue[tuple[Answer, int] | Exception | int]
"""Events for the writer of a stream: an answer and its bytes, an error that ends the stream, or,
when the client has sent all requests, their number."""

_AsyncDone = asyncio.Queue[tuple[Answer, int] | Exception | int]
"""The same events on an event loop."""


class KeyValueService(UnaryMethods):
    """Answers calls in the threads of gRPC's pool."""

    def __init__(self, settings: ServerSettings, counts: Counts, pool: MeasuredPool) -> None:
        super().__init__(settings, counts, pool)
        # A stream occupies a thread of gRPC's pool while it is open. Its operations go to a
        # second pool of the same size: in the same pool, as many streams as threads would
        # deadlock.
        self._stream_pool = MeasuredPool(settings.threads, "stream")

    def _waited_s(self) -> float:
        return super()._waited_s() or self._stream_pool.waited_s()

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


class AsyncKeyValueService(AsyncUnaryMethods):
    """Answers calls in tasks of the running loop."""

    async def Pipeline(self, request_iterator: object, context: Context) -> None:
        """Answer each request of the stream as its operations finish.

        It uses `context.read` and `context.write`, not a generator over the iterator: the two
        generators in between took a fifth of the CPU time of a message of one operation.
        """
        if self._at_once():  # nothing waits, so requests finish in their order
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

    def _at_once(self) -> bool:
        """Return whether no operation ever waits."""
        return self._disk.instant

    def _answer_at_once(self, request: Batch) -> Answer:
        """Execute the operations of a request without a disk time: no lock is held either."""
        clock = StationClock()
        if problem := problem_of(request):
            return refused(request, problem)
        kinds = request.kinds
        statuses, values = self._store.apply_columns(kinds, request.keys, request.values)
        return self._replied(request, statuses, values, clock)
