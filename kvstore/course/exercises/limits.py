"""What an answer may use while it is judged: memory, files and processes. All of it ends with it.

A child calls `confine` before the answer. Its parent, the judge, called `adopt_orphans` at its
start, looks at `excess` now and then, and calls `end_family` at the end. Where a system lacks a
limit, the others hold.
"""

import ctypes
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MEMORY_BYTES: Final = 2 << 30
"""An answer may use so much memory, its threads' stacks and its own processes included."""
FILE_BYTES: Final = 64 << 20
"""A file that an answer writes may have so many bytes."""
PROCESSES: Final = 32
"""An answer may have so many processes of its own at a time."""
END_S: Final = 5.0
"""The longest that killed processes may take to be gone."""
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


def confine(folder: Path) -> None:
    """Limit this process, and let it write its files in this folder, which is then deleted."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    os.chdir(folder)
    tempfile.tempdir = str(folder)
    if resource is not None:
        limits = {
            resource.RLIMIT_DATA: MEMORY_BYTES,
            resource.RLIMIT_FSIZE: FILE_BYTES,
            resource.RLIMIT_CORE: 0,
        }
        for kind, most in limits.items():
            hard = resource.getrlimit(kind)[1]
            if hard == resource.RLIM_INFINITY or most <= hard:
                resource.setrlimit(kind, (most, most))


def adopt_orphans() -> None:
    """Become the parent of each process whose own parent ends, if it comes from this one."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def excess() -> str:
    """Return what this process' descendants have too much of, as a sentence; "" for nothing."""
    judge = psutil.Process()
    family, shared = judge.children(recursive=True), judge.memory_info().rss
    if len(family) > 1 + PROCESSES:
        return f"your answer had more than {PROCESSES} processes of its own: make fewer."
    used = 0
    for each in family:
        try:
            used += max(0, each.memory_info().rss - shared)
        except psutil.Error:
            pass  # it has ended meanwhile
    if used > MEMORY_BYTES:
        return f"your answer used more than {MEMORY_BYTES >> 30} GB of memory: keep less at a time."
    return ""


def end_family(leader: int) -> None:
    """Kill the group of this process, and all other descendants of this one; wait for them."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    until_s = time.monotonic() + END_S
    while family := psutil.Process().children(recursive=True):
        for each in family:
            try:
                each.kill()
            except psutil.Error:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if time.monotonic() > until_s:
            return
        time.sleep(0.002)


def _prctl(option: int, value: int) -> None:
    """Call Linux's `prctl`; do nothing on other systems."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
