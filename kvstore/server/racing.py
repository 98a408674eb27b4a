"""Stores that look first and write later, with the disk in between: one right, one wrong.

`Store` looks and writes in one step. In a real database the look, the work and the write are
apart, and others come between: `look`, the disk, `settle`.

    in_one_step          looks when it writes, and nothing can come between: the plain store
    read_then_write      writes what follows from what it saw, whatever is there by now
    compare_and_replace  writes only if what it saw is still there; else it must look again

The last is how the Java original updates once it has no lock any more. Equal bytes are as
good as the same bytes: what an operation does depends on the value alone.
"""

from collections.abc import Callable

from kvstore.codes import OK, RETRIEVE
from kvstore.server.store import Store

Seen = bytes | None
"""The value that was looked at; None where the key was not known."""


class LooksFirst(Store):
    """A store whose operations look before the disk, and settle after it what to write."""

    def look(self, key: bytes) -> Seen:
        """What is stored under the key now."""
        return self._values.get(key)

    def settle(self, kind: int, key: bytes, value: bytes, seen: Seen) -> tuple[int, bytes] | None:
        """Do the operation after the disk, or None: it has to begin again.

        One step: the caller holds the lock of the key.
        """
        raise NotImplementedError


class ReadThenWrite(LooksFirst):
    """Trusts that nobody came between: updates get lost, and nobody is told."""

    def settle(self, kind: int, key: bytes, value: bytes, seen: Seen) -> tuple[int, bytes] | None:
        """Answer as if the key still held what was seen, and store what follows from it."""
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
    """Makes sure that nobody came between: who is second begins again."""

    def settle(self, kind: int, key: bytes, value: bytes, seen: Seen) -> tuple[int, bytes] | None:
        """Do the operation if the key still holds what was seen; None if it does not."""
        if kind != RETRIEVE and self._values.get(key) != seen:
            return None
        return self.apply(kind, key, value)


STORES: dict[str, Callable[[], Store]] = {
    "in_one_step": Store,
    "read_then_write": ReadThenWrite,
    "compare_and_replace": CompareAndReplace,
}
