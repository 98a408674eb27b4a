"""Calls of one method of any service: a workload for the strategies, as `Workload` is for ours.

Requests are bytes that were encoded before the run, and replies are not decoded. So a call costs
the load generator as little as possible. A call of a streaming method is one call: it sends all
its requests, reads all replies, and has one record.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import grpc

from kvstore.client.strategies import Strategy, blocking, supports, tasks, threads

SHAPES: Final = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
"""The kinds of methods: whether requests and replies are streams."""

_READ_REPLIES: Final = ("unary_stream", "stream_stream")
"""Shapes whose replies a caller has to read one by one."""


@dataclass(frozen=True, kw_only=True)
class MethodCalls:
    """Calls of one method, whose requests are sent in rotation.

    Raises `ValueError` for a shape that does not exist, or requests that do not fit it.
    """

    method: str
    """The full name, such as "pkg.Service/Method"."""
    shape: str
    """One of `SHAPES`."""
    requests: tuple[tuple[bytes, ...], ...]
    """The encoded messages of each call: one, or any number where requests are a stream."""

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f"shape must be one of {', '.join(SHAPES)}, got {self.shape!r}")
        if not self.requests:
            raise ValueError(f"{self.method} needs a request: give one, such as --json '{{}}'")
        if not self.sends_stream and any(len(messages) != 1 for messages in self.requests):
            raise ValueError(
                f"{self.method} takes one request message per call, got a list: write each on a"
                " line of its own"
            )

    @property
    def sends_stream(self) -> bool:
        """Whether a call sends a stream of requests."""
        return self.shape.startswith("stream_")

    def check(self, strategy: Strategy) -> None:
        """Raise `ValueError` for a strategy that cannot make these calls."""
        name = getattr(strategy, "__name__", "strategy")
        if supports(strategy).streams:
            raise ValueError(
                f"{name} sends the course's own messages: for {self.method} use tasks, which has"
                " one stream for each call in flight"
            )
        if self.shape in _READ_REPLIES and strategy not in (blocking, threads, tasks):
            raise ValueError(
                f"{name} sends futures, and {self.method} answers with a stream, which has no"
                " future: use tasks, threads or blocking"
            )

    def operations(self) -> "MethodOperations":
        """Return the calls, one after the other."""
        return MethodOperations(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name, ready for JSON, without the bytes of the requests."""
        sizes = [sum(map(len, messages)) for messages in self.requests]
        return {
            "method": self.method,
            "shape": self.shape,
            "requests": len(sizes),
            "request_bytes_mean": sum(sizes) / len(sizes),
        }


class MethodCall(NamedTuple):
    """One call, ready for a stub: `operation.rpc(stub)(operation.request)`."""

    request: bytes | tuple[bytes, ...]
    due_s: float = math.nan
    """Due time in seconds from the start of the run; NaN: as soon as possible."""

    def rpc(self, stub: "MethodStub") -> Any:
        """Return the method of the stub; on a measured channel it gets the due time."""
        if self.due_s >= 0:  # in a closed loop it is NaN
            return stub.method.due(self.due_s)
        return stub.method


class MethodOperations:
    """Yields calls with the requests in rotation; safe for several threads."""

    shards: Sequence[Any] = ()
    """No server has a share of keys: there are none."""

    def __init__(self, calls: MethodCalls) -> None:
        self.workload = calls
        each: Iterable[Any] = calls.requests
        if not calls.sends_stream:
            each = [messages[0] for messages in calls.requests]
        self._requests = itertools.cycle(each)  # `next` is one step of the interpreter

    def draw(self, due_s: float = math.nan) -> MethodCall:
        """Return the next call."""
        return MethodCall(next(self._requests), due_s)

    def created(self, key: bytes) -> None:
        """Do nothing: no call creates a key."""

    def stub(self, channel: Any) -> "MethodStub":
        """Return the stub with the method, on a channel of `grpc` or `grpc.aio`."""
        return MethodStub(channel, self.workload)


class MethodStub:
    """A stub with one method, which sends and returns bytes."""

    def __init__(self, channel: Any, calls: MethodCalls) -> None:
        method = getattr(channel, calls.shape)(f"/{calls.method}")
        if calls.shape == "unary_unary":
            self.method = method
        else:
            kind = _AioStreams if isinstance(channel, grpc.aio.Channel) else _Streams
            self.method = kind(method, calls)


class _Streams:
    """A streaming method that is called as a unary one: it returns after the last reply."""

    def __init__(self, method: Any, calls: MethodCalls) -> None:
        self._method = method
        self._calls = calls
        self._sent: Callable[[Any], Any] = iter if calls.sends_stream else _as_it_is

    def due(self, due_s: float) -> Any:
        """Return the method for a call with this due time, in seconds of the run."""
        return type(self)(self._method.due(due_s), self._calls)

    def __call__(self, request: Any) -> None:
        replies = self._method(self._sent(request))
        if self._calls.shape in _READ_REPLIES:
            for _ in replies:
                pass

    def future(self, request: Any) -> Any:
        """Send a stream of requests, and return the future of its reply."""
        return self._method.future(self._sent(request))


class _AioStreams(_Streams):
    """The same as a coroutine."""

    async def __call__(self, request: Any) -> None:  # type: ignore[override]
        call = self._method(self._sent(request))
        if self._calls.shape in _READ_REPLIES:
            async for _ in call:
                pass
        else:
            await call


def _as_it_is(request: Any) -> Any:
    return request
