"""Return the memory of a flood to the operating system once the server is idle again.

The C library keeps freed memory for later. After 38,000 calls at once that was 200 MB, for as long
as the server ran.
"""

import ctypes
import time

import psutil

GROWN_BYTES = 32 * 1024 * 1024
"""Growth since the last return from which on memory is returned; less is not worth the pause."""
IDLE = 0.05
"""CPU seconds per second below which a server is idle: a return would delay calls otherwise."""


class IdleMemory:
    """Returns freed memory, in the pauses of the work; `look` is called about once a second."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._kept_bytes = self._process.memory_info().rss
        self._looked_s, self._cpu_s = time.perf_counter(), time.process_time()
        self._return = getattr(_library(), "malloc_trim", None)  # of the GNU C library only

    def look(self) -> bool:
        """Return freed memory if the server is idle and has grown; return whether it did so."""
        now_s, cpu_s = time.perf_counter(), time.process_time()
        busy = cpu_s - self._cpu_s > IDLE * (now_s - self._looked_s)
        self._looked_s, self._cpu_s = now_s, cpu_s
        if busy or self._return is None:
            return False
        if self._process.memory_info().rss - self._kept_bytes < GROWN_BYTES:
            return False
        self._return(0)
        self._kept_bytes = self._process.memory_info().rss
        return True


def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # TypeError: Windows
        return None
