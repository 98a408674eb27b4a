"""The data: a dictionary of bytes, and the effect of each operation."""

from collections.abc import Iterable, Sequence
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
