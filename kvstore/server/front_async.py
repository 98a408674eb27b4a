"""A service in front of another, on one event loop: a call holds a task while the other works."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import grpc

from kvstore.codes import CREATE, DELETE, OK, RETRIEVE, UPDATE
from kvstore.server.back_end import (
    EMPTY,
    OPTIONS,
    Passing,
    deadline_s,
    methods,
    patience_s,
    refusal,
)
from kvstore.server.settings import ServerSettings
from kvstore.server.status import STATUS_CODE, Counts
from kvstore.stations import METADATA_KEY, StationClock, to_header
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

Context = Any  # grpc.aio.ServicerContext, generic in messages that protoc leaves untyped


class AsyncFrontService(kvstore_pb2_grpc.KeyValueServiceServicer):
    """Passes each call on to the back end, and its answer back, in a task of the running loop.

    When a caller goes away its task is cancelled, and with it the call to the back end.
    """

    def __init__(self, settings: ServerSettings, counts: Counts) -> None:
        assert settings.back_end is not None
        self._back_end = settings.back_end
        self._tell_times = settings.station_times
        self._counts = counts
        channel = grpc.aio.insecure_channel(settings.back_end, options=OPTIONS)
        self._methods = methods(channel)
        self._stub: Any = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        self.close = channel.close

    async def Create(self, request: pb.CreateRequest, context: Context) -> Any:
        """Store a value under a new key."""
        return await self._relay(CREATE, request, context)

    async def Retrieve(self, request: pb.RetrieveRequest, context: Context) -> Any:
        """Answer the value of a key."""
        return await self._relay(RETRIEVE, request, context)

    async def Update(self, request: pb.UpdateRequest, context: Context) -> Any:
        """Replace the value of a key."""
        return await self._relay(UPDATE, request, context)

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> Any:
        """Forget a key."""
        return await self._relay(DELETE, request, context)

    async def Pipeline(
        self, request_iterator: AsyncIterable[pb.PipelineRequest], context: Context
    ) -> AsyncIterator[pb.PipelineResponse]:
        """Pass the stream on as a stream."""
        passing = Passing(self._counts, self._tell_times)
        requests = (passing.asked(request) async for request in request_iterator)
        call = self._stub.Pipeline(requests, timeout=deadline_s(context))
        try:
            async for reply in call:
                yield passing.answered(reply)
        except grpc.aio.AioRpcError as error:
            status, words = refusal(error, self._back_end)
            await context.abort(STATUS_CODE[status], words)
        finally:
            call.cancel()  # the caller has gone, so nobody wants the answers; else it has ended

    async def _relay(self, kind: int, request: Any, context: Context) -> Any:
        """Ask the back end, and let other tasks run until it answers."""
        clock = StationClock()
        status, words, reply = OK, "", EMPTY[kind]
        try:
            reply = await self._methods[kind](request, timeout=patience_s(context))
        except grpc.aio.AioRpcError as error:
            status, words = refusal(error, self._back_end)
        clock.worked()
        self._counts.add(kind, status)
        if self._tell_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))
        if status != OK:
            context.set_code(STATUS_CODE[status])
            context.set_details(words)
        return reply
