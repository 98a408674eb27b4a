"""The clock of a client, and the counts of what it has sent."""

import threading
import time
from collections.abc import Callable


class Sent:
    """Counts calls as they are sent and tells when that was, in seconds since the clock began."""

    def __init__(self, on_start: Callable[[], object] | None = None) -> None:
        self._on_start = on_start
        self._origin_s = time.perf_counter()
        self._started = False
        """Whether the clock was started for good, from outside."""
        self._count = threading.Lock()
        self._by_threads = 0
        """Calls that threads sent; each carries one operation."""
        self._by_loop = 0
        self._operations_by_loop = 0

    @property
    def issued(self) -> int:
        """Calls that were sent."""
        return self._by_threads + self._by_loop

    @property
    def issued_operations(self) -> int:
        """Operations that they carried."""
        return self._by_threads + self._operations_by_loop

    def now_s(self) -> float:
        """Seconds since this was made, connections stood, or `start_clock` said."""
        return time.perf_counter() - self._origin_s

    def start_clock(self, origin_s: float) -> None:
        """Count seconds from this reading of `time.perf_counter`, and never anew."""
        self._origin_s, self._started = origin_s, True

    def sending(self) -> float:
        """Count one call as sent by a thread; return the time."""
        with self._count:  # threads may send at once, and `+=` alone loses one of two
            self._by_threads += 1
        return time.perf_counter() - self._origin_s

    def asending(self, operations: int = 1) -> float:
        """The same on an event loop, with what the call carries; its thread counts alone."""
        self._by_loop += 1
        self._operations_by_loop += operations
        return time.perf_counter() - self._origin_s

    def _begin(self) -> None:
        """All connections stand: unless calls were made already, the clock begins anew."""
        if not self._started and not self.issued:
            self._origin_s = time.perf_counter()
            if self._on_start is not None:
                self._on_start()
