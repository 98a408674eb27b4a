"""The data: a dictionary of bytes, and stores that compare before they write."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from kvstore.protocol import (
    ALREADY_EXISTS,
    CREATE,
    DEADLINE_EXCEEDED,
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

DETAILS = {
    ALREADY_EXISTS: "the key is known already: update replaces its value",
    NOT_FOUND: "the key is not known: create it first",
    DEADLINE_EXCEEDED: "too little time was left: nothing was done",
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

    A write holds the lock of the key (`locking.py`), so two writes of one key never overlap. A read
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
            found = values.get(key)
            return (NOT_FOUND, b"") if found is None else (OK, found)
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
        statuses, found, place = bytearray(len(kinds)), [], -1  # every status is OK at first
        # The reads and updates that succeed come first, with one look-up each: they are nearly all
        # operations, and this loop is most of what a batch costs.
        for kind, key in zip(kinds, keys, strict=True):
            place += 1
            if kind == RETRIEVE:
                value = look_up(key)
                if value is not None:
                    found.append(value)
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
        return bytes(statuses), found


# ---- cas stores ---------------------------------------------------------------------------------
# Stores that read an entry, use the disk and then write: one loses updates, one does not.
#
# `Store` reads and writes in one step. In a real database, other writes can come between reading
# and writing: `look`, the disk, `settle`.
#
#     in_one_step          reads and writes in one step: the plain store
#     read_then_write      writes what follows from the value read, whatever the entry is by now
#     compare_and_replace  writes only if the entry is still the value read; else it begins again
#
# The Java original updates in the last way once it has no lock. Values are compared by their
# bytes: the result of an operation depends on the value alone.


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
