"""A service that forwards every unary call to a back end, on threads and on asyncio.

With threads, a call holds its thread while the back end works; on an event loop, only a task.
"""

from collections.abc import Callable
from typing import Any, Final

import grpc

from kvstore.protocol import (
    METADATA_KEY,
    METHODS,
    OK,
    OWN_CONNECTION,
    UNAVAILABLE,
    StationClock,
    to_header,
)
from kvstore.server.admission import MeasuredPool
from kvstore.server.counts import Counts
from kvstore.server.unary import STATUS_CODE
from kvstore.server_settings import ServerSettings
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceServicer, KeyValueServiceStub

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


class FrontService(KeyValueServiceServicer):
    """Forwards each unary call to the back end, and returns its answer. It has no stream.

    When a caller goes, a thread waits until the back end answers or the deadline has passed.
    """

    def __init__(
        self, settings: ServerSettings, counts: Counts, pool: MeasuredPool | None = None
    ) -> None:
        assert settings.back_end is not None
        self._settings, self._back_end = settings, settings.back_end
        self._counts, self._pool = counts, pool
        channel = self._open(settings.back_end, options=OPTIONS)
        self.close = channel.close
        stub = KeyValueServiceStub(channel)
        for name, kind in METHODS.items():
            setattr(self, name, self._forwarding(getattr(stub, name), kind))

    _open = staticmethod(grpc.insecure_channel)

    def _forwarding(self, method: Any, kind: int) -> Callable[..., Any]:
        """Return what answers calls by those of this method of the back end."""

        def forward(request: Any, context: Any) -> Any:
            clock, (timeout_s, caller_waits) = self._clock(), self._deadline(context)
            reply, status, details = None, OK, ""
            try:
                reply = method(request, timeout=timeout_s)
            except grpc.RpcError as error:
                status, details = self._refusal(error, caller_waits)
            self._end(kind, status, clock, context)
            if (
                status != OK
            ):  # a reply with a status that is only set is no failure to a retryPolicy
                context.abort(STATUS_CODE[status], details)
            return reply

        return forward

    def _clock(self) -> StationClock:
        return StationClock(0.0 if self._pool is None else self._pool.waited_s())

    def _deadline(self, context: Any) -> tuple[float, bool]:
        """Return the deadline for the back end in seconds, and whether the caller waits longer.

        The deadline is what the caller has left, and at most `back_end_timeout_s`.
        """
        left_s, most_s = context.time_remaining(), self._settings.back_end_timeout_s
        if left_s is None or left_s > NO_DEADLINE_S:
            left_s = PATIENCE_S
        return (left_s, False) if most_s is None or left_s <= most_s else (most_s, True)

    def _refusal(self, error: Any, caller_waits: bool) -> tuple[int, str]:
        """Return the back end's status and details, which name one that does not answer.

        A back end that took too long is UNAVAILABLE to a caller that still waits.
        """
        code, details = error.code(), error.details() or ""
        if caller_waits and code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return UNAVAILABLE, f"the back end at {self._back_end} did not answer in time"
        if code is grpc.StatusCode.UNAVAILABLE:
            details = (
                f"the back end at {self._back_end} cannot be reached, is it running? ({details})"
            )
        elif code is grpc.StatusCode.DEADLINE_EXCEEDED:
            details = (
                f"the back end at {self._back_end} did not answer before the caller's deadline"
            )
        return int(code.value[0]), details

    def _end(self, kind: int, status: int, clock: StationClock, context: Any) -> None:
        """Count the call; report its times, of which the back end's is that of the disk."""
        clock.worked()
        self._counts.add(kind, status)
        if self._settings.station_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))


class AsyncFrontService(FrontService):
    """`FrontService` on asyncio: when a caller goes, its call to the back end is cancelled."""

    _open = staticmethod(grpc.aio.insecure_channel)

    def _forwarding(self, method: Any, kind: int) -> Callable[..., Any]:
        async def forward(request: Any, context: Any) -> Any:
            clock, (timeout_s, caller_waits) = self._clock(), self._deadline(context)
            reply, status, details = None, OK, ""
            try:
                reply = await method(request, timeout=timeout_s)
            except grpc.aio.AioRpcError as error:
                status, details = self._refusal(error, caller_waits)
            self._end(kind, status, clock, context)
            if status != OK:
                await context.abort(STATUS_CODE[status], details)
            return reply

        return forward
