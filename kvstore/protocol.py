"""What client and server share besides the proto files.

Codes for the kinds of operation and the statuses, the station times in trailing metadata, gRPC
options of client and server, and the shard of a key.
"""

import asyncio
import math
import sys
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from zlib import crc32

KINDS: Final = ("batch", "create", "retrieve", "update", "delete")
"""Names of the operation kinds by their code; 0 is a message with several operations."""

BATCH, CREATE, RETRIEVE, UPDATE, DELETE = range(5)

METHODS: Final = {"Create": CREATE, "Retrieve": RETRIEVE, "Update": UPDATE, "Delete": DELETE}
"""The unary methods of the service, and the kind of their operation."""

STATUSES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
    "NO_ANSWER",
)
"""gRPC's status names by their code, and NO_ANSWER for a request whose effect is unknown."""

OK: Final = 0
CANCELLED: Final = 1
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
ALREADY_EXISTS: Final = 6
RESOURCE_EXHAUSTED: Final = 8
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
NO_ANSWER: Final = len(STATUSES) - 1


METADATA_KEY = "server-timing"
CALL_KEY: Final = "call-sent-s"
"""Metadata of a call: when it was sent, in seconds of its run. All its attempts carry the same."""
ATTEMPTS_KEY: Final = "grpc-previous-rpc-attempts"
"""Metadata that gRPC adds to every attempt of a call after the first one."""


class StationTimes(NamedTuple):
    """Seconds at each station; they add up to the residence time in the server."""

    pool_s: float = math.nan
    """Waited for a thread of the pool."""
    lock_s: float = math.nan
    """Waited for the lock."""
    disk_s: float = math.nan
    """On the disk: the simulated one, and the real one of a server that has a folder."""
    rest_s: float = math.nan
    """Everything else: the interpreter, the dictionary, waiting for the processor."""


UNKNOWN_STATIONS = StationTimes()
"""The station times of a server that does not report them."""


class StationClock:
    """Adds up the time of one request at each station.

    `waited_s` is how long the request waited before this clock started.
    """

    __slots__ = ("_disk_s", "_last_s", "_lock_s", "_pool_s", "_started_s")

    def __init__(self, waited_s: float = 0.0) -> None:
        self._pool_s = waited_s
        self._lock_s = 0.0
        self._disk_s = 0.0
        self._started_s = self._last_s = time.perf_counter()

    def begin(self) -> None:
        """Mark that a station begins now."""
        self._last_s = time.perf_counter()

    def locked(self) -> None:
        """Count the time since the last mark as waiting for the lock."""
        now_s = time.perf_counter()
        self._lock_s += now_s - self._last_s
        self._last_s = now_s

    def worked(self) -> None:
        """Count the time since the last mark as disk time."""
        now_s = time.perf_counter()
        self._disk_s += now_s - self._last_s
        self._last_s = now_s

    def times(self) -> StationTimes:
        """Return the station times so far; the time between the marks is the rest."""
        total_s = time.perf_counter() - self._started_s
        rest_s = total_s - self._lock_s - self._disk_s
        return StationTimes(self._pool_s, self._lock_s, self._disk_s, rest_s)


def to_header(times: StationTimes) -> str:
    """Return the text for trailing metadata."""
    return ", ".join(
        f"{name.removesuffix('_s')};dur={1e3 * value:.4f}"
        for name, value in zip(times._fields, times, strict=True)
    )


def from_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> StationTimes:
    """Return the station times in a reply's trailing metadata, NaN where they are missing."""
    for key, value in metadata or ():
        if key == METADATA_KEY and isinstance(value, str):
            times_s = dict(_parts(value))
            return StationTimes(
                *(times_s.get(field.removesuffix("_s"), math.nan) for field in StationTimes._fields)
            )
    return UNKNOWN_STATIONS


def _parts(header: str) -> Iterable[tuple[str, float]]:
    for part in header.split(", "):
        name, _, duration_ms = part.partition(";dur=")
        try:
            yield name, float(duration_ms) / 1e3
        except ValueError:
            pass  # the entry of a proxy may have no duration


MESSAGE_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""gRPC's default limit on a message."""

OWN_CONNECTION: Final = ("grpc.use_local_subchannel_pool", 1)
"""By default, channels of one process to one address share a TCP connection; this prevents it.

The reason is correctness, not speed: connections that a learner counts have to be connections."""


def shard_of(key: bytes, shards: int) -> int:
    """Return the number of the server, from 0, that has a key."""
    return crc32(key) % shards


def generator_of(key: bytes, generators: int) -> int:
    """Return the number of the generator, from 0, that may use a key.

    It depends on other bits than `shard_of`: otherwise, with as many generators as servers, each
    would call only one server.
    """
    return (crc32(key) >> 16) % generators


# The asyncio event loop that client and server use.


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop's event loops; None on Windows, where uvloop does not exist.

    uvloop takes less CPU time in client and server, above all with many small messages, as on
    streams. Throughput grows only if the process is the bottleneck.
    """
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
