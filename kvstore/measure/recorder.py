"""One record for each call, 56 bytes and a fraction of a microsecond, from any thread."""

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from kvstore.stations import UNKNOWN_STATIONS, StationTimes

CALL: Final = np.dtype(
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
"""One call. Times are seconds since the run began; `due_s` is NaN in a closed loop."""

MOST_OPERATIONS: Final = 2**16 - 1
"""The most operations that one call can carry and be recorded."""

_LAYOUT: Final = struct.Struct("<ddd 16s II BB HHH")
_STATIONS: Final = struct.Struct("<ffff")
assert _LAYOUT.size == CALL.itemsize
_UNKNOWN: Final = _STATIONS.pack(*UNKNOWN_STATIONS)
"""Four NaN, packed once: most servers do not tell, and packing them was a fifth of a record."""


class Recorder:
    """Keeps what happened; computes nothing while a run lasts.

    A record is packed first, into bytes nobody else sees. `+=` then grows the one buffer in
    place: a single step of the interpreter, which no other thread can come into, so threads
    need no lock and no two records can mix. The name is bound again to the object it had.
    """

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

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
        """Append one call."""
        if ok_operations is None:
            ok_operations = 0 if status else 1
        self._buffer += _LAYOUT.pack(
            due_s, sent_s, done_s,
            _UNKNOWN if stations is UNKNOWN_STATIONS else _STATIONS.pack(*stations),
            request_bytes, reply_bytes, kind, status, operations, ok_operations, connection,
        )  # fmt: skip

    def since(self, first: int) -> npt.NDArray[np.void]:
        """The calls from number `first` on, in the order of their answers; what is new is cheap."""
        return np.frombuffer(bytes(self._buffer[first * _LAYOUT.size :]), dtype=CALL)

    def array(self) -> npt.NDArray[np.void]:
        """All calls so far, in the order of their answers, as a structured array of `CALL`."""
        return np.frombuffer(bytes(self._buffer), dtype=CALL)
