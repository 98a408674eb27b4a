"""A service in front of another, on a thread pool: a call holds its thread while the other works.

It stands for every service that waits for something slow behind it. The wait takes the place
of the disk: it is told to callers as the time of that station.
"""

from collections.abc import Iterable, Iterator
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
from kvstore.server.pool import MeasuredPool
from kvstore.server.settings import ServerSettings
from kvstore.server.status import STATUS_CODE, Counts
from kvstore.stations import METADATA_KEY, StationClock, to_header
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


class FrontService(kvstore_pb2_grpc.KeyValueServiceServicer):
    """Passes each call on to the back end, and its answer back, in a thread of the pool.

    A thread that waits for an answer hears of nothing else: when a caller cancels its call, the
    thread still waits, until the back end answers or the caller's deadline is over.
    """

    def __init__(self, settings: ServerSettings, pool: MeasuredPool, counts: Counts) -> None:
        assert settings.back_end is not None
        self._back_end = settings.back_end
        self._tell_times = settings.station_times
        self._pool = pool
        self._counts = counts
        channel = grpc.insecure_channel(settings.back_end, options=OPTIONS)
        self._methods = methods(channel)
        self._stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)

    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> Any:
        """Store a value under a new key."""
        return self._relay(CREATE, request, context)

    def Retrieve(self, request: pb.RetrieveRequest, context: grpc.ServicerContext) -> Any:
        """Answer the value of a key."""
        return self._relay(RETRIEVE, request, context)

    def Update(self, request: pb.UpdateRequest, context: grpc.ServicerContext) -> Any:
        """Replace the value of a key."""
        return self._relay(UPDATE, request, context)

    def Delete(self, request: pb.DeleteRequest, context: grpc.ServicerContext) -> Any:
        """Forget a key."""
        return self._relay(DELETE, request, context)

    def Pipeline(
        self, request_iterator: Iterable[pb.PipelineRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.PipelineResponse]:
        """Pass the stream on as a stream: its thread waits for the back end's replies."""
        passing = Passing(self._counts, self._tell_times)
        call = self._stub.Pipeline(
            map(passing.asked, request_iterator), timeout=deadline_s(context)
        )
        if not context.add_callback(call.cancel):  # for a caller who has gone: nobody wants them
            call.cancel()
        try:
            for reply in call:
                yield passing.answered(reply)
        except grpc.RpcError as error:
            status, words = refusal(error, self._back_end)
            context.set_code(STATUS_CODE[status])
            context.set_details(words)

    def _relay(self, kind: int, request: Any, context: grpc.ServicerContext) -> Any:
        """Ask the back end, and hold the thread until it answers."""
        clock = StationClock(self._pool.waited_s())
        status, words, reply = OK, "", EMPTY[kind]
        try:
            reply = self._methods[kind](request, timeout=patience_s(context))
        except grpc.RpcError as error:
            status, words = refusal(error, self._back_end)
        clock.worked()
        self._counts.add(kind, status)
        if self._tell_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))
        if status != OK:
            context.set_code(STATUS_CODE[status])
            context.set_details(words)
        return reply
