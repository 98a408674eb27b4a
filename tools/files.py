"""What `course.py` needs before anything is installed: messages, files, and locks on them."""

from __future__ import annotations  # an old Python gets as far as a message

import contextlib
import os
import sys
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class CannotGoOn(Exception):
    """The learner has to do something first; the message says what."""


def say(text: str) -> None:
    """Print where progress belongs, so that standard output holds results only."""
    print(f"course.py: {text}", file=sys.stderr, flush=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write the file so that it has all of the new content or all of the old, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_bytes(data)
    os.replace(unfinished, path)


@contextlib.contextmanager
def one_at_a_time(lock: Path, doing: str) -> Iterator[None]:
    """Hold the lock; the system releases it when this process ends, whatever ends it."""
    try:
        handle = lock.open("w")
    except PermissionError:  # root made it: a file that can be read can be locked
        handle = lock.open()
    with handle:
        if not locked(handle):
            say(f"another course.py is {doing}; waiting for it")
            while not locked(handle):
                time.sleep(0.2)
        yield


def locked(handle: IO[str]) -> bool:
    """Try to lock an open file; False when another process has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True  # a file system without locks: better to go on than to wait for ever
    return True
