"""What an operation uses at the server: its lock, the simulated disk, and the data.

    locks    one for all operations, or one for each key that is written
    disk     each operation waits, without CPU time
    data     a dictionary of bytes

`LOCKS` and `ASYNC_LOCKS` list the kinds that a setting can name.
"""

import asyncio
import math
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import (
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from typing import Any, cast

from kvstore.protocol import (
    ALREADY_EXISTS,
    CREATE,
    DELETE,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    RESOURCE_EXHAUSTED,
    RETRIEVE,
    UNAVAILABLE,
    UPDATE,
)
from kvstore.server_settings import ServerSettings

# Each kind exists for threads and for asyncio. `holding(kind, key)` is the lock of an operation,
# for `with` or for `async with`. `through_disk` says whether a lock is held during the disk time
# as well, or only while the dictionary changes.


FREE: nullcontext[None] = nullcontext()
"""The lock of an operation that holds none."""


class GlobalLock:
    """One lock for all: it serialises the operations, reads included."""

    through_disk = True
    """Whether the lock is acquired before the disk time, or after it."""

    def __init__(self, lock: Any = threading.Lock) -> None:
        self._lock = lock()

    def holding(self, kind: int, key: bytes) -> Any:
        """Return the lock."""
        return self._lock


class KeyLocks:
    """A lock for each key that is being written; reads hold none.

    The table has a key only while a call writes it or waits to write it. So it has at most as many
    entries as there are calls in flight.
    """

    def __init__(self, *, through_disk: bool, lock: Any = threading.Lock) -> None:
        self.through_disk = through_disk
        self._lock = lock
        self._guard = threading.Lock()
        self._writers: dict[bytes, tuple[Any, int]] = {}

    def holding(self, kind: int, key: bytes) -> Any:
        """Return the lock of the key; no lock for a retrieve."""
        return FREE if kind == RETRIEVE else self._writing(key)

    @contextmanager
    def _writing(self, key: bytes) -> Iterator[None]:
        lock = self._enter(key)
        try:
            with lock:
                yield
        finally:
            self._leave(key)

    def _enter(self, key: bytes) -> Any:
        with self._guard:
            lock, users = self._writers.get(key) or (self._lock(), 0)
            self._writers[key] = (lock, users + 1)
        return lock

    def _leave(self, key: bytes) -> None:
        with self._guard:
            lock, users = self._writers[key]
            if users == 1:
                del self._writers[key]
            else:
                self._writers[key] = (lock, users - 1)


class AsyncKeyLocks(KeyLocks):
    """`KeyLocks` for the tasks of one event loop.

    Another task cannot run during a step without `await`. So only a lock that is held through the
    disk time protects anything, and there is no other.
    """

    def __init__(self, *, through_disk: bool) -> None:
        super().__init__(through_disk=through_disk, lock=asyncio.Lock)

    def holding(self, kind: int, key: bytes) -> Any:
        """Return the lock of the key; no lock for a retrieve."""
        return super().holding(kind, key) if self.through_disk else FREE

    @asynccontextmanager
    async def _writing(self, key: bytes) -> AsyncIterator[None]:  # type: ignore[override]
        lock = self._enter(key)
        try:
            async with lock:
                yield
        finally:
            self._leave(key)


LOCKS: dict[str, Callable[[], GlobalLock | KeyLocks]] = {
    "global": GlobalLock,
    "per_key": partial(KeyLocks, through_disk=False),
    "per_key_held": partial(KeyLocks, through_disk=True),
}
ASYNC_LOCKS: dict[str, Callable[[], GlobalLock | AsyncKeyLocks]] = {
    "global": partial(GlobalLock, asyncio.Lock),
    "per_key": partial(AsyncKeyLocks, through_disk=False),
    "per_key_held": partial(AsyncKeyLocks, through_disk=True),
}


class Disk:
    """Waits `read_delay_s` for a retrieve and `write_delay_s` for anything else.

    With `stall_s` it stalls regularly, as a disk does when it flushes: an operation that arrives
    during a stall waits for its end first. The first stall begins when the disk is made.

    The disk has no queue: it serves any number of operations at once. Operations queue for the
    locks that others hold during their disk time.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._read_s = settings.read_delay_s
        self._write_s = settings.write_delay_s
        self._stall_s = settings.stall_s
        self._stall_every_s = settings.stall_every_s
        self._began_s = time.perf_counter()

    @property
    def instant(self) -> bool:
        """Whether no operation ever waits."""
        return self._read_s == 0 and self._write_s == 0 and self._stall_s == 0

    def delay_s(self, kind: int) -> float:
        """Return the disk time of an operation of this kind, in seconds."""
        return self._read_s if kind == RETRIEVE else self._write_s

    def stalled_s(self) -> float:
        """Return the seconds until the current stall ends; 0 without a stall."""
        if not self._stall_s:
            return 0.0
        passed_s = (time.perf_counter() - self._began_s) % self._stall_every_s
        return max(0.0, self._stall_s - passed_s)

    def work(self, kind: int) -> None:
        """Block the calling thread for the disk time."""
        delay_s = self.stalled_s() + self.delay_s(kind)
        if delay_s:
            time.sleep(delay_s)

    async def work_async(self, kind: int) -> None:
        """Suspend the calling task for the disk time."""
        delay_s = self.stalled_s() + self.delay_s(kind)
        if delay_s:
            await asyncio.sleep(delay_s)


class VariedDisk(Disk):
    """A disk whose times are drawn at random; their mean is the declared delay."""

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self._draw = partial(DRAWS[settings.disk_times], random.Random(settings.disk_seed))

    def delay_s(self, kind: int) -> float:
        """Return the next disk time of an operation of this kind, in seconds."""
        mean_s = super().delay_s(kind)
        return mean_s * self._draw() if mean_s else 0.0


def _two_point(rng: random.Random) -> float:
    return 7.0 if rng.random() < 0.1 else 1 / 3


def _exponential(rng: random.Random) -> float:
    return rng.expovariate(1.0)


_SIGMA = math.sqrt(math.log(5))
"""Standard deviation of the logarithm, so that a lognormal variable has variance 4 and mean 1."""


def _heavy_tailed(rng: random.Random) -> float:
    return rng.lognormvariate(-(_SIGMA**2) / 2, _SIGMA)


DRAWS: dict[str, Callable[[random.Random], float]] = {
    "two_point": _two_point,
    "exponential": _exponential,
    "heavy_tailed": _heavy_tailed,
}
"""How to draw a disk time with mean 1, for each of the server's `disk_times` but "fixed"."""


def disk_for(settings: ServerSettings) -> Disk:
    """Return the simulated disk with these settings."""
    return (VariedDisk if settings.disk_times in DRAWS else Disk)(settings)


DETAILS = {
    ALREADY_EXISTS: "the key is known already: update replaces its value",
    NOT_FOUND: "the key is not known: create it first",
    INVALID_ARGUMENT: "every operation needs a known kind and a key of at least one byte",
    INTERNAL: "the disk could not be written: whether this operation was executed is unknown, and"
    " nothing more is written until the server is started again",
    UNAVAILABLE: "the nodes that hold the data did not answer in time: whether this operation was"
    " executed is unknown",
    RESOURCE_EXHAUSTED: "the values read exceed gRPC's limit for one message: retrieve the missing"
    " ones again, fewer at a time; or the store has no room for this value",
}
"""The details of a refusal, by its gRPC status code."""

CARRY_VALUE = (CREATE, UPDATE)
"""The kinds of operation with a value."""


class Store:
    """Keys and values in memory.

    A write holds the lock of the key, so two writes of one key never overlap. A read
    needs no lock, because it is one step.
    """

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._values)

    def apply(self, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
        """Execute one operation; return its gRPC status code and the value it read, or b""."""
        values = self._values
        if not key:
            return INVALID_ARGUMENT, b""
        if kind == RETRIEVE:
            stored = values.get(key)
            return (NOT_FOUND, b"") if stored is None else (OK, stored)
        if kind == CREATE:
            if key in values:
                return ALREADY_EXISTS, b""
            values[key] = value
            return OK, b""
        if kind == UPDATE:
            if key not in values:
                return NOT_FOUND, b""
            values[key] = value
            return OK, b""
        if kind == DELETE:
            values.pop(key, None)
            return OK, b""
        return INVALID_ARGUMENT, b""

    def apply_columns(
        self, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> tuple[bytes, list[bytes]]:
        """Execute the operations of a batch in order, each as `apply` does.

        `values` has one value for each create and update. Return one status code for each
        operation, and one value for each retrieve that succeeded.
        """
        known, carried = self._values, iter(values)
        look_up, next_value = known.get, carried.__next__
        if kinds.count(RETRIEVE) == len(kinds):
            looked = list(map(look_up, keys))
            if None not in looked:
                return bytes(len(kinds)), cast("list[bytes]", looked)
        statuses, read, place = bytearray(len(kinds)), [], -1  # every status is OK at first
        # The reads and updates that succeed come first, with one look-up each: they are nearly all
        # operations, and this loop is most of what a batch costs.
        for kind, key in zip(kinds, keys, strict=True):
            place += 1
            if kind == RETRIEVE:
                value = look_up(key)
                if value is not None:
                    read.append(value)
                    continue
                carries = b""
            elif kind == UPDATE:
                carries = next_value()
                if key in known:
                    known[key] = carries
                    continue
            else:
                carries = next_value() if kind == CREATE else b""
            statuses[place], _ = self.apply(kind, key, carries)
        return bytes(statuses), read
