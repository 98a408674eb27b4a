"""The measured channel for `grpc.aio`, as `measured_channel` is for `grpc`.

All calls are made and recorded in the thread of the loop to which the channels belong.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import grpc

from kvstore.client.errors import StreamBroken
from kvstore.client.messages import PIPELINE
from kvstore.client.recording import (
    LEAVE_S,
    Codec,
    RecordingChannel,
    StreamMethod,
    StreamRecords,
    UnaryMethod,
    WholeCall,
    unchanged,
)
from kvstore.protocol import INTERNAL, OK, UNKNOWN_STATIONS, from_metadata


def value_of(finished: Coroutine[Any, Any, Any]) -> Any:
    """Return the value of a coroutine that does not wait, such as `code()` of an ended call."""
    try:
        finished.send(None)
    except StopIteration as end:
        return end.value
    finished.close()
    raise RuntimeError("the call has not ended")


def status_of(call: Any) -> int:
    """Return the number of the status of a call that has ended."""
    return int(value_of(call.code()).value[0])


class _UnaryUnary(UnaryMethod, grpc.aio.UnaryUnaryMultiCallable):  # type: ignore[misc]
    """A unary method of the measured channel."""

    def __init__(self, channel: RecordingChannel, method: str, serialize: Codec, parse: Codec):
        super().__init__(channel, method)
        self._serialize = serialize or unchanged
        self._parse = parse or unchanged
        self._last_ok = [-1]
        """Index of the record of the last call that ended as OK; shared by the methods of `due`."""
        self._methods = [
            each.unary_unary(method, None, self._measured_parse) for each in channel.channels
        ]

    def _measured_parse(self, raw: bytes) -> Any:
        # gRPC reports the end of a call and parses its reply right after, without an await: so this
        # call is the last one recorded as OK. Callbacks in between cannot end another one as OK.
        try:
            self._recorder.set_reply_bytes(self._last_ok[0], len(raw))
            return self._parse(raw)
        except Exception:  # OK without a message, or with another one: gRPC returns None
            self._recorder.set_failed(self._last_ok[0], INTERNAL)
            raise

    def __call__(
        self, request: Any, *, timeout: float | None = None, metadata: Any = None, **how: Any
    ) -> grpc.aio.UnaryUnaryCall:
        recording, recorder = self._recording, self._recorder
        raw = self._serialize(request)
        connection = self._take(request)
        try:
            call = self._methods[connection](
                raw,
                timeout=recording.deadline_s if timeout is None else timeout,
                metadata=metadata,
                **how,
            )
        except BaseException:  # the channel is closed: nothing was sent
            if recording.route is not None:
                recording.route.give(connection)
            raise
        sent_s = recorder.sending_from_loop()
        request_bytes = len(raw)
        if self._on_ok is None:
            request = None  # or the request would live as long as the call

        def ended(call: Any) -> None:
            status = status_of(call)
            stations = UNKNOWN_STATIONS
            if recording.station_times:
                stations = from_metadata(value_of(call.trailing_metadata()))
            if status == OK:
                self._last_ok[0] = len(recorder)
            self._ended(request, sent_s, status, stations, request_bytes, 0, connection)

        call.add_done_callback(ended)
        return call


class _StreamStream(StreamMethod, grpc.aio.StreamStreamMultiCallable):  # type: ignore[misc]
    """A bidirectional method of the measured channel."""

    def __call__(
        self,
        request_iterator: Any = None,
        timeout: float | None = None,
        metadata: Any = None,
        **how: Any,
    ) -> "MeasuredStreamCall":
        recording = self._channel.recording
        connection, channel = self._channel.next_stream()
        records = StreamRecords(recording, connection, recording.recorder.sending_from_loop)
        method = channel.stream_stream(PIPELINE, None, None)
        serialize = self._serialize

        async def requests() -> AsyncIterator[bytes]:
            async for message in _messages(request_iterator):
                raw = serialize(message)
                records.sent(message, len(raw))
                yield raw

        call = method(
            None if request_iterator is None else requests(),
            timeout=timeout,
            metadata=metadata,
            **how,
        )
        deadline_s = recording.deadline_s if timeout is None else None
        return MeasuredStreamCall(call, records, serialize, self._parse, deadline_s)


async def _messages(iterator: Any) -> AsyncIterator[Any]:
    if hasattr(iterator, "__aiter__"):
        async for message in iterator:
            yield message
    else:
        for message in iterator:
            yield message


class MeasuredStreamCall:
    """A call on a bidirectional method: gRPC's own, with requests and replies recorded."""

    def __init__(
        self,
        call: Any,
        records: StreamRecords,
        serialize: Callable[[Any], bytes],
        parse: Callable[[bytes], Any],
        deadline_s: float | None,
    ) -> None:
        self._call = call
        self._records = records
        self._serialize = serialize
        self._parse = parse
        self._deadline_s = deadline_s
        self._late = ""
        self._timer: asyncio.TimerHandle | None = None
        call.add_done_callback(self._ended)
        if deadline_s is not None:
            self._watch_replies()

    def _ended(self, _: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._records.end()

    def _watch_replies(self) -> None:
        """Cancel the stream when a request has waited for its reply longer than the deadline.

        This is a timer, not a task: the traceback of a cancelled task would keep this call, and
        with it the connection, until Python's collector runs.
        """
        deadline_s = self._deadline_s or 0.0
        if self._records.oldest_waits_s() > deadline_s:
            self._late = f"no reply within the deadline of {deadline_s:g} s"
            self._call.cancel()
            return
        again_s = min(1.0, deadline_s / 4)
        self._timer = asyncio.get_running_loop().call_later(again_s, self._watch_replies)

    async def write(self, message: Any) -> None:
        """Send one request. Raises `StreamBroken` when the stream has ended."""
        raw = self._serialize(message)
        self._records.sent(message, len(raw))
        try:
            await self._call.write(raw)
            return
        except (asyncio.InvalidStateError, asyncio.CancelledError, grpc.aio.AioRpcError) as error:
            broken = self._broken(error)
        raise broken  # not in the handler: the context of an error keeps the call, see _broken

    async def done_writing(self) -> None:
        """Close the sending side. Raises `StreamBroken` if the stream ended with requests open."""
        try:
            try:
                await self._call.done_writing()
            except grpc.aio.InternalError:  # the call has ended, and its status follows
                await asyncio.wait({asyncio.ensure_future(self._call.code())}, timeout=LEAVE_S)
                raise asyncio.InvalidStateError from None
            return
        except (asyncio.InvalidStateError, asyncio.CancelledError, grpc.aio.AioRpcError) as error:
            if not (self._records.open or self._records.unanswered or _task_is_cancelled()):
                return
            broken = self._broken(error)
        raise broken

    async def read(self) -> Any:
        """Return the next reply, or `grpc.aio.EOF`. Raises `StreamBroken` when one is missing."""
        try:
            raw = await self._call.read()
            if raw is grpc.aio.EOF:
                if not (self._records.open or self._records.unanswered):
                    return raw
                broken = self._broken(None)
            else:
                reply = self._parse(raw)
                self._records.replied(reply, len(raw))
                return reply
        except (asyncio.CancelledError, grpc.aio.AioRpcError) as error:
            broken = self._broken(error)
        except Exception as error:
            self._call.cancel()
            broken = self._records.broken(self._late or f"a reply made no sense: {error}")
        raise broken

    def __aiter__(self) -> "MeasuredStreamCall":
        return self

    async def __anext__(self) -> Any:
        reply = await self.read()
        if reply is grpc.aio.EOF:
            raise StopAsyncIteration
        return reply

    def _broken(self, error: BaseException | None) -> StreamBroken | asyncio.CancelledError:
        """Return the error to raise once the call has ended, and release gRPC's call.

        The traceback of an error refers to this object, and a notebook may keep it for long. gRPC's
        call would keep the connection open meanwhile. If the task is cancelled, the error is
        `CancelledError`: gRPC cancelled the call with its task.
        """
        if _task_is_cancelled():
            self._call = _EndedCall(grpc.StatusCode.CANCELLED, "its task was cancelled")
            return asyncio.CancelledError()
        why, code = "the server closed it", grpc.StatusCode.UNKNOWN
        if self._late:
            why, code = self._late, grpc.StatusCode.CANCELLED
        elif isinstance(error, grpc.aio.AioRpcError):
            why, code = f"{error.code().name}: {error.details()}", error.code()
        elif isinstance(error, asyncio.CancelledError):
            why, code = "it was cancelled", grpc.StatusCode.CANCELLED
        elif self._call.done() and status_of(self._call) != OK:
            code = value_of(self._call.code())
            why = f"{code.name}: {value_of(self._call.details())}"
        self._call = _EndedCall(code, why)
        return self._records.broken(why, code)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


class _EndedCall:
    """The status of a stream that broke, in place of its call."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._code = code
        self._details = details

    async def code(self) -> grpc.StatusCode:
        return self._code

    async def details(self) -> str:
        return self._details

    def done(self) -> bool:
        return True

    def cancel(self) -> bool:
        return False

    async def read(self, _: object = None) -> Any:
        raise asyncio.InvalidStateError(f"the stream has ended: {self._details}")

    write = done_writing = read


def _task_is_cancelled() -> bool:
    """Return whether the task is cancelled, rather than only the call it waits for.

    gRPC raises `CancelledError` for both. If it left the task for a call, the task would end as
    cancelled, and the run as complete. The other way round, a cancelled task that ends with the
    error of its call would replace the error for which its task group ends.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class _WholeCall(WholeCall):
    """`WholeCall` for calls on an event loop."""

    def __call__(
        self,
        request: Any = None,
        timeout: float | None = None,
        metadata: Any = None,
        *,
        cut: Callable[[], bool] | None = None,
        **how: Any,
    ) -> Any:
        recording, recorder = self._channel.recording, self._channel.recording.recorder
        method, record = self._next_call()
        call = method(
            request,
            timeout=recording.deadline_s if timeout is None else timeout,
            metadata=metadata,
            **how,
        )
        record.sent_s = recorder.sending_from_loop()

        def ended(call: Any) -> None:
            stations = UNKNOWN_STATIONS
            if recording.station_times:
                stations = from_metadata(value_of(call.trailing_metadata()))
            record.place = len(recorder)  # a single reply is parsed right after this
            record.end(status_of(call), stations, cut)

        call.add_done_callback(ended)
        return call


class MeasuredAioChannel(RecordingChannel, grpc.aio.Channel):  # type: ignore[misc]
    """Records every call made through one or several channels of `grpc.aio`.

    The caller owns the channels and closes them.
    """

    unary, stream, whole = _UnaryUnary, _StreamStream, _WholeCall

    def on_connection(self, number: int) -> "MeasuredAioChannel":
        """Return a channel with the same recording and all streams on one connection."""
        return MeasuredAioChannel(self.channels, self.recording, number)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """As `grpc.aio.Channel.get_state`, of the first connection."""
        return self.channels[0].get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """As `grpc.aio.Channel.wait_for_state_change`, of the first connection."""
        await self.channels[0].wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Return when every connection is ready."""
        await asyncio.gather(*(channel.channel_ready() for channel in self.channels))

    async def close(self, grace: float | None = None) -> None:
        """Close the connections; calls in flight after `grace` seconds end as CANCELLED."""
        await asyncio.gather(*(channel.close(grace) for channel in self.channels))

    async def __aenter__(self) -> "MeasuredAioChannel":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
        end_s = time.perf_counter() + LEAVE_S
        while self.recording.recorder.in_flight and time.perf_counter() < end_s:
            await asyncio.sleep(0.002)
