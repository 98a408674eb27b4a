"""What both front services share: how long to wait for the back end, and what to say of its end.

A front keeps nothing itself. It asks another key-value server for every answer, and passes
requests, replies and refusals on as they are.
"""

import time
from typing import Any, Final

import grpc

from kvstore.codes import CREATE, DELETE, RETRIEVE, UPDATE
from kvstore.server.status import Counts
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc
from kvstore.wire import OWN_CONNECTION

PATIENCE_S: Final = 30.0
"""Seconds that a back end gets for a caller who set no deadline: nobody waits for ever."""
NO_DEADLINE_S: Final = 365 * 24 * 3600.0
"""The threads server tells some such number for a caller who set none, asyncio tells None."""

OPTIONS: Final = [
    OWN_CONNECTION,
    # A back end that was restarted is found again soon: the default waits up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]
"""The channel from the front to its back end."""

EMPTY: Final = {
    CREATE: pb.CreateResponse(),
    RETRIEVE: pb.RetrieveResponse(),
    UPDATE: pb.UpdateResponse(),
    DELETE: pb.DeleteResponse(),
}
"""What a method returns beside a refusal."""


def methods(channel: Any) -> dict[int, Any]:
    """The back end's unary methods by kind of operation."""
    stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
    return {
        CREATE: stub.Create,
        RETRIEVE: stub.Retrieve,
        UPDATE: stub.Update,
        DELETE: stub.Delete,
    }


def deadline_s(context: Any) -> float | None:
    """Seconds that the caller still gives this call; None where it set no deadline."""
    left_s: float | None = context.time_remaining()
    return None if left_s is None or left_s > NO_DEADLINE_S else left_s


def patience_s(context: Any) -> float:
    """Seconds that the back end gets for a unary call: what the caller has left."""
    left_s = deadline_s(context)
    return PATIENCE_S if left_s is None else left_s


def refusal(error: Any, back_end: str) -> tuple[int, str]:
    """The back end's status, and what the caller is told: its own words, or whose end it was."""
    code, said = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        said = f"the back end at {back_end} cannot be reached, is it running? ({said})"
    elif code is grpc.StatusCode.DEADLINE_EXCEEDED:
        said = f"the back end at {back_end} did not answer in the time that the caller had left"
    return int(code.value[0]), said


class Passing:
    """The requests of one stream that are with the back end: counted, and timed on request."""

    def __init__(self, counts: Counts, tell_times: bool) -> None:
        self._counts = counts
        self._tell_times = tell_times
        self._open: dict[int, tuple[bytes, float]] = {}

    def asked(self, request: pb.PipelineRequest) -> pb.PipelineRequest:
        """A request goes to the back end."""
        self._open[request.id] = (request.kinds, time.perf_counter())
        return request

    def answered(self, reply: pb.PipelineResponse) -> pb.PipelineResponse:
        """Its reply comes from there; the times it tells are the back end's own, not ours."""
        kinds, asked_s = self._open.pop(reply.id, (b"", time.perf_counter()))
        if len(kinds) == len(reply.statuses):  # else its columns did not fit together
            self._counts.add_columns(kinds, reply.statuses)
        reply.ClearField("station_times")
        if self._tell_times:
            reply.station_times.disk_s = time.perf_counter() - asked_s
        return reply
