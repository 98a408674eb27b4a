"""The locks: one for all operations, or one for each key that is written.

Each kind exists for threads and for asyncio. `holding(kind, key)` is the lock of an operation;
`through_disk` says whether it is held during the disk time as well, or only while the dictionary
changes. `LOCKS` and `ASYNC_LOCKS` list them.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from typing import Protocol

from kvstore.protocol import RETRIEVE

_FREE: nullcontext[None] = nullcontext()


class Locks(Protocol):
    """Locks for operations that run in threads."""

    through_disk: bool
    """Whether the lock is acquired before the disk time, or after it."""

    def holding(self, kind: int, key: bytes) -> AbstractContextManager[object]:
        """The lock of this operation."""
        ...

    def holding_all(self, kinds: bytes, keys: Sequence[bytes]) -> AbstractContextManager[object]:
        """The locks of all operations of a batch at once."""
        ...


class AsyncLocks(Protocol):
    """Locks for operations that run as asyncio tasks."""

    through_disk: bool
    """Whether the lock is acquired before the disk time, or after it."""

    def holding(self, kind: int, key: bytes) -> AbstractAsyncContextManager[object]:
        """The lock of this operation."""
        ...

    def holding_all(
        self, kinds: bytes, keys: Sequence[bytes]
    ) -> AbstractAsyncContextManager[object]:
        """The locks of all operations of a batch at once."""
        ...


class GlobalLock:
    """One lock for all: it serialises the operations, reads included."""

    through_disk = True

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def holding(self, kind: int, key: bytes) -> AbstractContextManager[object]:
        """Return the lock."""
        return self._lock

    def holding_all(self, kinds: bytes, keys: Sequence[bytes]) -> AbstractContextManager[object]:
        """Return the lock."""
        return self._lock


class KeyLocks:
    """A lock for each key that is being written; reads hold none.

    The table has a key only while a call writes it or waits to write it. So it has at most as many
    entries as there are calls in flight.
    """

    def __init__(self, *, through_disk: bool) -> None:
        self.through_disk = through_disk
        self._guard = threading.Lock()
        self._writers: dict[bytes, tuple[threading.Lock, int]] = {}

    def holding(self, kind: int, key: bytes) -> AbstractContextManager[object]:
        """Return the lock of the key; no lock for a retrieve."""
        return _FREE if kind == RETRIEVE else self._writing(key)

    @contextmanager
    def holding_all(self, kinds: bytes, keys: Sequence[bytes]) -> Iterator[None]:
        """Hold the lock of every key that the batch writes."""
        with ExitStack() as held:
            for key in _written(kinds, keys):
                held.enter_context(self._writing(key))
            yield

    @contextmanager
    def _writing(self, key: bytes) -> Iterator[None]:
        with self._guard:
            lock, users = self._writers.get(key) or (threading.Lock(), 0)
            self._writers[key] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._writers[key]
                if users == 1:
                    del self._writers[key]
                else:
                    self._writers[key] = (lock, users - 1)


class AsyncGlobalLock:
    """`GlobalLock` for the tasks of one event loop."""

    through_disk = True

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def holding(self, kind: int, key: bytes) -> AbstractAsyncContextManager[object]:
        """Return the lock."""
        return self._lock

    def holding_all(
        self, kinds: bytes, keys: Sequence[bytes]
    ) -> AbstractAsyncContextManager[object]:
        """Return the lock."""
        return self._lock


class AsyncKeyLocks:
    """`KeyLocks` for the tasks of one event loop; its table needs no guard."""

    def __init__(self, *, through_disk: bool) -> None:
        self.through_disk = through_disk
        self._writers: dict[bytes, tuple[asyncio.Lock, int]] = {}

    def holding(self, kind: int, key: bytes) -> AbstractAsyncContextManager[object]:
        """Return the lock of the key; no lock for a retrieve."""
        # Another task cannot run during a step without `await`. So only a lock that is held
        # through the disk time protects anything.
        if kind == RETRIEVE or not self.through_disk:
            return _FREE
        return self._writing(key)

    @asynccontextmanager
    async def holding_all(self, kinds: bytes, keys: Sequence[bytes]) -> AsyncIterator[None]:
        """Hold the lock of every key that the batch writes; none unless held through the disk."""
        async with AsyncExitStack() as held:
            for key in _written(kinds, keys) if self.through_disk else ():
                await held.enter_async_context(self._writing(key))
            yield

    def waiting(self, key: bytes) -> bool:
        """Return whether a call writes this key, or waits to write it."""
        return key in self._writers

    @asynccontextmanager
    async def _writing(self, key: bytes) -> AsyncIterator[None]:
        lock, users = self._writers.get(key) or (asyncio.Lock(), 0)
        self._writers[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._writers[key]
            if users == 1:
                del self._writers[key]
            else:
                self._writers[key] = (lock, users - 1)


def _written(kinds: bytes, keys: Sequence[bytes]) -> list[bytes]:
    """Return each key that is written, sorted, so that no two batches deadlock."""
    return sorted({key for kind, key in zip(kinds, keys, strict=True) if kind != RETRIEVE})


LOCKS: dict[str, Callable[[], Locks]] = {
    "global": GlobalLock,
    "per_key": partial(KeyLocks, through_disk=False),
    "per_key_held": partial(KeyLocks, through_disk=True),
}
ASYNC_LOCKS: dict[str, Callable[[], AsyncLocks]] = {
    "global": AsyncGlobalLock,
    "per_key": partial(AsyncKeyLocks, through_disk=False),
    "per_key_held": partial(AsyncKeyLocks, through_disk=True),
}
