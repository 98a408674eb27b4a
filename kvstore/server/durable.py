"""A store that survives: every write is on the disk before it is answered.

The file is SQLite's, in WAL mode with synchronous=FULL: a commit is one transaction appended to a
log and one fsync, and whoever opens the file after a crash finds each commit whole or not at
all. That part is older and better tested than anything of ours would be, and comes with Python.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from kvstore.codes import CREATE, INTERNAL, OK, RETRIEVE
from kvstore.server.disk import Disk
from kvstore.server.settings import ServerSettings
from kvstore.server.store import CARRY_VALUE, Store

FILE_NAME = "entries.sqlite"
"""What the file in the folder is called."""

Answer = tuple[bytes, list[bytes]]
"""One status code for each operation, and one value for each retrieve that succeeded."""


class _Write(NamedTuple):
    """Operations that wait for the disk together, in columns, and who waits for their answer."""

    kinds: bytes
    keys: Sequence[bytes]
    values: Iterable[bytes]
    answer: "Future[Answer]"


class DurableStore(Store):
    """Keys and values in memory, and in a file below `data_dir` that one thread writes.

    Readers look at memory, which holds only what is on the disk already: nobody is told of a
    write that a crash could still take back. Writers queue up for the thread. With
    `group_commit` it takes all that wait at once, into one transaction with one fsync: what
    gathers while one group is on its way to the disk is the next one. Otherwise each write has
    a transaction of its own.

    The simulated disk of `settings` is paid before the real one, once for each transaction: it
    makes a fast disk a slow one.

    Raises `OSError` when the folder cannot be used: unwritable, damaged, or another server's.
    """

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__()
        assert settings.data_dir is not None
        self._group_commit = settings.group_commit
        self._disk = Disk(settings)
        self._file = open_file(Path(settings.data_dir))
        self._values.update(self._file.execute("select key, value from entries"))
        self._ahead = Store()  # as it will be once everything that was taken is on the disk
        self._ahead._values.update(self._values)
        self._failed = False
        self._waiting: SimpleQueue[_Write | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="durable", daemon=True)
        self._writer.start()

    def write(
        self, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> "Future[Answer]":
        """Do these operations in their order; the answer comes when the disk has them.

        As `apply_columns` otherwise. When the disk refuses, every status is INTERNAL, and so
        is that of all later writes: nobody can know what such a disk holds.
        """
        answer: Future[Answer] = Future()
        self._waiting.put(_Write(kinds, keys, values, answer))
        return answer

    def apply(self, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
        """As `Store.apply`; a write holds the calling thread until it is on the disk."""
        if kind == RETRIEVE:
            return super().apply(kind, key, value)
        statuses, _ = self.write(
            bytes([kind]), [key], [value] if kind in CARRY_VALUE else []
        ).result()
        return statuses[0], b""

    def apply_columns(
        self, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> tuple[bytes, list[bytes]]:
        """As `Store.apply_columns`; with a write in it, the thread is held until it is kept."""
        if kinds.count(RETRIEVE) == len(kinds):
            return super().apply_columns(kinds, keys, values)
        return self.write(kinds, keys, values).result()

    def close(self) -> None:
        """Write what waits, and leave the folder to whoever comes next."""
        self._waiting.put(None)
        self._writer.join()
        self._file.close()

    def _write_all(self) -> None:
        """The thread: a group, and the next one, until a None says that it was the last."""
        ends = False
        while not ends:
            group = [self._waiting.get()]
            while self._group_commit:
                try:
                    group.append(self._waiting.get_nowait())
                except Empty:
                    break
            ends = None in group
            # A caller who has gone before his write was taken has cancelled it.
            taken = [
                write
                for write in group
                if write is not None and write.answer.set_running_or_notify_cancel()
            ]
            for write, answer in zip(taken, self._committed(taken), strict=True):
                write.answer.set_result(answer)

    def _committed(self, group: Sequence[_Write]) -> list[Answer]:
        """The answers of a group whose changes are on the disk, and now in memory."""
        try:
            if not self._failed:
                return self._commit(group)
        except Exception:  # whatever it was: callers wait for an answer
            self._failed = True
            logging.getLogger(__name__).exception("nothing more is written: the disk refused")
        return [(bytes([INTERNAL]) * len(write.kinds), []) for write in group]

    def _commit(self, group: Sequence[_Write]) -> list[Answer]:
        ahead, changed = self._ahead, dict[bytes, bytes | None]()
        answers = []
        for kinds, keys, values, _ in group:
            statuses, found = ahead.apply_columns(kinds, keys, values)
            answers.append((statuses, found))
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
        self._values.update(kept)
        for key in gone:
            self._values.pop(key, None)
        return answers


def open_file(folder: Path) -> sqlite3.Connection:
    """The file in this folder, made if need be, checked, and locked against other servers.

    Raises `OSError` with words that say which folder it is and what to do.
    """
    file = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"the folder {folder} cannot be made: {error.strerror}") from None
    connection = None
    try:
        connection = sqlite3.connect(file, timeout=0, check_same_thread=False)
        for setting in (
            "locking_mode = exclusive",  # held until this process ends, however it ends
            "journal_mode = wal",
            "synchronous = full",
            "fullfsync = on",  # macOS: fsync alone leaves data in the drive's own memory
        ):
            connection.execute(f"pragma {setting}")
        connection.execute(
            "create table if not exists entries"
            " (key blob primary key, value blob not null) without rowid"
        )
        (found,) = connection.execute("pragma quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise OSError(_why(error, folder, file)) from None
    return connection


def _why(error: sqlite3.Error, folder: Path, file: Path) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_BUSY"):
        return f"another server keeps its data in {folder}: one folder, one server"
    if isinstance(error, sqlite3.OperationalError):
        return f"{file} cannot be opened and written ({error}): choose another folder"
    return f"{file} is damaged ({error}): move it away, or choose another folder"
