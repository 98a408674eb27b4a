"""Which calls a server accepts and runs: gRPC's limits, deadlines, and the thread pool.

The pool measures how long each call waited for one of its threads.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from kvstore.protocol import MESSAGE_LIMIT_BYTES
from kvstore.server.settings import ServerSettings

MANY = 2**31 - 1


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
    # A default server cancels thousands of the calls of a burst of 10,000.
    return [
        *options,
        ("grpc.server.max_pending_requests", MANY),
        ("grpc.server.max_pending_requests_hard_limit", MANY),
    ]


def too_late(context: Any, needs_s: float) -> bool:
    """Return whether less than `needs_s` seconds are left before the deadline of a call.

    gRPC itself drops a call whose deadline has passed when a thread takes it, but serves a call
    that has a millisecond left. A call without a deadline is never late.
    """
    left_s = context.time_remaining()
    return left_s is not None and left_s < needs_s


class MeasuredPool(ThreadPoolExecutor):
    """A thread pool that measures how long each task waited for its thread."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._here = threading.local()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Queue a task; it waits from now until a thread takes it."""
        submitted_s = time.perf_counter()

        def begin() -> Any:
            self._here.waited_s = time.perf_counter() - submitted_s
            return fn(*args, **kwargs)

        return super().submit(begin)

    def waited_s(self) -> float:
        """Return the seconds for which the task of this thread waited in the queue."""
        return float(getattr(self._here, "waited_s", 0.0))
