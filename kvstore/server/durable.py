"""A store that acknowledges a write only after its fsync, and its service on asyncio.

With group commit, writes that wait at the same time share one fsync.
"""

import asyncio
import logging
import sqlite3
import struct
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from kvstore.protocol import CREATE, INTERNAL, OK, RETRIEVE, StationClock
from kvstore.server.counts import Counts
from kvstore.server.service import AsyncKeyValueService
from kvstore.server.store import CARRY_VALUE, FREE, Store, disk_for
from kvstore.server.stream import Batch
from kvstore.server_settings import ServerSettings

FILE_NAME = "entries.sqlite"
"""Name of the file in the folder."""

Answer = tuple[bytes, list[bytes]]
"""One status code for each operation, and one value for each retrieve that succeeded."""


class _Write(NamedTuple):
    """Operations that are written together, in columns, and the future of their answer."""

    kinds: bytes
    keys: Sequence[bytes]
    values: Iterable[bytes]
    answer: "Future[Answer]"


class DurableStore:
    """Keys and values in memory, and in a file that one thread writes.

    Reads use `memory`, which has only what is on the disk already: a crash loses no write that a
    client has read. Writes queue for the thread. With `group_commit`, all that wait share one
    transaction with one fsync; otherwise each write has its own. The simulated disk comes before
    each transaction: it makes a fast disk slow.

    Raises `OSError` when the folder cannot be used: unwritable, damaged, or another server's.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.memory = Store()
        self._group_commit = settings.group_commit
        self._disk = disk_for(settings)
        self._file = open_file(Path(settings.store_place))
        self.memory._values.update(self._file.execute("select key, value from entries"))
        self._ahead = Store()  # the data once everything taken is on the disk
        self._ahead._values.update(self.memory._values)
        self._failed = False
        self._waiting: SimpleQueue[_Write | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="durable", daemon=True)
        self._writer.start()

    def write(
        self, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> "Future[Answer]":
        """Execute these operations in order; the future has the answer when they are on the disk.

        Otherwise as `Store.apply_columns`. When the disk fails, every status is INTERNAL, and also
        that of all later writes, because the content of the disk is unknown.
        """
        answer: Future[Answer] = Future()
        self._waiting.put(_Write(kinds, keys, values, answer))
        return answer

    def close(self) -> None:
        """Write what waits, and release the folder."""
        self._waiting.put(None)
        self._writer.join()
        self._file.close()

    def _write_all(self) -> None:
        """Run the thread: write group after group, until a group with None, the last."""
        ends = False
        while not ends:
            group = [self._waiting.get()]
            while self._group_commit:
                try:
                    group.append(self._waiting.get_nowait())
                except Empty:
                    break
            ends = None in group
            # A client that has gone before its write was taken has cancelled it.
            taken = [
                write
                for write in group
                if write is not None and write.answer.set_running_or_notify_cancel()
            ]
            for write, answer in zip(taken, self._committed(taken), strict=True):
                write.answer.set_result(answer)

    def _committed(self, group: Sequence[_Write]) -> list[Answer]:
        try:
            if not self._failed:
                return self._commit(group)
        except Exception:  # any error: callers wait for an answer
            self._failed = True
            logging.getLogger(__name__).exception("the disk failed: nothing more is written")
        return [(bytes([INTERNAL]) * len(write.kinds), []) for write in group]

    def _commit(self, group: Sequence[_Write]) -> list[Answer]:
        ahead, changed = self._ahead, dict[bytes, bytes | None]()
        answers = []
        for kinds, keys, values, _ in group:
            statuses, values_read = ahead.apply_columns(kinds, keys, values)
            answers.append((statuses, values_read))
            for kind, key, status in zip(kinds, keys, statuses, strict=True):
                if status == OK and kind != RETRIEVE:
                    changed[key] = ahead._values.get(key)
        if not changed:
            return answers
        self._disk.work(CREATE)
        kept = [(key, value) for key, value in changed.items() if value is not None]
        gone = [key for key, value in changed.items() if value is None]
        with self._file as file:  # one transaction, one fsync
            file.executemany("insert or replace into entries values (?, ?)", kept)
            file.executemany("delete from entries where key = ?", ((key,) for key in gone))
        self.memory._values.update(kept)
        for key in gone:
            self.memory._values.pop(key, None)
        return answers


def open_file(folder: Path) -> sqlite3.Connection:
    """Open the file in this folder, made if needed, checked, and locked against other servers.

    Raises `OSError` naming the folder and what to do.
    """
    file = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"the folder {folder} cannot be made ({error.strerror}): choose another"
        ) from None
    log = folder / f"{FILE_NAME}-wal"
    if place := damage(log):
        raise OSError(
            f"{log} is damaged {place}: the acknowledged writes after it would be lost. Put a copy"
            " of the folder back; or move this file away, to go on without the writes in it"
        )
    connection = None
    try:
        connection = sqlite3.connect(file, timeout=0, check_same_thread=False)
        for setting in (
            "locking_mode = exclusive",  # held until this process ends in any way
            "journal_mode = wal",
            "synchronous = full",
            "fullfsync = on",  # macOS: fsync alone leaves data in the drive's own memory
        ):
            connection.execute(f"pragma {setting}")
        connection.execute(
            "create table if not exists entries"
            " (key blob primary key, value blob not null) without rowid"
        )
        (verdict,) = connection.execute("pragma quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise OSError(_why(error, folder, file)) from None
    return connection


def _why(error: sqlite3.Error, folder: Path, file: Path) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_BUSY"):
        return f"another server has its data in {folder}: give each server its own folder"
    if isinstance(error, sqlite3.OperationalError):
        return f"{file} cannot be opened and written ({error}): choose another folder"
    return f"{file} is damaged ({error}): move it away, or choose another folder"


class DurableService(AsyncKeyValueService):
    """The event loop serves other calls while the thread of the store writes.

    Raises `OSError` when the folder cannot be used.
    """

    def __init__(self, settings: ServerSettings, counts: Counts) -> None:
        super().__init__(settings, counts)
        self._durable = DurableStore(settings)
        self._store = self._durable.memory
        self._group_commit = settings.group_commit

    def _at_once(self) -> bool:
        return False

    async def close(self) -> None:
        """Write what waits, and release the folder."""
        await asyncio.to_thread(self._durable.close)

    async def _apply(
        self, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        if kind == RETRIEVE:
            return await super()._apply(kind, key, value, clock)
        held = self._locks.through_disk
        async with self._locks.holding(kind, key) if held else FREE:
            clock.locked()
            statuses, _ = await self._written(bytes([kind]), [key], _carried(kind, value))
            clock.worked()
        return statuses[0], b""

    async def _apply_all(self, request: Batch, clock: StationClock) -> Answer:
        """Write the operations of a request together with `group_commit`, else one by one."""
        if not self._group_commit or only_reads(request.kinds):
            return await super()._apply_all(request, clock)
        clock.begin()
        answer = await self._written(request.kinds, request.keys, request.values)
        clock.worked()
        return answer

    async def _written(
        self, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> Answer:
        return await asyncio.wrap_future(self._durable.write(kinds, keys, values))


def only_reads(kinds: bytes) -> bool:
    """Return whether a batch only reads: then memory answers it."""
    return kinds.count(RETRIEVE) == len(kinds)


def _carried(kind: int, value: bytes) -> list[bytes]:
    return [value] if kind in CARRY_VALUE else []


# Find damage in SQLite's write-ahead log, which SQLite itself passes over in silence.
#
# SQLite ignores the log from the first frame with a wrong checksum on: after a crash, the rest was
# never acknowledged. After damage in the middle it was: whole transactions follow the wrong frame.
#
# The format: https://www.sqlite.org/fileformat2.html, section 4, "The Write-Ahead Log".


_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682


def damage(path: Path) -> str:
    """Return where the log is damaged, in words; empty if it is not, or if there is none.

    A transaction is written after the one before it is on the disk. So a wrong frame with another
    transaction after it is damage. In the last transaction it looks like a crash that came while
    this one was written, and nothing is said.
    """
    try:
        log = path.read_bytes()
    except FileNotFoundError:
        return ""
    if len(log) <= _HEADER.size:
        return ""
    magic, _, page_bytes, _, salt_1, salt_2, *stated = _HEADER.unpack_from(log)
    order = ">" if magic & 1 else "<"
    checksum = _checksum(log[:24], (0, 0), order)
    if magic & ~1 != _MAGIC or checksum != tuple(stated):
        return "in its header"
    size = _FRAME.size + page_bytes
    wrong = commits_after = 0
    own_commits = 1  # those after a wrong frame that belong to its own transaction
    for number, at in enumerate(range(_HEADER.size, len(log) - size + 1, size), 1):
        _, commit, first, second, *stated = _FRAME.unpack_from(log, at)
        is_current = (first, second) == (salt_1, salt_2)  # not left of an earlier log
        if not wrong:
            if is_current:
                checksum = _checksum(log[at : at + 8], checksum, order)
                checksum = _checksum(log[at + _FRAME.size : at + size], checksum, order)
            if not is_current or checksum != tuple(stated):
                wrong, own_commits = number, int(not (is_current and commit))
        elif is_current and commit:
            commits_after += 1
    if commits_after <= own_commits:
        return ""
    return f"at frame {wrong}, with {commits_after:,} commit{'s'[: commits_after > 1]} after it"


def _checksum(data: bytes, start: tuple[int, int], order: str) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    low, high = start
    for even, odd in zip(words[::2], words[1::2], strict=True):
        low = (low + even + high) & 0xFFFFFFFF
        high = (high + odd + low) & 0xFFFFFFFF
    return low, high
