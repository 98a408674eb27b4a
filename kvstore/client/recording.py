"""How the calls of a measured channel are recorded, for `grpc` and for `grpc.aio`.

`Recording` has the settings. `StreamRecords` matches the replies of a stream with its requests. A
`StreamReader` reads operations, statuses and station times from its messages.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc

from kvstore.client.errors import StreamBroken
from kvstore.measure.recorder import Recorder
from kvstore.protocol import (
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


def not_cut() -> bool:
    """Return that a stream was not cut by its caller."""
    return False


class Route(Protocol):
    """Chooses the connection of each call where there are several; safe for several threads."""

    def take(self, request: Any) -> int:
        """Return the number of the connection for this request."""

    def give(self, connection: int) -> None:
        """Free the connection of a call that has ended."""


class StreamReader:
    """Reads what a record needs from the messages of one streaming method.

    This class knows nothing of the method. A service whose messages carry several operations,
    statuses or station times has a subclass. The methods return plain tuples, because they run
    many thousand times per second.
    """

    def sent(self, request: Any) -> tuple[float, int, int | None, Any]:
        """Return a request's due time, its number of operations, its kind, and data for `replied`.

        The kind is a number, or None for the kind of the method.
        """
        return NOT_DUE, 1, None, None

    def replied(self, remembered: Any, reply: Any) -> tuple[int, int, StationTimes]:
        """Return a reply's status, how many of its operations were OK, and its station times.

        Raises `ValueError` when the reply does not answer its request.
        """
        return OK, 1, UNKNOWN_STATIONS


@dataclass(frozen=True, kw_only=True)
class Recording:
    """How the calls of a measured channel are made and recorded."""

    recorder: Recorder = field(default_factory=Recorder)
    deadline_s: float | None = None
    """Deadline of each call that sets none, and of each reply on a stream; None for no deadline."""
    metadata: tuple[tuple[str, str], ...] | None = None
    """Sent with each call that sets none."""
    station_times: bool = True
    """Whether to read the server's station times from trailing metadata."""
    route: Route | None = None
    """Chooses among several connections; None where there is one."""
    on_ok: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    """By full method name: a function of the request of each unary call that ended as OK."""
    readers: Mapping[str, StreamReader] = field(default_factory=dict)
    """By full method name: the reader of a stream's messages."""
    whole_streams: bool = False
    """Whether a bidirectional stream is one call with one record. It has to be where a request has
    no reply of its own. Otherwise each request has a record, with its reply."""

    def kind(self, method: str) -> int:
        """Return the number of the method's kind in the records; its name is in lower case."""
        return self.recorder.kind(method.rpartition("/")[2].lower())


def settled(recorder: Recorder, timeout_s: float) -> bool:
    """Wait until no call is in flight; return whether that was within `timeout_s` seconds."""
    end_s = time.perf_counter() + timeout_s
    while recorder.in_flight and time.perf_counter() < end_s:
        time.sleep(0.002)
    return not recorder.in_flight


class StreamRecords:
    """The requests of one stream that have no reply yet, for `grpc` and for `grpc.aio`."""

    def __init__(
        self, recording: Recording, method: str, connection: int, sending: Callable[[int], float]
    ) -> None:
        self._recorder = recording.recorder
        self._sending = sending
        self._reader = recording.readers.get(method) or StreamReader()
        self._kind = recording.kind(method)
        self._connection = connection
        self._waiting: dict[int, tuple[float, float, int, int, Any, int]] = {}
        """By id or number: due time, sending time, operations, kind, the data of the reader, and
        the bytes of the request."""
        self._count = 0
        self._requests_have_ids: bool | None = None
        self._by_id: bool | None = None
        """Whether both sides have ids; None before the first reply."""
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
        due_s, operations, kind, remembered = self._reader.sent(message)
        if self._requests_have_ids is None:
            self._requests_have_ids = _has_id(message)
        with self._lock:
            self._count += 1
            number = message.id if self._requests_have_ids else self._count
            if number in self._waiting:
                raise ValueError(
                    f"a request with id {number} has no reply yet: give each request its own id"
                )
            self._waiting[number] = (
                due_s, self._sending(operations), operations,
                self._kind if kind is None else kind, remembered, request_bytes,
            )  # fmt: skip
        if self._ended:
            self.end()

    def replied(self, message: Any, reply_bytes: int) -> None:
        """Record the request that this reply answers. Raises `ValueError` when there is none."""
        if self._by_id is None:
            self._by_id = bool(self._requests_have_ids) and _has_id(message)
        with self._lock:
            number = message.id if self._by_id else next(iter(self._waiting), 0)
            found = self._waiting.get(number)
            if found is None:
                raise ValueError(f"the reply with id {number} answers no open request")
            due_s, sent_s, operations, kind, remembered, request_bytes = found
            status, ok_operations, stations = self._reader.replied(remembered, message)
            del self._waiting[number]
        recorder = self._recorder
        recorder.record(
            due_s, sent_s, recorder.now_s(), kind, status, request_bytes, reply_bytes,
            stations, operations, ok_operations, self._connection,
        )  # fmt: skip

    def end(self) -> None:
        """Record each request without a reply as NO_ANSWER: the server may have executed it."""
        with self._lock:
            self._ended = True
            waiting, self._waiting = self._waiting, {}
            self.unanswered += len(waiting)
        recorder = self._recorder
        for due_s, sent_s, operations, kind, _, request_bytes in waiting.values():
            recorder.record(
                due_s, sent_s, recorder.now_s(), kind, NO_ANSWER, request_bytes, 0,
                UNKNOWN_STATIONS, operations, 0, self._connection,
            )  # fmt: skip

    def oldest_s(self) -> float:
        """Return when the oldest request without a reply was sent; NaN when there is none."""
        with self._lock:
            oldest = next(iter(self._waiting.values()), None)
        return math.nan if oldest is None else oldest[1]

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


def _has_id(message: Any) -> bool:
    fields = getattr(getattr(message, "DESCRIPTOR", None), "fields_by_name", {})
    return "id" in fields
