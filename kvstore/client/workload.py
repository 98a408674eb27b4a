"""The workload: operations drawn at random from a seed, or calls of any service's method.

`Workload` has the settings and can be saved with a run; `Operations` draws the operations, and
knows which keys exist.
"""

import math
import random
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, cycle
from typing import Any, Final, NamedTuple

import grpc

from kvstore.client.messages import Operation
from kvstore.protocol import CREATE, DELETE, KINDS, MESSAGE_LIMIT_BYTES, UPDATE
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

LARGEST_VALUE_BYTES = MESSAGE_LIMIT_BYTES - 64 * 1024
"""Largest value that is sent: the message limit less room for the key and the framing."""

_BLOCK = random.Random(0).randbytes(LARGEST_VALUE_BYTES + 4096)
"""Random bytes from which values are cut: drawing each byte would take more CPU than the call."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The settings of a workload. Raises `ValueError` naming the setting that makes no sense."""

    mix: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS[1:5], 1))
    """Weight of each kind, by default equal as in the Java original. Kinds left out are never
    drawn, except that a workload which may create does so whenever no key exists."""
    seed: int = 1
    key_bytes_mean: float = 64
    value_bytes_mean: float = 64 * 1024
    sizes: str = "exponential"
    """"exponential" draws each size (at least one byte); "fixed" uses the means."""
    preload: int = 0
    """Number of keys created before the run; these creates are not part of it."""

    def __post_init__(self) -> None:
        unknown = set(self.mix) - set(KINDS[1:])
        if unknown or not self.mix:
            raise ValueError(
                f"mix may name {', '.join(KINDS[1:])}, got {sorted(self.mix) or 'nothing'}"
            )
        if any(weight < 0 for weight in self.mix.values()) or not sum(self.mix.values()) > 0:
            raise ValueError(f"mix needs weights of 0 or more, one above 0, got {dict(self.mix)}")
        if self.sizes not in ("exponential", "fixed"):
            raise ValueError(f"sizes must be 'exponential' or 'fixed', got {self.sizes!r}")
        if not 1 <= self.key_bytes_mean <= 16 * 1024:
            raise ValueError(f"key_bytes_mean must be from 1 to 16384, got {self.key_bytes_mean}")
        if not 1 <= self.value_bytes_mean <= LARGEST_VALUE_BYTES:
            raise ValueError(
                f"value_bytes_mean must be from 1 to {LARGEST_VALUE_BYTES:,}, got"
                f" {self.value_bytes_mean:,}: gRPC refuses messages over 4 MiB"
            )
        if self.preload < 0 or (not self.preload and not self.mix.get("create")):
            raise ValueError(
                "a mix without create needs existing keys: set preload to 1 or more,"
                f" got {self.preload}"
            )

    @property
    def keeps_values(self) -> bool:
        """Whether each key keeps one value: none is created, deleted or changes its size."""
        kinds = {name for name, weight in self.mix.items() if weight}
        return kinds == {"retrieve"} or (kinds <= {"retrieve", "update"} and self.sizes == "fixed")

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name, ready for JSON and for `Workload(**...)`."""
        return {**asdict(self), "mix": dict(self.mix)}


def crud(seed: int = 1, **settings: Any) -> Workload:
    """Return the workload of the Java original: all four kinds, keys of 64 B, values of 64 KiB."""
    return Workload(seed=seed, **settings)


def reads(seed: int = 1, *, keys: int = 8, **settings: Any) -> Workload:
    """Return a workload of retrieves, of `keys` keys that are created before the run."""
    return Workload(mix={"retrieve": 1}, seed=seed, preload=keys, **settings)


def writes(seed: int = 1, *, keys: int = 8, **settings: Any) -> Workload:
    """Return a workload of updates, of `keys` keys that are created before the run."""
    return Workload(mix={"update": 1}, seed=seed, preload=keys, **settings)


class KnownKeys:
    """A set of keys from which one can be drawn at random, each step in constant time."""

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._place: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: bytes) -> None:
        """Add a key; a known key keeps its place."""
        if key not in self._place:
            self._place[key] = len(self._keys)
            self._keys.append(key)

    def remove(self, key: bytes) -> None:
        """Remove a key: the last key takes its place. Raises `KeyError` for an unknown key."""
        place = self._place.pop(key)
        last = self._keys.pop()
        if last != key:
            self._keys[place] = last
            self._place[last] = place

    def draw(self, rng: random.Random) -> bytes:
        """Return a random key, each with the same probability."""
        return self._keys[int(rng.random() * len(self._keys))]


class Operations:
    """Draws operations one by one; safe for several threads.

    The seed decides kinds and sizes. The bytes of the keys also depend on `salt`, which differs for
    each run: otherwise a second run against the same server would create the keys of the first, and
    every create would be refused. Each of several generators draws new keys until it `owns` one:
    see `Part`.

    A key is known once its create was answered OK, until a delete of it is drawn. With no key
    known, every draw is a create.
    """

    def __init__(
        self, workload: Workload, salt: str = "", owns: Callable[[bytes], bool] | None = None
    ) -> None:
        self.workload = workload
        self._owns = owns
        self.known = KnownKeys()
        self._rng = random.Random(workload.seed)
        self._key_rng = random.Random(f"{workload.seed} {salt}")
        self._lock = threading.Lock()
        self._held: dict[bytes, bytes] = {}
        total = sum(workload.mix.values())
        self._kinds = [KINDS.index(name) for name in workload.mix]
        self._up_to = [*accumulate(weight / total for weight in workload.mix.values())]

    @property
    def shards(self) -> "list[Operations]":
        """The operations of each server: these, for the only one."""
        return [self]

    def stub(self, channel: Any) -> KeyValueServiceStub:
        """Return gRPC's generated stub, on a channel of `grpc` or `grpc.aio`."""
        return KeyValueServiceStub(channel)

    def draw(self, due_s: float = math.nan) -> Operation:
        """Return the next operation."""
        with self._lock:
            kind = self._kind() if len(self.known) else CREATE
            if kind == CREATE:
                return Operation(CREATE, self._new_key(), self._value(), due_s)
            key, value = self.known.draw(self._rng), b""
            if kind == DELETE:
                self.known.remove(key)
            elif kind == UPDATE:
                value = self._value()
                value = self._held.get(key, value)
            return Operation(kind, key, value, due_s)

    def preloads(self) -> list[Operation]:
        """The creates that have to be done before the run begins."""
        creates = [
            Operation(CREATE, self._new_key(), self._value()) for _ in range(self.workload.preload)
        ]
        held = {operation.key: operation.value for operation in creates}
        if self.workload.keeps_values and len(held) == len(creates):  # no key was drawn twice
            self._held = held
        return creates

    def held_throughout(self) -> dict[bytes, bytes]:
        """Return the value of each preloaded key if updates do not change it; else empty."""
        return self._held

    def created(self, key: bytes) -> None:
        """Note that a create was answered OK: later operations may use its key."""
        with self._lock:
            self.known.add(key)

    def _kind(self) -> int:
        place = bisect_right(self._up_to, self._rng.random())
        return self._kinds[min(place, len(self._kinds) - 1)]  # rounding may leave the sum below 1

    def _new_key(self) -> bytes:
        while True:
            key = self._key_rng.randbytes(self._size(self.workload.key_bytes_mean, 16 * 1024))
            if self._owns is None or self._owns(key):
                return key

    def _value(self) -> bytes:
        size = self._size(self.workload.value_bytes_mean, LARGEST_VALUE_BYTES)
        start = int(self._rng.random() * (len(_BLOCK) - size))
        return _BLOCK[start : start + size]

    def _size(self, mean: float, largest: int) -> int:
        if self.workload.sizes == "fixed":
            return int(mean)
        # -log(1-u) * mean is exponential; the tail beyond the message limit is cut off.
        return min(largest, max(1, int(-math.log(1.0 - self._rng.random()) * mean)))


# Calls of one method of any service: a workload for the strategies, as `Workload` is for ours.
#
# Requests are bytes that were encoded before the run, and replies are not decoded. So a call
# costs the load generator as little as possible. A call of a streaming method is one call: it
# sends all its requests, reads all replies, and has one record.


Sent = tuple[tuple[str, str | bytes], ...]
"""The metadata of a call, as gRPC sends them."""
SHAPES: Final = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
"""The kinds of methods: whether requests and replies are streams."""


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
    stop_after_s: float | None = None
    """Seconds after which a stream of replies is cut, and counts as OK if it had a message."""
    stop_after_messages: int | None = None
    """Messages after which a stream of replies is cut, and counts as OK."""
    metadata: Sent = field(default=(), repr=False)
    """Sent with each call. It may hold secrets, so no file of a run has it."""
    source: Callable[[], tuple[tuple[bytes, ...], Sent]] | None = field(default=None, repr=False)
    """Returns the messages and the metadata of the next call, in place of `requests` and
    `metadata`; safe for several threads."""
    check_reply: Callable[[bytes], bytes] | None = field(default=None, repr=False)
    """Looks at each reply and returns it; safe for several threads."""
    weight: float = 1.0
    """How often this method is called, in proportion to the weights of the others."""
    others: "tuple[MethodCalls, ...]" = ()
    """Calls of other methods, which are mixed with these by their weights."""

    def __post_init__(self) -> None:
        for name in ("stop_after_s", "stop_after_messages"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be above 0, got {value}")
        if not 0 < self.weight < math.inf:
            raise ValueError(f"the weight of {self.method} must be above 0, got {self.weight}")
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
    def answers_stream(self) -> bool:
        """Whether a call is answered by a stream of replies."""
        return self.shape.endswith("_stream")

    @property
    def sends_stream(self) -> bool:
        """Whether a call sends a stream of requests."""
        return self.shape.startswith("stream_")

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
            "metadata_names": [name for name, _ in self.metadata],
            "weight": self.weight,
            "others": [each.as_dict() for each in self.others],
        }


class MethodCall(NamedTuple):
    """One call, ready for a stub: `operation.rpc(stub)(operation.request)`."""

    request: bytes | tuple[bytes, ...]
    due_s: float = math.nan
    """Due time in seconds from the start of the run; NaN: as soon as possible."""
    metadata: Sent = ()
    method: int = 0
    """Number of the method, where a workload has several."""

    def rpc(self, stub: Sequence[Any]) -> Any:
        """Return the method of the stub; on a measured channel it gets the due time."""
        method = stub[self.method]
        if self.due_s >= 0:  # in a closed loop it is NaN
            method = method.due(self.due_s)
        return _WithMetadata(method, self.metadata) if self.metadata else method


class _WithMetadata:
    """A method whose call carries metadata."""

    __slots__ = ("_metadata", "_method")

    def __init__(self, method: Any, metadata: Sent) -> None:
        self._method = method
        self._metadata = metadata

    def __call__(self, request: Any) -> Any:
        return self._method(request, metadata=self._metadata)

    def future(self, request: Any) -> Any:
        """Send the request, and return the future of its reply."""
        return self._method.future(request, metadata=self._metadata)


class MethodOperations:
    """Yields calls with the requests in rotation; safe for several threads."""

    shards: Sequence[Any] = ()
    """No server has a share of keys: there are none."""

    def __init__(self, calls: MethodCalls) -> None:
        self.workload = calls
        self.methods = (calls, *calls.others)
        self._draws = [_draw_of(each, number) for number, each in enumerate(self.methods)]
        self._up_to = [*accumulate(each.weight for each in self.methods)]
        self._random = random.Random().random
        self.streams = StreamLog()

    def draw(self, due_s: float = math.nan) -> MethodCall:
        """Return the next call."""
        if len(self._draws) == 1:
            return self._draws[0](due_s)
        place = bisect_right(self._up_to, self._random() * self._up_to[-1])
        return self._draws[min(place, len(self._draws) - 1)](due_s)

    def created(self, key: bytes) -> None:
        """Do nothing: no call creates a key."""

    def stub(self, channel: Any) -> list[Any]:
        """Return the methods, which send and return bytes, on a channel of `grpc` or `grpc.aio`."""
        return [_callable(channel, each, self.streams) for each in self.methods]

    def report(self) -> dict[str, Any]:
        """Return what the streams of replies brought, under "streams"; empty for single replies."""
        return {"streams": self.streams.as_dict()} if self.workload.answers_stream else {}


def _draw_of(calls: MethodCalls, number: int) -> Callable[[float], MethodCall]:
    """Return what makes the next call of one of the methods."""
    if calls.source is not None:
        next_row = calls.source

        def draw(due_s: float) -> MethodCall:
            messages, metadata = next_row()
            request = messages if calls.sends_stream else messages[0]
            return MethodCall(request, due_s, metadata, number)

        return draw
    each: Iterable[Any] = calls.requests
    if not calls.sends_stream:
        each = [messages[0] for messages in calls.requests]
    requests = cycle(each)  # `next` is one step of the interpreter
    return lambda due_s: MethodCall(next(requests), due_s, calls.metadata, number)


def _callable(channel: Any, calls: MethodCalls, streams: "StreamLog") -> Any:
    check: Any = {} if calls.check_reply is None else {"response_deserializer": calls.check_reply}
    method = getattr(channel, calls.shape)(f"/{calls.method}", **check)
    if calls.shape == "unary_unary":
        return method
    kind = _AioStreams if isinstance(channel, grpc.aio.Channel) else _Streams
    return kind(method, calls, streams)


class StreamLog:
    """The messages of all streams of replies in a run; safe for several threads."""

    def __init__(self) -> None:
        self._ended: list[tuple[int, float, bool]] = []
        """Of each stream: its messages, the seconds until the first one, and whether it was cut."""

    def add(self, stream: "OneStream") -> None:
        """Add a stream that has ended."""
        self._ended.append((stream.messages, stream.first_s, stream.cut))

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, and quantiles of the seconds until the first message, for JSON."""
        ended = list(self._ended)
        first_s = sorted(first for _, first, _ in ended if not math.isnan(first))
        return {
            "messages": sum(count for count, _, _ in ended),
            "cut": sum(cut for _, _, cut in ended),
            "ended": len(ended),
            "first_message_s": {
                f"p{100 * share:g}": first_s[int(share * (len(first_s) - 1))] if first_s else None
                for share in (0.5, 0.9, 0.99, 1.0)
            },
        }


class OneStream:
    """The replies of one call as they come, and the limits at which it is cut."""

    def __init__(self, calls: MethodCalls) -> None:
        self._calls = calls
        self._began_s = time.perf_counter()
        self.messages = 0
        self.first_s = math.nan

    def message(self) -> bool:
        """Count a message; return whether it is the last one that is wanted."""
        if not self.messages:
            self.first_s = time.perf_counter() - self._began_s
        self.messages += 1
        return self.messages == self._calls.stop_after_messages

    @property
    def cut(self) -> bool:
        """Whether a limit was reached: the end of the call is then not the service's."""
        if self._calls.stop_after_messages and self.messages >= self._calls.stop_after_messages:
            return True
        limit_s = self._calls.stop_after_s
        took_s = time.perf_counter() - self._began_s
        return limit_s is not None and self.messages > 0 and took_s >= 0.99 * limit_s

    def options(self) -> dict[str, Any]:
        """Return the arguments of the call on a measured channel."""
        if not self._calls.answers_stream:
            return {}
        limit_s = self._calls.stop_after_s
        return {"cut": lambda: self.cut, **({} if limit_s is None else {"timeout": limit_s})}


class _Streams:
    """A streaming method that is called as a unary one: it returns after the last reply.

    A time limit is a deadline, so gRPC ends the stream. The channel records a stream that was cut
    as OK.
    """

    def __init__(self, method: Any, calls: MethodCalls, log: StreamLog) -> None:
        self._method = method
        self._calls = calls
        self._log = log

    def due(self, due_s: float) -> Any:
        """Return the method for a call with this due time, in seconds of the run."""
        return type(self)(self._method.due(due_s), self._calls, self._log)

    def __call__(self, request: Any, **named: Any) -> None:
        stream = OneStream(self._calls)
        replies = self._method(self._sent(request), **stream.options(), **named)
        if not self._calls.answers_stream:
            return
        try:
            for _ in replies:
                if stream.message():
                    replies.cancel()
                    break
        finally:
            self._log.add(stream)

    def future(self, request: Any, **named: Any) -> Any:
        """Send a stream of requests, and return the future of its reply."""
        return self._method.future(self._sent(request), **named)

    def _sent(self, request: Any) -> Any:
        return iter(request) if self._calls.sends_stream else request


class _AioStreams(_Streams):
    """The same as a coroutine."""

    async def __call__(self, request: Any, **named: Any) -> None:  # type: ignore[override]
        stream = OneStream(self._calls)
        call = self._method(self._sent(request), **stream.options(), **named)
        if not self._calls.answers_stream:
            await call
            return
        try:
            async for _ in call:
                if stream.message():
                    call.cancel()
                    break
        finally:
            self._log.add(stream)
