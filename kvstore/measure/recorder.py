"""One record for each call, kept in memory.

A record has 56 bytes. Recording takes a fraction of a microsecond and works from any thread.
"""

import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from kvstore.protocol import UNKNOWN_STATIONS, StationTimes

PACKED: Final = np.dtype(
    [
        ("due_s", "<f8"),
        ("sent_s", "<f8"),
        ("done_s", "<f8"),
        ("pool_s", "<f4"),
        ("lock_s", "<f4"),
        ("disk_s", "<f4"),
        ("rest_s", "<f4"),
        ("request_bytes", "<u4"),
        ("reply_bytes", "<u4"),
        ("kind", "u1"),
        ("status", "u1"),
        ("operations", "<u2"),
        ("ok_operations", "<u2"),
        ("connection", "<u2"),
    ]
)
"""One call as it is recorded, in as few bytes as possible."""

CALL: Final = np.dtype(
    [
        (name, np.dtype("<i8") if PACKED[name].kind == "u" else PACKED[name])
        for name in PACKED.names or ()
    ]
)
"""One call as it is analysed. Times are seconds since the start of the run; `due_s` is NaN in a
closed loop. Integers have eight bytes and a sign, because numpy keeps the type of the columns that
it adds or subtracts, also in `np.histogram(weights=...)`. Two bytes would overflow at 65,536, and
without a sign a difference would overflow below 0."""

MOST_OPERATIONS: Final = 2**16 - 1
"""The maximum number of operations in one recorded call."""

MOST_KINDS: Final = 2**8 - 1
"""The maximum number of kinds of call in one run."""

_LAYOUT: Final = struct.Struct("<ddd 16s II BB HHH")
_STATIONS: Final = struct.Struct("<ffff")
assert _LAYOUT.size == PACKED.itemsize
_REPLY_BYTES: Final = struct.Struct("<I")
_REPLY_BYTES_AT: Final = PACKED.fields["reply_bytes"][1]  # type: ignore[index]
_STATUS_AT: Final = PACKED.fields["status"][1]  # type: ignore[index]
_OK_OPERATIONS_AT: Final = PACKED.fields["ok_operations"][1]  # type: ignore[index]
_UNKNOWN: Final = _STATIONS.pack(*UNKNOWN_STATIONS)
"""Four NaN, packed once, because most servers do not send station times."""


class Recorder:
    """Counts calls when they are sent and keeps one record of the end of each call.

    A record is first packed into bytes of its own thread. `+=` then extends the common buffer in
    place, which is a single step of the interpreter. Threads therefore need no lock, and two
    records cannot mix.
    """

    def __init__(
        self, kinds: Sequence[str] = (), on_start: Callable[[], object] | None = None
    ) -> None:
        """Start the clock. `kinds` are the names to which the column `kind` refers."""
        self._buffer = bytearray()
        self._kinds = list(kinds)
        self._on_start = on_start
        self._origin_s = time.perf_counter()
        self._started = False
        """Whether `start_clock` has set the clock, after which it does not change."""
        self._naming = threading.Lock()
        self._from_threads = bytearray()
        """One byte for each call that a thread sent. Appending a byte is a single step of the
        interpreter, so no lock is needed and no count is lost."""
        self._from_loop = 0
        self._more_operations = 0
        """Operations that calls carry beyond the first one of each call."""

    # The clock

    def now_s(self) -> float:
        """Return the seconds since the start of the run."""
        return time.perf_counter() - self._origin_s

    def start_clock(self, origin_s: float) -> None:
        """Set the start of the run to this reading of `time.perf_counter`, finally."""
        self._origin_s, self._started = origin_s, True

    def connected(self) -> None:
        """Restart the clock, because all connections are ready. No effect after the first call."""
        if not self._started and not self.issued:
            self._origin_s = time.perf_counter()
            if self._on_start is not None:
                self._on_start()

    # The counts

    @property
    def issued(self) -> int:
        """Calls sent."""
        return len(self._from_threads) + self._from_loop

    @property
    def issued_operations(self) -> int:
        """Operations in the calls sent."""
        return self.issued + self._more_operations

    @property
    def in_flight(self) -> int:
        """Calls sent that have not ended."""
        return self.issued - len(self)

    def sending(self, operations: int = 1) -> float:
        """Count one call sent by a thread; return its sending time in seconds of the run."""
        self._from_threads.append(0)
        if operations != 1:  # only on a stream
            with self._naming:  # `+=` alone loses counts when several threads send at once
                self._more_operations += operations - 1
        return time.perf_counter() - self._origin_s

    def sending_from_loop(self, operations: int = 1) -> float:
        """Count one call sent from the event loop; only the loop's thread may call this."""
        self._from_loop += 1
        self._more_operations += operations - 1
        return time.perf_counter() - self._origin_s

    # The records

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of call, indexed by their number in the records."""
        return tuple(self._kinds)

    def kind(self, name: str) -> int:
        """Return the number of the kind with this name; an unknown name becomes a new kind."""
        with self._naming:
            if name not in self._kinds:
                if len(self._kinds) > MOST_KINDS:
                    raise ValueError(
                        f"a run can have {MOST_KINDS + 1} kinds of call at most: {name!r} is one"
                        " too many"
                    )
                self._kinds.append(name)
            return self._kinds.index(name)

    def __len__(self) -> int:
        return len(self._buffer) // _LAYOUT.size

    def record(
        self,
        due_s: float,
        sent_s: float,
        done_s: float,
        kind: int,
        status: int,
        request_bytes: int,
        reply_bytes: int,
        stations: StationTimes = UNKNOWN_STATIONS,
        operations: int = 1,
        ok_operations: int | None = None,
        connection: int = 0,
    ) -> None:
        """Append the record of one call; times are seconds of the run."""
        if ok_operations is None:
            ok_operations = 0 if status else 1
        self._buffer += _LAYOUT.pack(
            due_s, sent_s, done_s,
            _UNKNOWN if stations is UNKNOWN_STATIONS else _STATIONS.pack(*stations),
            request_bytes, reply_bytes, kind, status, operations, ok_operations, connection,
        )  # fmt: skip

    def set_reply_bytes(self, number: int, reply_bytes: int) -> None:
        """Set the size of a reply in the record of this number; only if one thread records."""
        at = number * _LAYOUT.size + _REPLY_BYTES_AT
        _REPLY_BYTES.pack_into(self._buffer, at, reply_bytes)

    def set_failed(self, number: int, status: int) -> None:
        """Set the status of a call that ended as OK, and whose reply could not be read."""
        at = number * _LAYOUT.size
        self._buffer[at + _STATUS_AT] = status
        self._buffer[at + _OK_OPERATIONS_AT : at + _OK_OPERATIONS_AT + 2] = bytes(2)

    def since(self, first: int) -> npt.NDArray[np.void]:
        """Return the records from number `first` on as an array of `CALL`."""
        stored = bytes(self._buffer[first * _LAYOUT.size :])
        records = np.frombuffer(stored, dtype=PACKED).astype(CALL)
        records.flags.writeable = False  # the facts of a run do not change
        return records

    def array(self) -> npt.NDArray[np.void]:
        """Return all records so far as an array of `CALL`, in the order of their ends."""
        return self.since(0)
