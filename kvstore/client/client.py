"""The client: four ways to make a call, and one place where every call is recorded.

`call` waits, `start` calls back, `acall` is awaited, `stream` keeps many requests in
flight on one call. Strategies are written in these verbs and never count anything.
"""

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import grpc

from kvstore.client.batch import Batch
from kvstore.client.connections import Connections
from kvstore.client.requests import unary_request
from kvstore.client.sent import Sent
from kvstore.client.sharding import AnyOperations
from kvstore.client.stream import Stream
from kvstore.client.workload import Operation
from kvstore.codes import CANCELLED, CREATE, OK, STATUSES
from kvstore.event_loop import event_loop_factory
from kvstore.measure.recorder import Recorder
from kvstore.stations import UNKNOWN_STATIONS, StationTimes, from_metadata

LATE_REPORTS_S = 0.1
"""Seconds an event loop stays open for gRPC after its calls were cancelled."""


class Answer(NamedTuple):
    """How a call ended."""

    status: str
    """"OK", or the name of a gRPC status."""
    value: bytes = b""
    """What a retrieve read."""


class Client(Sent):
    """Makes calls to one server and records the end of each."""

    def __init__(
        self,
        channel: grpc.Channel,
        address: str,
        *,
        deadline_s: float = 30.0,
        operations: AnyOperations | None = None,
        tells_times: bool = False,
        metadata: Mapping[str, str] | None = None,
        connections: int = 1,
        on_start: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(on_start)
        self.recorder = Recorder()
        self.deadline_s = deadline_s
        self.metadata = tuple((metadata or {}).items()) or None
        """What is sent along with every call, as pairs of name and text."""
        self._channel = channel
        self.connections = Connections(channel, address, connections, self._begin)
        self._operations = operations
        self.tells_times = tells_times
        self._aio: tuple[asyncio.AbstractEventLoop, asyncio.Task[object]] | None = None
        self.loop_cpu_s = math.nan
        """Processor seconds of the event loop that calls were made on; NaN without one."""
        self._idle = threading.Event()
        self._draining = False
        self._error: BaseException | None = None

    @property
    def in_flight(self) -> int:
        """Calls sent and not yet answered."""
        return self.issued - len(self.recorder)

    # Waiting for the answer

    def call(self, operation: Operation) -> Answer:
        """Send one operation and wait for its answer."""
        if operation.due_s > 0:  # never so in a closed loop, where it is NaN
            self._sleep_until(operation.due_s)
        request = unary_request(operation)
        connection, methods = self.connections.take(operation)
        method = methods[operation.kind]
        told: Any = None
        sent_s = self.sending()
        try:
            if self.tells_times:
                how = {"timeout": self.deadline_s, "metadata": self.metadata}
                reply, told = method.with_call(request, **how)
            else:  # without what tells of the call: to make it costs
                reply = method(request, timeout=self.deadline_s, metadata=self.metadata)
            status = OK
        except grpc.RpcError as error:
            reply, told, status = None, error, _code(error)
        except BaseException:
            self._ended(operation, sent_s, CANCELLED, 0, UNKNOWN_STATIONS, connection)
            raise
        value: bytes = getattr(reply, "value", b"")
        times = from_metadata(told.trailing_metadata()) if self.tells_times else UNKNOWN_STATIONS
        self._ended(operation, sent_s, status, len(value), times, connection)
        return Answer(STATUSES[status], value)

    def _sleep_until(self, due_s: float) -> None:
        time.sleep(max(0.0, due_s - self.now_s()))

    # Calling back

    def start(self, operation: Operation, on_reply: Callable[[], object] | None = None) -> None:
        """Send one operation and return; `on_reply` is called once its answer is recorded."""
        if operation.due_s > 0:
            self._sleep_until(operation.due_s)
        request = unary_request(operation)

        def ended(future: Any) -> None:
            try:
                try:
                    size, status = len(getattr(future.result(), "value", b"")), OK
                except (grpc.RpcError, grpc.FutureCancelledError):
                    size, status = 0, _code(future)
                times = (
                    from_metadata(future.trailing_metadata())
                    if self.tells_times
                    else UNKNOWN_STATIONS
                )
                self._ended(operation, sent_s, status, size, times, connection)
            except BaseException as error:  # gRPC would log it and go on; we raise it later
                self._error = error
                self._idle.set()
            finally:
                if on_reply is not None:
                    on_reply()

        connection, methods = self.connections.take(operation)
        sent_s = self.sending()
        try:
            future = methods[operation.kind].future(
                request, timeout=self.deadline_s, metadata=self.metadata
            )
        except BaseException:  # the channel is closed: it was counted, so it gets an end
            self._ended(operation, sent_s, CANCELLED, 0, UNKNOWN_STATIONS, connection)
            raise
        future.add_done_callback(ended)

    def wait_until_idle(self) -> None:
        """Return when every call that `start` sent has ended; raise what went wrong in one."""
        self._draining = True
        while self.in_flight and self._error is None:
            self._idle.wait(1.0)
            self._idle.clear()
        if self._error is not None:
            raise self._error

    # On an event loop

    def run_async(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run a coroutine on an event loop of its own, with channels that live as long.

        A channel belongs to the loop it was made on, and a notebook has a loop already,
        so strategies run in a thread and bring their own.
        """

        async def with_channel() -> None:
            task = asyncio.current_task()
            assert task is not None
            async with AsyncExitStack() as open_channels:
                self._aio = (asyncio.get_running_loop(), task)
                try:
                    await self.connections.aopen(open_channels)
                    began_s = time.thread_time()
                    try:
                        await work()
                    finally:
                        self.loop_cpu_s = time.thread_time() - began_s
                finally:
                    self._aio = None

        async def until_settled() -> None:
            try:
                await with_channel()
            except BaseException:
                # gRPC reports the end of a cancelled call a moment later, to this loop. Were
                # it closed by then, the next run's loop would stumble over the report.
                await asyncio.sleep(LATE_REPORTS_S)
                raise

        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(until_settled())

    async def acall(self, operation: Operation) -> Answer:
        """Send one operation and wait for its answer, letting other tasks run."""
        if operation.due_s > 0:  # never so in a closed loop, where it is NaN
            await self.until_due(operation)
        request = unary_request(operation)
        connection, methods = self.connections.atake(operation)
        call = methods[operation.kind](request, timeout=self.deadline_s, metadata=self.metadata)
        sent_s = self.asending()
        size, status, times, value = 0, CANCELLED, UNKNOWN_STATIONS, b""
        try:
            reply = await call
            status = OK
            value = getattr(reply, "value", b"")
            size = len(value)
        except grpc.aio.AioRpcError as error:
            status = _code(error)
        finally:
            if self.tells_times and status != CANCELLED:
                times = from_metadata(await call.trailing_metadata())
            self._ended(operation, sent_s, status, size, times, connection)
        return Answer(STATUSES[status], value)

    async def until_due(self, operation: Operation | Batch) -> None:
        """Sleep until the operation, or a batch's first, is due."""
        delay_s = operation.due_s - self.now_s()
        if delay_s > 0:
            await asyncio.sleep(delay_s)

    def stream(self, on_reply: Callable[[], object]) -> Stream:
        """A stream to send requests on, as an async context manager; see `Stream`."""
        connection, pipeline = self.connections.next_for_stream()
        shard = connection % self.connections.shards
        return Stream(self, pipeline, on_reply, connection, shard)

    # The end

    def cancel(self) -> None:
        """End every call in flight; each is recorded as CANCELLED, or NO_ANSWER on a stream."""
        if self._aio is not None:
            loop, task = self._aio
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                pass  # the loop closed meanwhile: nothing is in flight on it
        self.close()
        self._channel.close()

    def close(self) -> None:
        """Close the connections it opened; the channel it was given is the giver's."""
        self.connections.close()

    def created(self, key: bytes) -> None:
        """Tell the workload that a create was answered OK."""
        if self._operations is not None:
            self._operations.created(key)

    def _ended(
        self, operation: Operation, sent_s: float, status: int, size: int, times: StationTimes,
        connection: int,
    ) -> None:  # fmt: skip
        kind, key, value, due_s = operation
        self.recorder.record(
            due_s, sent_s, self.now_s(), kind, status,
            len(key) + len(value), size, times, 1, None, connection,
        )  # fmt: skip
        self.connections.give(connection)
        if status == OK and kind == CREATE:
            self.created(key)
        if self._draining and not self.in_flight:
            self._idle.set()


def _code(error: Any) -> int:
    return int(error.code().value[0])
