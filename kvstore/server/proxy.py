"""A service that forwards every call to a back end, on a thread pool or on one event loop.

With threads, a call holds its thread while the back end works; on the event loop, only a task.
"""

import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Final

import grpc

from kvstore.protocol import (
    CREATE,
    DELETE,
    METADATA_KEY,
    OK,
    OWN_CONNECTION,
    RETRIEVE,
    UNAVAILABLE,
    UPDATE,
    StationClock,
    to_header,
)
from kvstore.server.admission import MeasuredPool
from kvstore.server.service import STATUS_CODE, Counts
from kvstore.server.settings import ServerSettings
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

PATIENCE_S: Final = 30.0
"""Deadline of a call to the back end whose caller set none, in seconds."""
NO_DEADLINE_S: Final = 365 * 24 * 3600.0
"""Without a deadline, gRPC reports a time above this on threads, and None on asyncio."""

OPTIONS: Final = [
    OWN_CONNECTION,
    # Reconnect soon to a back end that was restarted: the default waits up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]
"""Options of the channel from the front to its back end."""


def methods(channel: Any) -> dict[int, Any]:
    """Return the back end's unary methods by kind of operation."""
    stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
    return {
        CREATE: stub.Create,
        RETRIEVE: stub.Retrieve,
        UPDATE: stub.Update,
        DELETE: stub.Delete,
    }


def deadline_s(context: Any) -> float | None:
    """Return the seconds until the caller's deadline; None where it set none."""
    left_s: float | None = context.time_remaining()
    return None if left_s is None or left_s > NO_DEADLINE_S else left_s


def patience_s(context: Any, most_s: float | None = None) -> tuple[float, bool]:
    """Return the deadline for the back end in seconds, and whether the caller waits for longer.

    The deadline is what the caller has left, and at most `most_s`.
    """
    left_s = deadline_s(context)
    left_s = PATIENCE_S if left_s is None else left_s
    return (left_s, False) if most_s is None or left_s <= most_s else (most_s, True)


def refusal(error: Any, back_end: str, caller_waits: bool = False) -> tuple[int, str]:
    """Return the back end's status and details, which name one that does not answer.

    A back end that took too long is UNAVAILABLE to a caller that still waits.
    """
    code, details = error.code(), error.details() or ""
    if caller_waits and code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return UNAVAILABLE, f"the back end at {back_end} did not answer in time"
    if code is grpc.StatusCode.UNAVAILABLE:
        details = f"the back end at {back_end} cannot be reached, is it running? ({details})"
    elif code is grpc.StatusCode.DEADLINE_EXCEEDED:
        details = f"the back end at {back_end} did not answer before the caller's deadline"
    return int(code.value[0]), details


class StreamRelay:
    """The open requests of one forwarded stream: counted, and timed if that is set."""

    def __init__(self, counts: Counts, report_times: bool) -> None:
        self._counts = counts
        self._report_times = report_times
        self._open: dict[int, tuple[bytes, float]] = {}

    def forwarded(self, request: pb.PipelineRequest) -> pb.PipelineRequest:
        """Note that a request is forwarded; return it."""
        self._open[request.id] = (request.kinds, time.perf_counter())
        return request

    def answered(self, reply: pb.PipelineResponse) -> pb.PipelineResponse:
        """Return the reply of the back end, with the station times of this server."""
        kinds, sent_s = self._open.pop(reply.id, (b"", time.perf_counter()))
        if len(kinds) == len(reply.statuses):  # else the request was malformed
            self._counts.add_columns(kinds, reply.statuses)
        reply.ClearField("station_times")
        if self._report_times:
            reply.station_times.disk_s = time.perf_counter() - sent_s
        return reply


class FrontService(kvstore_pb2_grpc.KeyValueServiceServicer):
    """Forwards each call to the back end, and returns its answer, in a thread of the pool.

    When a caller cancels its call, the thread still waits until the back end answers or the
    deadline has passed.
    """

    def __init__(self, settings: ServerSettings, pool: MeasuredPool, counts: Counts) -> None:
        assert settings.back_end is not None
        self._back_end = settings.back_end
        self._timeout_s = settings.back_end_timeout_s
        self._report_times = settings.station_times
        self._pool = pool
        self._counts = counts
        channel = grpc.insecure_channel(settings.back_end, options=OPTIONS)
        self.close = channel.close
        self._methods = methods(channel)
        self._stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)

    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> Any:
        """Store a value under a new key."""
        return self._relay(CREATE, request, context)

    def Retrieve(self, request: pb.RetrieveRequest, context: grpc.ServicerContext) -> Any:
        """Return the value of a key."""
        return self._relay(RETRIEVE, request, context)

    def Update(self, request: pb.UpdateRequest, context: grpc.ServicerContext) -> Any:
        """Replace the value of a key."""
        return self._relay(UPDATE, request, context)

    def Delete(self, request: pb.DeleteRequest, context: grpc.ServicerContext) -> Any:
        """Delete a key."""
        return self._relay(DELETE, request, context)

    def Pipeline(
        self, request_iterator: Iterable[pb.PipelineRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.PipelineResponse]:
        """Forward the stream; its thread waits for the back end's replies."""
        relay = StreamRelay(self._counts, self._report_times)
        call = self._stub.Pipeline(
            map(relay.forwarded, request_iterator), timeout=deadline_s(context)
        )
        if not context.add_callback(call.cancel):  # the caller has gone
            call.cancel()
        try:
            for reply in call:
                yield relay.answered(reply)
        except grpc.RpcError as error:
            status, words = refusal(error, self._back_end)
            context.set_code(STATUS_CODE[status])
            context.set_details(words)

    def _relay(self, kind: int, request: Any, context: grpc.ServicerContext) -> Any:
        """Call the back end, and hold the thread until it answers."""
        clock = StationClock(self._pool.waited_s())
        status, words, reply = OK, "", None
        timeout_s, caller_waits = patience_s(context, self._timeout_s)
        try:
            reply = self._methods[kind](request, timeout=timeout_s)
        except grpc.RpcError as error:
            status, words = refusal(error, self._back_end, caller_waits)
        clock.worked()
        self._counts.add(kind, status)
        if self._report_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))
        if status != OK:  # a reply with a status that is only set is no failure to a retryPolicy
            context.abort(STATUS_CODE[status], words)
        return reply


Context = Any  # grpc.aio.ServicerContext, generic in messages that protoc leaves untyped


class AsyncFrontService(kvstore_pb2_grpc.KeyValueServiceServicer):
    """Forwards each call to the back end, and returns its answer, in a task of the running loop.

    When a caller goes away, its task and the call to the back end are cancelled.
    """

    def __init__(self, settings: ServerSettings, counts: Counts) -> None:
        assert settings.back_end is not None
        self._back_end = settings.back_end
        self._timeout_s = settings.back_end_timeout_s
        self._report_times = settings.station_times
        self._counts = counts
        channel = grpc.aio.insecure_channel(settings.back_end, options=OPTIONS)
        self._methods = methods(channel)
        self._stub: Any = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        self.close = channel.close

    async def Create(self, request: pb.CreateRequest, context: Context) -> Any:
        """Store a value under a new key."""
        return await self._relay(CREATE, request, context)

    async def Retrieve(self, request: pb.RetrieveRequest, context: Context) -> Any:
        """Return the value of a key."""
        return await self._relay(RETRIEVE, request, context)

    async def Update(self, request: pb.UpdateRequest, context: Context) -> Any:
        """Replace the value of a key."""
        return await self._relay(UPDATE, request, context)

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> Any:
        """Delete a key."""
        return await self._relay(DELETE, request, context)

    async def Pipeline(
        self, request_iterator: AsyncIterable[pb.PipelineRequest], context: Context
    ) -> AsyncIterator[pb.PipelineResponse]:
        """Forward the stream."""
        relay = StreamRelay(self._counts, self._report_times)
        requests = (relay.forwarded(request) async for request in request_iterator)
        call = self._stub.Pipeline(requests, timeout=deadline_s(context))
        try:
            async for reply in call:
                yield relay.answered(reply)
        except grpc.aio.AioRpcError as error:
            status, words = refusal(error, self._back_end)
            await context.abort(STATUS_CODE[status], words)
        finally:
            call.cancel()  # if the caller has gone; else it has ended already

    async def _relay(self, kind: int, request: Any, context: Context) -> Any:
        """Call the back end, and let other tasks run until it answers."""
        clock = StationClock()
        status, words, reply = OK, "", None
        timeout_s, caller_waits = patience_s(context, self._timeout_s)
        try:
            reply = await self._methods[kind](request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            status, words = refusal(error, self._back_end, caller_waits)
        clock.worked()
        self._counts.add(kind, status)
        if self._report_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))
        if status != OK:  # a reply with a status that is only set is no failure to a retryPolicy
            await context.abort(STATUS_CODE[status], words)
        return reply
