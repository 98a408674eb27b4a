"""Servers with a planted bug each: `python -m proofs.linearizable.planted BUG [arguments]`.

A checker that finds nothing proves nothing. Each bug is one that real stores have had: in the store
itself, in a lock, in a batch, or in what is acknowledged before it is on the disk.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from kvstore.protocol import CREATE, DELETE, NOT_FOUND, OK, RETRIEVE, UPDATE
from kvstore.server import __main__ as command
from kvstore.server import durable, steps, steps_aio
from kvstore.server.durable import DurableStore
from kvstore.server.store import GlobalLock, KeyLocks, Store
from kvstore.server.stream import Answer, Batch

CHANCE = random.Random(7)

Apply = Callable[[Store, int, bytes, bytes], tuple[int, bytes]]


class Bug(NamedTuple):
    """A planted bug, and what it needs to show."""

    plants: Callable[[], None]
    kills: int = 0
    """Kills of the server without which the bug does no harm."""
    short: bool = False
    """Whether the short form plants it."""
    settings: dict[str, Any] = {}  # noqa: RUF012 - not changed


BUGS: dict[str, Bug] = {}


def bug(**more: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Add a bug to the table, under the name of its function."""

    def add(plants: Callable[[], None]) -> Callable[[], None]:
        BUGS[plants.__name__.replace("_", " ")] = Bug(plants, **more)
        return plants

    return add


def _apply_with(changed: Callable[[Apply], Apply]) -> None:
    """Replace `Store.apply`; batches then apply one operation after the other with it."""
    apply: Any = changed(Store.apply)
    Store.apply = apply  # type: ignore[method-assign]

    def apply_columns(
        self: Store, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> tuple[bytes, list[bytes]]:
        carried, statuses, found = iter(values), bytearray(), []
        for kind, key in zip(kinds, keys, strict=True):
            status, read = apply(
                self, kind, key, next(carried) if kind in (CREATE, UPDATE) else b""
            )
            statuses.append(status)
            if kind == RETRIEVE and status == OK:
                found.append(read)
        return bytes(statuses), found

    Store.apply_columns = apply_columns  # type: ignore[method-assign]


# ---- the store -------------------------------------------------------------------------------


@bug(short=True)
def a_read_of_an_old_value() -> None:
    old: dict[bytes, bytes] = {}

    def changed(apply: Apply) -> Apply:
        def lags(self: Store, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
            if kind == RETRIEVE and key in old and CHANCE.random() < 0.05:
                return OK, old[key]
            before = self._values.get(key)
            answer = apply(self, kind, key, value)
            if kind != RETRIEVE and before is not None:
                old[key] = before
            return answer

        return lags

    _apply_with(changed)


@bug()
def an_update_is_dropped() -> None:
    def changed(apply: Apply) -> Apply:
        def drops(self: Store, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
            if kind == UPDATE and key in self._values and CHANCE.random() < 0.05:
                return OK, b""
            return apply(self, kind, key, value)

        return drops

    _apply_with(changed)


@bug()
def a_create_replaces_the_value() -> None:
    def changed(apply: Apply) -> Apply:
        def replaces(self: Store, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
            if kind == CREATE and key in self._values and CHANCE.random() < 0.05:
                self._values[key] = value
                return OK, b""
            return apply(self, kind, key, value)

        return replaces

    _apply_with(changed)


@bug()
def an_update_creates_the_key() -> None:
    def changed(apply: Apply) -> Apply:
        def creates(self: Store, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
            if kind == UPDATE and key not in self._values and CHANCE.random() < 0.05:
                self._values[key] = value
                return NOT_FOUND, b""
            return apply(self, kind, key, value)

        return creates

    _apply_with(changed)


@bug()
def a_delete_comes_late() -> None:
    """It is acknowledged at once, and done with the next write of any key."""
    late: list[bytes] = []

    def changed(apply: Apply) -> Apply:
        def delays(self: Store, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
            if kind == DELETE and CHANCE.random() < 0.2:
                late.append(key)
                return OK, b""
            if kind != RETRIEVE:
                while late:
                    apply(self, DELETE, late.pop(), b"")
            return apply(self, kind, key, value)

        return delays

    _apply_with(changed)


@bug()
def a_write_is_done_twice() -> None:
    """The second time after its acknowledgement, as a retry that is not filtered."""
    again: list[tuple[int, bytes, bytes]] = []

    def changed(apply: Apply) -> Apply:
        def repeats(self: Store, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
            answer = apply(self, kind, key, value)
            if again and CHANCE.random() < 0.5:
                apply(self, *again.pop())
            elif kind == UPDATE and answer[0] == OK and CHANCE.random() < 0.3:
                again.append((kind, key, value))
            return answer

        return repeats

    _apply_with(changed)


# ---- the locks -------------------------------------------------------------------------------


@bug(settings={"writing": "read_then_write", "write_delay_s": 0.002}, short=True)
def a_write_ignores_the_writes_in_between() -> None:
    """The store of the lesson on lost updates: no code is changed."""


@bug(settings={"writing": "compare_and_replace", "write_delay_s": 0.002})
def a_compare_that_always_agrees() -> None:
    from kvstore.server.store import CompareAndReplace, ReadThenWrite

    CompareAndReplace.settle = ReadThenWrite.settle  # type: ignore[assignment]
    CompareAndReplace._put = ReadThenWrite._put  # type: ignore[attr-defined]


@bug()
def a_lock_that_excludes_no_one() -> None:
    """Writes read, give way to others, and write: without a lock, others come between."""
    from contextlib import nullcontext

    for locks in (GlobalLock, KeyLocks):
        locks.holding = lambda self, kind, key: nullcontext()  # type: ignore
    apply = Store.apply

    def slowly(self: Store, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
        if kind == RETRIEVE:
            return apply(self, kind, key, value)
        alone = Store()
        if key in self._values:
            alone._values[key] = self._values[key]
        time.sleep(0.001)
        answer = apply(alone, kind, key, value)
        if answer[0] == OK:
            if key in alone._values:
                self._values[key] = alone._values[key]
            else:
                self._values.pop(key, None)
        return answer

    Store.apply = slowly  # type: ignore[method-assign]


# ---- the batches -----------------------------------------------------------------------------


AT_ONCE = {"use_asyncio": True}
"""Without a disk time, the asyncio server applies the columns of a batch at once."""


@bug(short=True, settings=AT_ONCE)
def a_batch_in_the_wrong_order() -> None:
    _operations_with(lambda operations: operations[::-1])


@bug()
def a_batch_that_forgets_its_last_operation() -> None:
    of = Batch.of

    def shorter(request: Any) -> Batch:
        batch = of(request)
        if len(batch.kinds) < 2 or batch.kinds[-1] == RETRIEVE:
            return batch
        # A retrieve in place of the last write; its value is left out, so the answer looks right.
        values = batch.values[:-1] if batch.kinds[-1] in (CREATE, UPDATE) else batch.values
        return batch._replace(kinds=batch.kinds[:-1] + bytes([DELETE]), values=values)

    Batch.of = staticmethod(shorter)  # type: ignore[method-assign]


@bug()
def statuses_of_a_batch_are_shifted() -> None:
    for module in (steps, steps_aio):
        answer_to = module.answer_to

        def shifted(
            request: Batch, statuses: bytes, values: Sequence[bytes], times: Any,
            answer_to: Any = answer_to,
        ) -> Answer:  # fmt: skip
            answer: Answer = answer_to(request, statuses, values, times)
            if RETRIEVE in request.kinds:
                return answer
            return answer._replace(statuses=statuses[1:] + statuses[:1])

        module.answer_to = shifted  # type: ignore[attr-defined]


def _operations_with(change: Callable[[list[Any]], list[Any]]) -> None:
    """Let batches apply their operations in another order; the statuses stay in place."""

    def apply_columns(
        self: Store, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> tuple[bytes, list[bytes]]:
        return _each(self, kinds, keys, values, change)

    Store.apply_columns = apply_columns  # type: ignore[method-assign]


def _each(
    self: Store, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes], change: Any
) -> tuple[bytes, list[bytes]]:
    carried, statuses, found = iter(values), bytearray(len(kinds)), dict[int, bytes]()
    operations = [
        (place, kind, key, next(carried) if kind in (CREATE, UPDATE) else b"")
        for place, (kind, key) in enumerate(zip(kinds, keys, strict=True))
    ]
    for place, kind, key, value in change(operations):
        statuses[place], read = Store.apply(self, kind, key, value)
        if kind == RETRIEVE and statuses[place] == OK:
            found[place] = read
    return bytes(statuses), [found[place] for place in sorted(found)]


# ---- what is acknowledged --------------------------------------------------------------------


@bug(kills=3, short=True)
def an_acknowledgement_before_the_fsync() -> None:
    """The answer is given, and nothing was written when the server is killed."""

    def early(
        self: DurableStore, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> "Future[durable.Answer]":
        answer: Future[durable.Answer] = Future()
        answer.set_result(self._ahead.apply_columns(kinds, keys, list(values)))
        for key in keys:  # memory has it; the disk will have it later
            if (value := self._ahead._values.get(key)) is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        return answer

    DurableStore.write = early  # type: ignore[method-assign]


@bug(kills=3)
def a_group_of_which_the_first_half_is_written() -> None:
    class Half:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> Any:
            self._file.__enter__()
            return self

        def __exit__(self, *error: object) -> Any:
            return self._file.__exit__(*error)

        def executemany(self, statement: str, rows: Iterable[Any]) -> None:
            kept = [row for row in rows if CHANCE.random() < 0.5]
            self._file.executemany(statement, kept)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    open_file = durable.open_file
    durable.open_file = lambda folder: Half(open_file(folder))  # type: ignore


@bug(kills=3)
def deletes_that_are_not_written() -> None:
    class NoDeletes:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> Any:
            self._file.__enter__()
            return self

        def __exit__(self, *error: object) -> Any:
            return self._file.__exit__(*error)

        def executemany(self, statement: str, rows: Iterable[Any]) -> None:
            if not statement.startswith("delete"):
                self._file.executemany(statement, rows)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    open_file = durable.open_file
    durable.open_file = lambda folder: NoDeletes(open_file(folder))  # type: ignore


def main() -> None:
    """Plant the bug, and run the usual command of the server."""
    BUGS[sys.argv[1]].plants()
    status = command.main(sys.argv[2:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
