"""Who waits for whom: one lock for everything, or one for each key that is written.

Each policy comes for threads and for asyncio, with one method: `holding(kind, key)`
returns the lock to hold during the operation. `LOCKS` is the list of policies.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Protocol

from kvstore.measure.codes import RETRIEVE

_FREE: nullcontext[None] = nullcontext()


class Locks(Protocol):
    """Locks for operations that run in threads."""

    def holding(self, kind: int, key: bytes) -> AbstractContextManager[object]:
        """The lock this operation holds from before its disk time until it is done."""
        ...


class AsyncLocks(Protocol):
    """Locks for operations that run as asyncio tasks."""

    def holding(self, kind: int, key: bytes) -> AbstractAsyncContextManager[object]:
        """The lock this operation holds from before its disk time until it is done."""
        ...


class GlobalLock:
    """One lock for all: operations go through one by one, reads too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def holding(self, kind: int, key: bytes) -> AbstractContextManager[object]:
        """The one lock, whatever the operation."""
        return self._lock


class PerKeyLocks:
    """A lock for each key that is being written; readers hold none.

    The table holds a key only while somebody writes it or waits to, so it stays as
    small as the number of calls in flight.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._writers: dict[bytes, tuple[threading.Lock, int]] = {}

    def holding(self, kind: int, key: bytes) -> AbstractContextManager[object]:
        """Nothing for a retrieve; the key's own lock for the rest."""
        return _FREE if kind == RETRIEVE else self._writing(key)

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
    """`GlobalLock` for tasks of one event loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def holding(self, kind: int, key: bytes) -> AbstractAsyncContextManager[object]:
        """The one lock, whatever the operation."""
        return self._lock


class AsyncPerKeyLocks:
    """`PerKeyLocks` for tasks of one event loop, which needs no guard around its table."""

    def __init__(self) -> None:
        self._writers: dict[bytes, tuple[asyncio.Lock, int]] = {}

    def holding(self, kind: int, key: bytes) -> AbstractAsyncContextManager[object]:
        """Nothing for a retrieve; the key's own lock for the rest."""
        return _FREE if kind == RETRIEVE else self._writing(key)

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


LOCKS: dict[str, type[Locks]] = {"global": GlobalLock, "per_key": PerKeyLocks}
ASYNC_LOCKS: dict[str, type[AsyncLocks]] = {"global": AsyncGlobalLock, "per_key": AsyncPerKeyLocks}
