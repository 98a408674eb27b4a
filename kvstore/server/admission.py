"""Which calls a server accepts and runs: gRPC's limits, deadlines, the thread pool, metadata.

The pool measures how long each call waited for one of its threads, and ends calls whose request
does not come. Unreadable requests and calls of unknown methods are ended here, because gRPC's own
way of doing it harms the server.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import grpc
from grpc._cython import cygrpc

from kvstore.credentials import Access, AsyncDemandToken, DemandToken
from kvstore.protocol import MESSAGE_LIMIT_BYTES
from kvstore.server.settings import ServerSettings

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
    if settings.default_limits:
        return options
    return [*options, *(PENDING if settings.tls is None else ()), *LIMITS]


def too_late(context: Any, needs_s: float) -> bool:
    """Return whether less than `needs_s` seconds are left before the deadline of a call.

    gRPC itself drops a call whose deadline has passed when a thread takes it, but serves a call
    that has a millisecond left. A call without a deadline is never late.
    """
    left_s = context.time_remaining()
    return left_s is not None and left_s < needs_s


REQUEST_S = 5.0
"""Seconds after the start of a call in which its request must arrive, if calls wait for a thread.

With threads, gRPC gives a thread to a call before its request has come. So as many clients as the
pool has threads, each with a call and half a request, would keep all others out for ever.
"""


class MeasuredPool(ThreadPoolExecutor):
    """A thread pool that measures how long each task waited for its thread.

    The tasks of a server are calls. The pool knows of which calls the request is still to come.
    """

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._here = threading.local()
        self._incomplete: dict[int, tuple[float, Any]] = {}  # by thread: begun when, gRPC's call
        self._late = set[Any]()  # calls that the last look found without their request

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Queue a task; it waits from now until a thread takes it."""
        submitted_s = time.perf_counter()
        call = _awaiting_request(args)

        def begin() -> Any:
            self._here.waited_s = time.perf_counter() - submitted_s
            if call is None:
                return fn(*args, **kwargs)
            self._incomplete[threading.get_ident()] = submitted_s, call
            try:
                return fn(*args, **kwargs)
            finally:
                self.request_arrived()

        return super().submit(begin)

    def waited_s(self) -> float:
        """Return the seconds for which the task of this thread waited in the queue."""
        return float(getattr(self._here, "waited_s", 0.0))

    def waiting(self) -> int:
        """Return how many tasks wait for a thread."""
        return self._work_queue.qsize()

    def request_arrived(self) -> None:
        """Note that the call of this thread has its whole request, or has ended."""
        self._incomplete.pop(threading.get_ident(), None)

    def cancel_incomplete(self) -> int:
        """Cancel the calls that keep a thread from others without a request; return how many.

        To be called every second or so. A call is cancelled at the second look that finds it late:
        after a stall of the whole process, a request may be there that was not read yet.
        """
        late = set[Any]()
        if self.waiting():
            until_s = time.perf_counter() - REQUEST_S
            waiting = self._incomplete.copy().values()
            late.update(call for begun_s, call in waiting if begun_s < until_s)
        for call in (cancelled := late & self._late):
            call.cancel()
        self._late = late - cancelled
        return len(cancelled)


def _awaiting_request(arguments: tuple[Any, ...]) -> Any:
    """Return gRPC's call if this task of a server first waits for a single request, else None."""
    for at, each in enumerate(arguments):
        if getattr(each, "__name__", "") == "unary_request":  # grpcio 1.85.1, `grpc._server`
            return getattr(arguments[at - 3], "call", None)
    return None


# ---- interceptors -------------------------------------------------------------------------------
# Work on the metadata of every call, done by an interceptor before its method is looked up.
#
# With threads, interceptors run in the single thread that takes calls from the network. So their
# work comes before the pool and before a call can be refused. With asyncio, they run on the event
# loop.


Pair = tuple[str, str | bytes]
"""One metadata entry: its name, and text or (for names that end in -bin) bytes."""


def as_text(method: str, metadata: Iterable[Pair]) -> str:
    """Return the log entry of a call: the method, then a line for each metadata entry."""
    return "\n".join([method, *(f"    {name}: {value!r}" for name, value in metadata)])


class ReadHeaders(grpc.ServerInterceptor):  # type: ignore[misc]  # grpcio has no types
    """Reads all metadata of a call and formats it as text, `times` times."""

    def __init__(self, times: int) -> None:
        self._times = times
        self.latest = ""
        """The text of the latest call."""

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Do the work, then continue with the call."""
        self._read(handler_call_details)
        return continuation(handler_call_details)

    def _read(self, details: grpc.HandlerCallDetails) -> None:
        for _ in range(self._times):
            self.latest = as_text(details.method, details.invocation_metadata or ())


class AsyncReadHeaders(ReadHeaders, grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """`ReadHeaders` on an event loop."""

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Do the work, then continue with the call."""
        self._read(handler_call_details)
        return await continuation(handler_call_details)


def interceptors(
    settings: ServerSettings, access: Access | None = None
) -> list[grpc.ServerInterceptor]:
    """Return the interceptors of these settings, the token's first; none by default."""
    found: list[grpc.ServerInterceptor] = []
    if access is not None:
        found.append((AsyncDemandToken if settings.use_asyncio else DemandToken)(access.token))
    if settings.metadata_work:
        kind = AsyncReadHeaders if settings.use_asyncio else ReadHeaders
        found.append(kind(settings.metadata_work))
    return found


UNREADABLE = "Exception deserializing request!"
"""gRPC's own words for a request that is not a message of the method."""


class AbortingOnce:
    """A server with threads to which services are added: an unreadable request ends its call once.

    grpcio 1.85.1 ends such a call twice. The second end fails, and the server keeps what belongs to
    the call for ever: 1.4 KB each time. So the method ends the call here, in place of gRPC. A
    stream answers the requests before the unreadable one first.
    """

    def __init__(self, server: grpc.Server, pool: MeasuredPool) -> None:
        self._server = server
        self._pool = pool

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Add nothing: generated code adds the same methods below."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Add these methods to the server."""
        methods = {name: _aborting_once(handler, self._pool) for name, handler in handlers.items()}
        generic = grpc.method_handlers_generic_handler(service, methods)
        self._server.add_generic_rpc_handlers((generic,))
        self._server.add_registered_method_handlers(service, methods)


_UNREADABLE = object()


def _aborting_once(handler: Any, pool: MeasuredPool) -> Any:
    def read(raw: bytes) -> Any:
        try:
            return handler.request_deserializer(raw)
        except Exception:  # a class of its own in each version of protobuf
            return _UNREADABLE

    if handler.request_streaming:
        if not handler.response_streaming:
            raise NotImplementedError("no service here has a method with only requests streamed")
        return grpc.stream_stream_rpc_method_handler(
            partial(_answer_readable, handler.stream_stream), read, handler.response_serializer
        )
    answer = handler.unary_stream or handler.unary_unary

    def answer_if_readable(request: Any, context: grpc.ServicerContext) -> Any:
        pool.request_arrived()
        if request is _UNREADABLE:
            context.abort(grpc.StatusCode.INTERNAL, UNREADABLE)
        return answer(request, context)

    streams = handler.response_streaming
    make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
    return make(answer_if_readable, read, handler.response_serializer)


def _answer_readable(
    answer: Callable[..., Iterable[Any]], requests: Iterable[Any], context: grpc.ServicerContext
) -> Iterator[Any]:
    """Yield the replies to the requests of a stream up to the first that cannot be read."""
    all_readable = True

    def readable() -> Iterator[Any]:
        nonlocal all_readable
        for request in requests:
            if request is _UNREADABLE:
                all_readable = False
                return
            yield request

    yield from answer(readable(), context)
    if not all_readable:
        context.abort(grpc.StatusCode.INTERNAL, UNREADABLE)


def answer_unknown_methods(
    loop: asyncio.AbstractEventLoop, interceptors: Sequence[grpc.ServerInterceptor]
) -> None:
    """Answer calls of methods that no service has, before grpc.aio sees them.

    grpc.aio decodes the name of such a method, and a name that is not UTF-8 ends its whole server
    (grpcio 1.85.1). Meanwhile gRPC's core writes to memory that is no longer its own, so a server
    that starts again in the same process ends with SIGSEGV at some time. Calls of methods that a
    service has are requested in another way. Before grpcio 1.84, nothing is changed.
    """
    if not hasattr(cygrpc.AioServer, "_make_request_call_future"):
        return
    answers = set[asyncio.Task[None]]()

    async def unimplemented(requests: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")

    async def no_method(details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(unimplemented)

    chosen: Callable[[Any], Awaitable[Any]] = no_method
    for each in reversed(interceptors):
        chosen = partial(each.intercept_service, chosen)

    async def answer(call: Any) -> None:
        with contextlib.suppress(Exception):  # `abort` always raises
            context = cygrpc._ServicerContext(call, None, None, loop)
            details = SimpleNamespace(method="", invocation_metadata=context.invocation_metadata())
            await (await chosen(details)).stream_stream(None, context)

    async def unknown_method(request: Awaitable[Any]) -> None:
        task = asyncio.create_task(answer(await request))
        answers.add(task)  # a loop holds its tasks by weak references only
        task.add_done_callback(answers.discard)
        raise cygrpc._RequestCallError  # to grpc.aio: this request brought no call, so ask again

    def task(_: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        if getattr(coroutine, "__name__", "") == "_request_call":
            coroutine = unknown_method(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    loop.set_task_factory(task)
