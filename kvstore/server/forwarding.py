# Made of forwarding_aio.py by tools/unasync.py: change that one.

"""A service that forwards every call to a back end.

With threads, a call holds its thread while the back end works; on an event loop, only a task.
It is written for an event loop; the form for threads is made of it by `tools/unasync.py`.
"""

from collections.abc import Iterable, Iterator
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
from kvstore.server.proxy import (
    OPTIONS,
    StreamRelay,
    deadline_s,
    end_with_caller,
    methods,
    patience_s,
    refusal,
)
from kvstore.server.unary import STATUS_CODE, Context
from kvstore.server_settings import ServerSettings
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


class FrontService(kvstore_pb2_grpc.KeyValueServiceServicer):
    """Forwards each call to the back end, and returns its answer.

    When a caller goes, a task is cancelled with its call to the back end; a thread waits until the
    back end answers or the deadline has passed.
    """

    def __init__(
        self, settings: ServerSettings, counts: Counts, pool: MeasuredPool | None = None
    ) -> None:
        assert settings.back_end is not None
        self._back_end = settings.back_end
        self._timeout_s = settings.back_end_timeout_s
        self._report_times = settings.station_times
        self._counts = counts
        self._pool = pool
        channel = grpc.insecure_channel(settings.back_end, options=OPTIONS)
        self._methods = methods(channel)
        self._stub: Any = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        self.close = channel.close

    def Create(self, request: pb.CreateRequest, context: Context) -> Any:
        """Store a value under a new key."""
        return self._relay(CREATE, request, context)

    def Retrieve(self, request: pb.RetrieveRequest, context: Context) -> Any:
        """Return the value of a key."""
        return self._relay(RETRIEVE, request, context)

    def Update(self, request: pb.UpdateRequest, context: Context) -> Any:
        """Replace the value of a key."""
        return self._relay(UPDATE, request, context)

    def Delete(self, request: pb.DeleteRequest, context: Context) -> Any:
        """Delete a key."""
        return self._relay(DELETE, request, context)

    def Pipeline(
        self, request_iterator: Iterable[pb.PipelineRequest], context: Context
    ) -> Iterator[pb.PipelineResponse]:
        """Forward the stream."""
        relay = StreamRelay(self._counts, self._report_times)
        requests = (relay.forwarded(request) for request in request_iterator)
        call = self._stub.Pipeline(requests, timeout=deadline_s(context))
        end_with_caller(context, call)
        try:
            for reply in call:
                yield relay.answered(reply)
        except grpc.RpcError as error:
            status, words = refusal(error, self._back_end)
            context.abort(STATUS_CODE[status], words)
        finally:
            call.cancel()  # if the caller has gone; else it has ended already

    def _relay(self, kind: int, request: Any, context: Context) -> Any:
        """Call the back end, and wait until it answers."""
        clock = StationClock(0.0 if self._pool is None else self._pool.waited_s())
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
