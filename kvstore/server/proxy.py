"""What a server in front of a back end needs on both stacks; the services are in `forwarding`."""

import time
from typing import Any, Final

import grpc

from kvstore.protocol import (
    CREATE,
    DELETE,
    OWN_CONNECTION,
    RETRIEVE,
    UNAVAILABLE,
    UPDATE,
)
from kvstore.server.counts import Counts
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


def end_with_caller(context: Any, call: Any) -> None:
    """Cancel a forwarded stream when its caller goes. On asyncio, the caller's task does so."""
    notify = getattr(context, "add_callback", None)
    if notify is not None and not notify(call.cancel):
        call.cancel()


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
