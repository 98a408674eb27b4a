"""Which calls a server accepts and runs: gRPC's limits, deadlines, the thread pool, metadata.

The pool measures how long each call waited for one of its threads.
"""

import hmac
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import grpc

from kvstore.credentials import HEADER, REFUSED, SCHEME, TOKEN, Access
from kvstore.protocol import ATTEMPTS_KEY, CALL_KEY, MESSAGE_LIMIT_BYTES
from kvstore.server_settings import ServerSettings

PENDING_CALLS = 12_000
"""Limit on the calls that wait until the server accepts them; a call beyond it is refused at once.

It is above the 10,000 calls in flight of the course's bursts. gRPC's own limit of 1,000 cancels
thousands of them. Without a limit, a flood takes memory for each of its calls, and other clients
wait until all of them are served. For the same reason a server that strangers can reach, one with
TLS, keeps gRPC's limit: after a flood it answers as soon as any other server of gRPC.
"""

PENDING = (
    ("grpc.server.max_pending_requests", PENDING_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", PENDING_CALLS),
)

LIMITS = (
    ("grpc.server_handshake_timeout_ms", 10_000),  # gRPC's own limit is 120,000
    # For peers that vanish without closing their connection, or keep one that they do not use.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_connection_idle_ms", 600_000),
    ("grpc.max_connection_age_ms", 7_200_000),
    ("grpc.max_connection_age_grace_ms", 60_000),
)
"""Limits on what peers may take. Metadata of a call are limited by gRPC to 8 KiB, messages to
`MESSAGE_LIMIT_BYTES`, and what a stream may hold by `StreamWindow`."""


def channel_options(settings: ServerSettings) -> list[tuple[str, int]]:
    """Return the options for `grpc.server` and `grpc.aio.server`."""
    options = [
        # By default, two servers may share a port, and calls go to either of them.
        ("grpc.so_reuseport", 0),
        # By default, the flow control window of a stream grows with bandwidth times round trip:
        # on loopback to 100 MB and more of unread requests.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", MESSAGE_LIMIT_BYTES),
    ]
    if settings.max_streams is not None:
        options.append(("grpc.max_concurrent_streams", settings.max_streams))
    if not settings.refuse_streams:
        options.append(("grpc.http.overload_protection", 0))
    return [*options, *(PENDING if settings.tls is None else ()), *LIMITS]


class MeasuredPool(ThreadPoolExecutor):
    """A thread pool that measures how long each task waited for its thread.

    A free thread takes the task that has waited longest; with `newest_first`, the latest one.
    """

    def __init__(self, threads: int, name: str, *, newest_first: bool = False) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._here = threading.local()
        self._newest_first = newest_first
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Queue a task; it waits from now until a thread takes it."""
        submitted_s = time.perf_counter()

        def begin() -> Any:
            self._here.waited_s = time.perf_counter() - submitted_s
            return fn(*args, **kwargs)

        if not self._newest_first:
            return super().submit(begin)
        ended: Future[Any] = Future()
        self._waiting.append((ended, begin))
        super().submit(self._run_newest)
        return ended

    def _run_newest(self) -> None:
        """Run the task that came last; there is one for each call of this method."""
        ended, begin = self._waiting.pop()
        if not ended.set_running_or_notify_cancel():
            return
        try:
            ended.set_result(begin())
        except BaseException as error:
            ended.set_exception(error)

    def waited_s(self) -> float:
        """Return the seconds for which the task of this thread waited in the queue."""
        return float(getattr(self._here, "waited_s", 0.0))


# Work on the metadata of every call, done by an interceptor before its method runs.
#
# With threads, interceptors run in the single thread that takes calls from the network. So their
# work comes before the pool and before a call can be refused. With asyncio, they run on the event
# loop.


class _BeforeMethod(grpc.ServerInterceptor):  # type: ignore[misc]  # grpcio has no types
    """Decides what answers a call: the handler of its method, or another one."""

    def _refusal(self, details: grpc.HandlerCallDetails) -> Any:
        """Return the handler that refuses this call; None goes on to the next interceptor."""

    def _chosen(self, details: grpc.HandlerCallDetails, handler: Any) -> Any:
        """Return what answers the call, in place of the handler of its method."""
        return handler

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Return what answers the call."""
        details = handler_call_details
        return self._refusal(details) or self._chosen(details, continuation(details))


class _OnLoop(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Makes a `_BeforeMethod` one of an event loop."""

    _refusal: Callable[[grpc.HandlerCallDetails], Any]
    _chosen: Callable[[grpc.HandlerCallDetails, Any], Any]

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return what answers the call."""
        details = handler_call_details
        return self._refusal(details) or self._chosen(details, await continuation(details))


WHY: Final = (
    f"{REFUSED}: the call has none, or another one. Give the client the server's {TOKEN}, with"
    " --token FILE or as the `token` of its Tls"
)


class DemandToken(_BeforeMethod):
    """Refuses every call that does not carry the token."""

    def __init__(self, token: str) -> None:
        self._expected = f"{SCHEME}{token}".encode()
        self._refuses = grpc.stream_stream_rpc_method_handler(self._refuse)
        """For calls of every shape: it reads no message, so it waits for none."""

    def _refusal(self, details: grpc.HandlerCallDetails) -> Any:
        for name, value in details.invocation_metadata or ():
            if name == HEADER:
                sent_token = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
                right = hmac.compare_digest(sent_token, self._expected)  # its time says nothing
                return None if right else self._refuses
        return self._refuses

    def _refuse(self, requests: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, WHY)


class AsyncDemandToken(_OnLoop, DemandToken):
    """`DemandToken` on an event loop."""

    async def _refuse(self, requests: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, WHY)


MOST_ATTEMPTS: Final = 40_000
"""Limit on the attempts that are noted: about 1.5 MB of the report."""


class Attempt:
    """One attempt of a call, as the server saw it; times are those of `time.perf_counter`."""

    __slots__ = ("arrived_s", "before", "call", "ended_s")

    def __init__(self, call: str, before: int) -> None:
        self.call, self.before = call, before
        self.arrived_s, self.ended_s = time.perf_counter(), 0.0


class NoteAttempts(_BeforeMethod):
    """Notes when each attempt of a call arrived, and when its method ended."""

    def __init__(self) -> None:
        self.noted: list[Attempt] = []
        """Appending is a single step of the interpreter, so no lock is needed."""

    def _chosen(self, details: grpc.HandlerCallDetails, handler: Any) -> Any:
        facts = dict(details.invocation_metadata or ())
        call = facts.get(CALL_KEY)
        if not isinstance(call, str) or len(self.noted) >= MOST_ATTEMPTS:
            return handler
        attempt = Attempt(call, int(facts.get(ATTEMPTS_KEY, 0)))
        self.noted.append(attempt)
        if handler is None or handler.unary_unary is None:
            return handler
        return grpc.unary_unary_rpc_method_handler(
            self._ending(handler.unary_unary, attempt),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _ending(self, answer: Callable[..., Any], attempt: Attempt) -> Callable[..., Any]:
        def answered(request: Any, context: Any) -> Any:
            try:
                return answer(request, context)
            finally:
                attempt.ended_s = time.perf_counter()

        return answered


class AsyncNoteAttempts(_OnLoop, NoteAttempts):
    """`NoteAttempts` on an event loop."""

    def _ending(self, answer: Callable[..., Any], attempt: Attempt) -> Callable[..., Any]:
        async def answered(request: Any, context: Any) -> Any:
            try:
                return await answer(request, context)
            finally:
                attempt.ended_s = time.perf_counter()

        return answered


def noted(before_methods: Sequence[grpc.ServerInterceptor]) -> Sequence[Attempt]:
    """Return the list to which the attempts are added; empty where none are noted."""
    return next((each.noted for each in before_methods if isinstance(each, NoteAttempts)), [])


def interceptors(
    settings: ServerSettings, access: Access | None = None
) -> list[grpc.ServerInterceptor]:
    """Return the interceptors of these settings, the token's first; none by default."""
    chosen: list[grpc.ServerInterceptor] = []
    if access is not None:
        chosen.append((AsyncDemandToken if settings.use_asyncio else DemandToken)(access.token))
    if settings.note_attempts:
        chosen.append((AsyncNoteAttempts if settings.use_asyncio else NoteAttempts)())
    return chosen
