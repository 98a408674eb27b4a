"""Stores that read an entry, use the disk and then write: one loses updates, one does not.

`Store` reads and writes in one step. In a real database, other writes can come between reading and
writing: `look`, the disk, `settle`.

    in_one_step          reads and writes in one step: the plain store
    read_then_write      writes what follows from the value read, whatever the entry is by now
    compare_and_replace  writes only if the entry is still the value read; else it begins again

The Java original updates in the last way once it has no lock. Values are compared by their bytes:
the result of an operation depends on the value alone.
"""

from collections.abc import Callable

from kvstore.protocol import OK, RETRIEVE
from kvstore.server.store import Store

Seen = bytes | None
"""The value that was read; None where the key was not known."""


class LooksFirst(Store):
    """A store whose operations read before the disk time (`look`) and write after it (`settle`)."""

    def look(self, key: bytes) -> Seen:
        """Return the value of the key now; None if it is unknown."""
        return self._values.get(key)

    def settle(self, kind: int, key: bytes, value: bytes, seen: Seen) -> tuple[int, bytes] | None:
        """Execute the operation after the disk time; return None if it has to begin again.

        This is one step: the caller holds the lock of the key.
        """
        raise NotImplementedError


class ReadThenWrite(LooksFirst):
    """Ignores writes in between: updates are lost, and their callers do not learn of it."""

    def settle(self, kind: int, key: bytes, value: bytes, seen: Seen) -> tuple[int, bytes] | None:
        """Answer as if the key still had the value read, and store what follows from it."""
        if kind == RETRIEVE:
            return self.apply(kind, key, value)
        then = ReadThenWrite()
        then._put(key, seen)
        answer = then.apply(kind, key, value)
        if answer[0] == OK:
            self._put(key, then.look(key))
        return answer

    def _put(self, key: bytes, value: Seen) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value


class CompareAndReplace(LooksFirst):
    """Detects writes in between: the second writer begins again."""

    def settle(self, kind: int, key: bytes, value: bytes, seen: Seen) -> tuple[int, bytes] | None:
        """Execute the operation if the key still has the value read; else return None."""
        if kind != RETRIEVE and self._values.get(key) != seen:
            return None
        return self.apply(kind, key, value)


STORES: dict[str, Callable[[], Store]] = {
    "in_one_step": Store,
    "read_then_write": ReadThenWrite,
    "compare_and_replace": CompareAndReplace,
}
