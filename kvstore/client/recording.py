"""How the calls of a measured channel are recorded, for `grpc` and for `grpc.aio`.

`Recording` has the settings. `StreamRecords` matches the replies of a stream with its requests.
`RecordingChannel` and the classes below it are what the channels for `grpc` and `grpc.aio` share.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partialmethod
from typing import Any, ClassVar, Protocol, Self

import grpc

from kvstore.client.errors import StreamBroken
from kvstore.client.messages import PIPELINE, Batch, PipelineReader
from kvstore.measure.recorder import Recorder
from kvstore.measure.run import Run
from kvstore.protocol import (
    CALL_KEY,
    CANCELLED,
    DEADLINE_EXCEEDED,
    NO_ANSWER,
    OK,
    UNKNOWN_STATIONS,
    StationTimes,
)

LEAVE_S = 10.0
"""Seconds to wait for the ends of calls that were cancelled because their channel closes."""

NOT_DUE = math.nan
"""The due time of a call in a closed loop."""


CUT_SHORT = (CANCELLED, DEADLINE_EXCEEDED)
"""Statuses of a stream that its caller cut."""


class Route(Protocol):
    """Chooses the connection of each call where there are several; safe for several threads."""

    def take(self, request: Any) -> int:
        """Return the number of the connection for this request."""

    def give(self, connection: int) -> None:
        """Free the connection of a call that has ended."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """How the calls of a measured channel are made and recorded."""

    recorder: Recorder
    deadline_s: float | None = None
    """Deadline of each call that sets none, and of each reply on a stream; None for no deadline."""
    station_times: bool = True
    """Whether to read the server's station times from trailing metadata."""
    name_calls: bool = False
    """Whether each call that a thread sends carries its sending time, which tells it from others:
    a server that notes attempts finds those of one call by it."""
    route: Route | None = None
    """Chooses among several connections; None where there is one."""
    on_ok: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    """By full method name: a function of the request of each unary call that ended as OK."""
    pipeline: PipelineReader | None = None
    """Reads the messages of `Pipeline`, so that each of its requests has a record with its reply.
    Without it, as on any other stream, the whole call has one record."""

    def metadata_of(self, sent_s: float) -> tuple[tuple[str, str], ...] | None:
        """Return what a call that sets no metadata is sent with."""
        return ((CALL_KEY, repr(sent_s)),) if self.name_calls else None

    def kind(self, method: str) -> int:
        """Return the number of the method's kind in the records; its name is in lower case."""
        return self.recorder.kind(method.rpartition("/")[2].lower())


class StreamRecords:
    """The requests of one `Pipeline` that have no reply yet, for `grpc` and for `grpc.aio`."""

    def __init__(
        self, recording: Recording, connection: int, sending: Callable[[int], float]
    ) -> None:
        assert recording.pipeline is not None
        self._recorder = recording.recorder
        self._sending = sending
        self._reader = recording.pipeline
        self._connection = connection
        self._waiting: dict[int, tuple[float, Batch, int]] = {}
        """By id: sending time, operations, and the bytes of the request."""
        self._lock = threading.Lock()
        self._ended = False
        self.unanswered = 0
        """Requests that had no reply when the stream ended."""

    @property
    def open(self) -> int:
        """Requests sent that have no reply yet."""
        return len(self._waiting)

    def sent(self, message: Any, request_bytes: int) -> None:
        """Count a request as sent now. Raises `ValueError` for an id that is in use."""
        batch = self._reader.sent(message)
        with self._lock:
            number = message.id
            if number in self._waiting:
                raise ValueError(
                    f"a request with id {number} has no reply yet: give each request its own id"
                )
            self._waiting[number] = self._sending(batch.count), batch, request_bytes
        if self._ended:
            self.end()

    def replied(self, message: Any, reply_bytes: int) -> None:
        """Record the request that this reply answers. Raises `ValueError` when there is none."""
        with self._lock:
            request = self._waiting.get(message.id)
            if request is None:
                raise ValueError(f"the reply with id {message.id} answers no open request")
            status, ok_operations, stations = self._reader.replied(request[1], message)
            del self._waiting[message.id]
        self._record(request, status, reply_bytes, stations, ok_operations)

    def end(self) -> None:
        """Record each request without a reply as NO_ANSWER: the server may have executed it."""
        with self._lock:
            self._ended = True
            waiting, self._waiting = self._waiting, {}
            self.unanswered += len(waiting)
        for request in waiting.values():
            self._record(request, NO_ANSWER, 0, UNKNOWN_STATIONS, 0)

    def _record(
        self,
        request: tuple[float, Batch, int],
        status: int,
        reply_bytes: int,
        stations: StationTimes,
        ok_operations: int,
    ) -> None:
        sent_s, batch, request_bytes = request
        self._recorder.record(
            batch.due_s,
            sent_s,
            self._recorder.now_s(),
            batch.kind,
            status,
            request_bytes,
            reply_bytes,
            stations,
            batch.count,
            ok_operations,
            self._connection,
        )

    def oldest_waits_s(self) -> float:
        """Return how long the oldest request without a reply has waited; NaN if there is none."""
        with self._lock:
            oldest = next(iter(self._waiting.values()), None)
        return math.nan if oldest is None else self._recorder.now_s() - oldest[0]

    def broken(self, why: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> StreamBroken:
        """Record the end of a stream that ended too early, and return its error."""
        self.end()
        lost = (
            f" with {self.unanswered} requests unanswered: they are recorded as NO_ANSWER,"
            " because the server may have executed them"
            if self.unanswered
            else ""
        )
        return StreamBroken(f"the stream broke ({why}){lost}", code)


# What the measured channels for `grpc` and for `grpc.aio` share.


Codec = Callable[[Any], Any] | None
"""Serialises or deserialises a message; None for messages that are bytes."""


class RecordingChannel:
    """The methods of a channel, recorded: those of `grpc.Channel` and of `grpc.aio.Channel`.

    No method is registered with the channel: gRPC crashes the process when that happens while the
    channel is closed, or after (grpc/grpc#43455), and a call costs the same CPU time without it.
    """

    unary: ClassVar[Callable[..., Any]]
    """Makes a method with one request and one reply, from channel, name and codecs."""
    stream: ClassVar[Callable[..., Any]]
    """Makes the method `Pipeline`, with a record for each request."""
    whole: ClassVar[Callable[..., Any]]
    """Makes a method of any other shape, of which each call has one record: see `WholeCall`."""
    run: Callable[[], Run]
    """Every call so far as a `Run`; only a channel of `client.measured_channel` has it."""

    def __init__(
        self, channels: Sequence[Any], recording: Recording, streams_on: int | None = None
    ) -> None:
        """`streams_on` is the connection of all streams; without it, they rotate over all."""
        self.recording = recording
        self.channels = channels
        self._streams_on = streams_on
        self._streams = 0

    def unary_unary(
        self,
        method: str,
        request_serializer: Codec = None,
        response_deserializer: Codec = None,
        _registered_method: bool | None = False,
    ) -> Any:
        """A method with one request and one reply."""
        return self.unary(self, method, request_serializer, response_deserializer)

    def _with_streams(
        self,
        shape: str,
        method: str,
        request_serializer: Codec = None,
        response_deserializer: Codec = None,
        _registered_method: bool | None = False,
    ) -> Any:
        """A method with many requests, or replies, or both.

        A call has one record, from sending to the last reply. On `Pipeline` each request has one.
        """
        codecs = request_serializer, response_deserializer
        if method == PIPELINE and self.recording.pipeline is not None:
            return self.stream(self, *codecs)
        return self.whole(shape, self, method, *codecs)

    unary_stream = partialmethod(_with_streams, "unary_stream")
    stream_unary = partialmethod(_with_streams, "stream_unary")
    stream_stream = partialmethod(_with_streams, "stream_stream")

    def next_stream(self) -> tuple[int, Any]:
        """Return the number and the channel of the connection for the next stream."""
        number = self._streams_on
        if number is None:
            number = self._streams % len(self.channels)
            self._streams += 1
        return number, self.channels[number]


class Due:
    """A method of a service of which a call may have a due time."""

    _due_s = NOT_DUE

    def due(self, due_s: float) -> Self:
        """Return this method for a call with this due time, in seconds of the run."""
        due = object.__new__(type(self))
        due.__dict__.update(self.__dict__, _due_s=due_s)
        return due


class UnaryMethod(Due):
    """A method with one request and one reply."""

    def __init__(self, channel: RecordingChannel, method: str) -> None:
        self._recording = recording = channel.recording
        self._recorder = recording.recorder
        self._kind = recording.kind(method)
        self._on_ok = recording.on_ok.get(method)

    def _take(self, request: Any) -> int:
        """Return the connection for this request."""
        route = self._recording.route
        return 0 if route is None else route.take(request)

    def _ended(
        self,
        request: Any,
        sent_s: float,
        status: int,
        stations: StationTimes,
        request_bytes: int,
        reply_bytes: int,
        connection: int,
        done_s: float | None = None,
    ) -> None:
        """Record the end of a call, now or at `done_s`, and free its connection."""
        recorder, route = self._recorder, self._recording.route
        recorder.record(
            self._due_s,
            sent_s,
            recorder.now_s() if done_s is None else done_s,
            self._kind,
            status,
            request_bytes,
            reply_bytes,
            stations,
            1,
            None,
            connection,
        )
        if route is not None:
            route.give(connection)
        if status == OK and self._on_ok is not None:
            self._on_ok(request)


class StreamMethod:
    """The method `Pipeline`, with a record for each request."""

    def __init__(self, channel: RecordingChannel, serialize: Codec, parse: Codec) -> None:
        self._channel = channel
        self._serialize = serialize or unchanged
        self._parse = parse or unchanged


def unchanged(message: Any) -> Any:
    """Return the message: the codec of messages that are bytes."""
    return message


class WholeCall(Due):
    """A method with a stream of requests, of replies, or both: one record for the whole call."""

    def __init__(
        self, shape: str, channel: RecordingChannel, method: str, serialize: Codec, parse: Codec
    ) -> None:
        self._shape = shape
        self._channel = channel
        self._name = method
        self._codecs = serialize, parse

    def _next_call(self) -> "tuple[Any, CallRecord]":
        """Return gRPC's own method for one call, and the record of this call."""
        connection, channel = self._channel.next_stream()
        record = CallRecord(
            self._channel.recording, self._name, connection, *self._codecs, self._due_s
        )
        method = getattr(channel, self._shape)(self._name, record.serialize, record.parse)
        return method, record


class CallRecord:
    """The record of one call with streams, and the bytes of all its messages."""

    def __init__(
        self,
        recording: Recording,
        method: str,
        connection: int,
        serialize: Codec,
        parse: Codec,
        due_s: float,
    ) -> None:
        self._recorder = recording.recorder
        self._kind = recording.kind(method)
        self._connection = connection
        self._serialize = serialize or unchanged
        self._parse = parse or unchanged
        self._due_s = due_s
        self._request_bytes = self._reply_bytes = 0
        self.sent_s = math.nan
        self.place = -1
        """Index of the record where a reply may be parsed after the end of its call."""

    def serialize(self, message: Any) -> Any:
        """Serialise a request and count its bytes."""
        raw = self._serialize(message)
        self._request_bytes += len(raw)
        return raw

    def parse(self, raw: bytes) -> Any:
        """Deserialise a reply and count its bytes."""
        self._reply_bytes += len(raw)
        if self.place >= 0:
            self._recorder.set_reply_bytes(self.place, self._reply_bytes)
        return self._parse(raw)

    def end(
        self,
        status: int,
        stations: StationTimes = UNKNOWN_STATIONS,
        cut: Callable[[], bool] | None = None,
    ) -> None:
        """Record the end of the call. `cut` says whether its caller has cut it: then it is OK."""
        if status in CUT_SHORT and cut is not None and cut():
            status = OK
        self._recorder.record(
            self._due_s,
            self.sent_s,
            self._recorder.now_s(),
            self._kind,
            status,
            self._request_bytes,
            self._reply_bytes,
            stations,
            1,
            None,
            self._connection,
        )
