"""Where one request spent its time inside the server, and how that travels to the client.

In a unary call it travels as trailing metadata under `server-timing`, in the form that
web servers use for the header of that name (W3C "Server Timing": a name, then `dur=`
in milliseconds), so that a person with grpcurl can read it too.
"""

import math
import time
from collections.abc import Iterable
from typing import NamedTuple

METADATA_KEY = "server-timing"


class StationTimes(NamedTuple):
    """Seconds at each station; they add up to the time in the server's hands."""

    pool_s: float = math.nan
    """Waited for a thread of the pool."""
    lock_s: float = math.nan
    """Waited for the lock."""
    disk_s: float = math.nan
    """On the disk: the simulated one, and the real one of a server that has a folder."""
    rest_s: float = math.nan
    """Everything else: the interpreter, the dictionary, waiting for the processor."""


UNKNOWN_STATIONS = StationTimes()
"""What a caller knows when the server does not tell."""


class StationClock:
    """Adds up the stations of one request as it passes them.

    `waited_s` is what the request waited before this clock could start.
    """

    __slots__ = ("_disk_s", "_last_s", "_lock_s", "_pool_s", "_started_s")

    def __init__(self, waited_s: float = 0.0) -> None:
        self._pool_s = waited_s
        self._lock_s = 0.0
        self._disk_s = 0.0
        self._started_s = self._last_s = time.perf_counter()

    def begin(self) -> None:
        """A station begins now."""
        self._last_s = time.perf_counter()

    def locked(self) -> None:
        """The lock was waited for since the last stamp; the disk begins now."""
        now_s = time.perf_counter()
        self._lock_s += now_s - self._last_s
        self._last_s = now_s

    def worked(self) -> None:
        """The disk was used since the last stamp."""
        now_s = time.perf_counter()
        self._disk_s += now_s - self._last_s
        self._last_s = now_s

    def times(self) -> StationTimes:
        """The stations so far; what no stamp covers is the rest."""
        total_s = time.perf_counter() - self._started_s
        rest_s = total_s - self._lock_s - self._disk_s
        return StationTimes(self._pool_s, self._lock_s, self._disk_s, rest_s)


def to_header(times: StationTimes) -> str:
    """The text that travels in trailing metadata."""
    return ", ".join(
        f"{name.removesuffix('_s')};dur={1e3 * value:.4f}"
        for name, value in zip(times._fields, times, strict=True)
    )


def from_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> StationTimes:
    """The stations that a reply's trailing metadata tells, NaN where it does not."""
    for key, value in metadata or ():
        if key == METADATA_KEY and isinstance(value, str):
            found = dict(_parts(value))
            return StationTimes(
                *(found.get(field.removesuffix("_s"), math.nan) for field in StationTimes._fields)
            )
    return UNKNOWN_STATIONS


def _parts(header: str) -> Iterable[tuple[str, float]]:
    for part in header.split(", "):
        name, _, duration_ms = part.partition(";dur=")
        try:
            yield name, float(duration_ms) / 1e3
        except ValueError:
            pass  # a proxy's own entry may have no duration
