"""The measured channel: a `grpc.Channel` that records every call made through it.

The generated stub is built on it as on any other channel, and nothing else changes: blocking
calls, futures, callbacks and streams are gRPC's own, of any service.
`measured_channel_aio` has the same for `grpc.aio`.

One record is kept for each call. On `Pipeline`, the stream of our own service, it is one for each
request with its reply, matched by the field `id`.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from kvstore.client.messages import PIPELINE
from kvstore.client.recording import (
    LEAVE_S,
    Codec,
    RecordingChannel,
    StreamMethod,
    StreamRecords,
    UnaryMethod,
    WholeCall,
)
from kvstore.protocol import (
    CANCELLED,
    INTERNAL,
    OK,
    UNKNOWN_STATIONS,
    StationTimes,
    from_metadata,
)

_NOT_PARSED_HERE = -1
"""Instead of a reply's size: this thread has parsed no reply since the last call."""


class _Sizes(threading.local):
    """Bytes of the messages that this thread serialised and deserialised last.

    gRPC serialises in the thread that sends a call, right before it sends. It deserialises in the
    thread that reports the end of a call, right before the report. So each call finds its own
    sizes here.
    """

    request = 0
    reply = _NOT_PARSED_HERE
    replied_s = 0.0
    """When that reply came, by `time.perf_counter`: before a thread that waits for it wakes."""


_sizes = _Sizes()

_OK = grpc.StatusCode.OK


def _size_of(reply: Any) -> int:
    """Return the bytes of a reply that another thread has parsed; 0 where that is unknown."""
    if isinstance(reply, bytes):
        return len(reply)
    return int(reply.ByteSize()) if hasattr(reply, "ByteSize") else 0


def _measuring_serializer(serialize: Callable[[Any], bytes] | None) -> Callable[[Any], bytes]:
    def measured(message: Any) -> bytes:
        raw = serialize(message) if serialize else message
        _sizes.request = len(raw)
        return raw

    return measured


def _measuring_deserializer(parse: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    def measured(raw: bytes) -> Any:
        _sizes.reply, _sizes.replied_s = len(raw), time.perf_counter()
        return parse(raw) if parse else raw

    return measured


def code_of(call: Any) -> int:
    """Return the number of the gRPC status of a call that has ended."""
    code = call.code()
    return OK if code is _OK else int(code.value[0])


class _UnaryUnary(UnaryMethod, grpc.UnaryUnaryMultiCallable):  # type: ignore[misc]
    """A unary method of the measured channel."""

    def __init__(self, channel: RecordingChannel, name: str, serialize: Codec, parse: Codec):
        super().__init__(channel, name)
        codecs = _measuring_serializer(serialize), _measuring_deserializer(parse)
        self._methods = [each.unary_unary(name, *codecs) for each in channel.channels]

    def __call__(self, request: Any, *how: Any, **named: Any) -> Any:
        return self._blocking(False, request, *how, **named)

    def with_call(self, request: Any, *how: Any, **named: Any) -> Any:
        return self._blocking(True, request, *how, **named)

    def _blocking(
        self,
        with_call: bool,
        request: Any,
        timeout: float | None = None,
        metadata: Any = None,
        *how: Any,
        **named: Any,
    ) -> Any:
        recording = self._recording
        connection = self._take(request)
        method = self._methods[connection]
        timeout = recording.deadline_s if timeout is None else timeout
        call: Any = None
        status = CANCELLED
        _sizes.request = _sizes.reply = 0
        sent_s = self._recorder.sending()
        metadata = metadata or recording.metadata_of(sent_s)
        try:
            if with_call or recording.station_times:
                reply, call = method.with_call(request, timeout, metadata, *how, **named)
            else:  # gRPC then makes no call object, which saves time
                reply = method(request, timeout, metadata, *how, **named)
            status = INTERNAL if reply is None else OK  # OK without a message answers nothing
        except grpc.RpcError as error:
            call, status = error, code_of(error)
            raise
        finally:  # also after Ctrl-C: every call sent is recorded
            sizes = _sizes.request, _sizes.reply
            self._ended(request, sent_s, status, self._stations(call), *sizes, connection)
        return (reply, call) if with_call else reply

    def future(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Any = None,
        *how: Any,
        **named: Any,
    ) -> Any:
        recording, record = self._recording, self._ended
        connection = self._take(request)
        sent_s = self._recorder.sending()
        try:
            call = self._methods[connection].future(
                request,
                recording.deadline_s if timeout is None else timeout,
                metadata or recording.metadata_of(sent_s),
                *how,
                **named,
            )
        except BaseException:  # the channel is closed: the call was counted, so its end is recorded
            record(request, sent_s, CANCELLED, UNKNOWN_STATIONS, 0, 0, connection)
            raise
        request_bytes, _sizes.reply = _sizes.request, _NOT_PARSED_HERE
        if self._on_ok is None:
            request = None  # or the request would live as long as the call

        def ended(call: Any) -> None:
            status = code_of(call)
            reply_bytes, _sizes.reply = _sizes.reply, _NOT_PARSED_HERE
            parsed = reply_bytes != _NOT_PARSED_HERE
            done_s = self._recorder.seconds_at(_sizes.replied_s) if parsed else None
            if status != OK:
                reply_bytes = 0
            elif reply_bytes == _NOT_PARSED_HERE:  # it ended before, or without a message
                reply_bytes = _size_of(reply := call.result())
                status = INTERNAL if reply is None else OK
            stations = self._stations(call)
            record(
                request, sent_s, status, stations, request_bytes, reply_bytes, connection, done_s
            )

        call.add_done_callback(ended)
        return call

    def _stations(self, call: Any) -> StationTimes:
        if call is None or not self._recording.station_times:
            return UNKNOWN_STATIONS
        return from_metadata(call.trailing_metadata())


class _StreamStream(StreamMethod, grpc.StreamStreamMultiCallable):  # type: ignore[misc]
    """A bidirectional method of the measured channel."""

    def __call__(
        self,
        request_iterator: Iterable[Any],
        timeout: float | None = None,
        metadata: Any = None,
        *how: Any,
        **named: Any,
    ) -> "_MeasuredStream":
        recording = self._channel.recording
        connection, channel = self._channel.next_stream()
        records = StreamRecords(recording, connection, recording.recorder.sending)
        serialize, parse = self._serialize, self._parse
        stream = _MeasuredStream(records)

        def requests() -> Iterator[bytes]:
            # Serialised here, so that a message is counted when gRPC takes it.
            for message in request_iterator:
                raw = serialize(message)
                records.sent(message, len(raw))
                yield raw

        def received(raw: bytes) -> Any:
            # In gRPC's own thread, which handles the last reply before the end of the stream.
            reply = parse(raw)
            stream.record(reply, len(raw))
            return reply

        method = channel.stream_stream(PIPELINE, None, received)
        stream.begin(method(requests(), timeout, metadata, *how, **named))
        if recording.deadline_s is not None and timeout is None:
            _watch_replies(stream, records, recording.deadline_s)
        return stream


class _MeasuredStream:
    """A call on a bidirectional method: gRPC's own, with its replies recorded."""

    def __init__(self, records: StreamRecords) -> None:
        self._records = records
        self._call: Any = None
        self.why_cancelled = ""
        """The reason for which the channel cancelled this stream; empty if it did not."""

    def begin(self, call: Any) -> None:
        """Set the call of gRPC whose messages are recorded."""
        self._call = call
        if not call.add_callback(self._records.end):
            self._records.end()

    def record(self, reply: Any, reply_bytes: int) -> None:
        """Record the request that this reply answers; one that answers none breaks the stream."""
        try:
            self._records.replied(reply, reply_bytes)
        except ValueError as error:
            self.why_cancelled = f"a reply made no sense: {error}"

    def __iter__(self) -> "_MeasuredStream":
        return self

    def __next__(self) -> Any:
        try:
            reply = next(self._call)
        except StopIteration:
            if self._records.open or self._records.unanswered:
                raise self._records.broken("the server closed it") from None
            raise
        except grpc.RpcError as error:
            why = self.why_cancelled or f"{self._call.code().name}: {self._call.details()}"
            raise self._records.broken(why, self._call.code()) from error
        if self.why_cancelled:
            self._call.cancel()
            raise self._records.broken(self.why_cancelled)
        return reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


def _watch_replies(stream: _MeasuredStream, records: StreamRecords, deadline_s: float) -> None:
    """Cancel the stream when a request has waited for its reply longer than the deadline."""

    def watch() -> None:
        while stream.is_active():
            time.sleep(min(1.0, deadline_s / 4))
            if records.oldest_waits_s() > deadline_s:
                stream.why_cancelled = f"no reply within the deadline of {deadline_s:g} s"
                stream.cancel()
                return

    threading.Thread(target=watch, name="stream deadline", daemon=True).start()


class _WholeCall(WholeCall):
    """`WholeCall` for calls from threads."""

    def __call__(self, request: Any, *how: Any, **named: Any) -> Any:
        if self._shape != "stream_unary":
            return self._start("__call__", request, *how, **named)
        return self.with_call(request, *how, **named)[0]

    def with_call(self, request: Any, *how: Any, **named: Any) -> tuple[Any, Any]:
        """As `grpc.StreamUnaryMultiCallable.with_call`."""
        call = self.future(request, *how, **named)
        return call.result(), call

    def future(self, request: Any, *how: Any, **named: Any) -> Any:
        """As `grpc.StreamUnaryMultiCallable.future`."""
        return self._start("future", request, *how, **named)

    def _start(
        self,
        verb: str,
        request: Any,
        timeout: float | None = None,
        metadata: Any = None,
        *how: Any,
        cut: Callable[[], bool] | None = None,
        **named: Any,
    ) -> Any:
        recording = self._channel.recording
        method, record = self._next_call()
        record.sent_s = recording.recorder.sending()

        def ended() -> None:
            stations = UNKNOWN_STATIONS
            if recording.station_times:
                stations = from_metadata(call.trailing_metadata())
            record.end(code_of(call), stations, cut)

        try:
            call = getattr(method, verb)(
                request,
                recording.deadline_s if timeout is None else timeout,
                metadata,
                *how,
                **named,
            )
        except BaseException:
            record.end(CANCELLED)
            raise
        if not call.add_callback(ended):
            ended()
        return call


class MeasuredChannel(RecordingChannel, grpc.Channel):  # type: ignore[misc]
    """Records every call made through one or several channels of grpc.

    The caller owns the channels and closes them.
    """

    unary, stream, whole = _UnaryUnary, _StreamStream, _WholeCall

    def subscribe(self, callback: Callable[[Any], object], try_to_connect: bool = False) -> None:
        """As `grpc.Channel.subscribe`, for the first connection."""
        self.channels[0].subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Callable[[Any], object]) -> None:
        """As `grpc.Channel.unsubscribe`."""
        self.channels[0].unsubscribe(callback)

    def close(self) -> None:
        """Close the connections; calls in flight end as CANCELLED."""
        for channel in self.channels:
            channel.close()

    def __enter__(self) -> "MeasuredChannel":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        end_s = time.perf_counter() + LEAVE_S
        while self.recording.recorder.in_flight and time.perf_counter() < end_s:
            time.sleep(0.002)
