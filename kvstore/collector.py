"""What Python's garbage collector did: collections by generation, and the time they took.

All threads stand still while it works, so its time is part of every call in flight.
"""

import _thread
import gc
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kvstore.lifeline import interrupt_main

KEPT_EVERY_S = 0.05
"""A look back has a row at most this often: with Python's own settings collections are many."""
MOST_KEPT = 20_000
"""Rows of a look back; the oldest are forgotten, so a server that runs for weeks stays small."""
AGAIN_S = 0.02
"""How soon an interrupt that was lost comes again."""


class Collections(NamedTuple):
    """Counts since the watching began, by generation from the youngest, and their seconds."""

    young: int = 0
    middle: int = 0
    full: int = 0
    pause_s: float = 0.0


class Moment(NamedTuple):
    """What had been collected at one time, in seconds since 1970: two processes share it."""

    at_unix_s: float
    collections: Collections


class CollectorWatch:
    """Counts this process's collections while its block lasts."""

    def __init__(self) -> None:
        self._counts = [0, 0, 0]
        self._pause_s = 0.0
        self._began_s = 0.0
        self._kept_s = 0.0
        self._moments: deque[Moment] = deque(maxlen=MOST_KEPT)

    def now(self) -> Collections:
        """What has been collected so far."""
        young, middle, full = self._counts
        return Collections(young, middle, full, self._pause_s)

    def moments(self) -> list[Moment]:
        """How the counts rose, from the oldest row that is kept until now."""
        return [*self._moments, Moment(time.time(), self.now())]

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """Take note of the begin or the end of a collection; `gc` calls this, in any thread."""
        if phase == "start":
            self._began_s = time.perf_counter()
            return
        ended_s = time.perf_counter()
        self._pause_s += ended_s - self._began_s
        self._counts[info["generation"]] += 1
        if ended_s - self._kept_s >= KEPT_EVERY_S:
            self._kept_s = ended_s
            self._moments.append(Moment(time.time(), self.now()))


@contextmanager
def watched_collector() -> Iterator[CollectorWatch]:
    """A `CollectorWatch` that counts for as long as the block lasts."""
    watch = CollectorWatch()
    gc.callbacks.append(watch)
    try:
        with _no_interrupt_lost_in(watch):
            yield watch
    finally:
        gc.callbacks.remove(watch)


def _interrupt_soon() -> None:
    time.sleep(AGAIN_S)
    interrupt_main()


@contextmanager
def _no_interrupt_lost_in(watch: CollectorWatch) -> Iterator[None]:
    """Interrupt once more when Ctrl-C came just as the watch was called.

    Python raises it in the next line it runs, wherever that is, and goes on after an error of a
    watch. While C does the work (a large import), that line is the watch's in one of ten times.
    """
    usual = sys.unraisablehook

    def heard(lost: "sys.UnraisableHookArgs") -> None:
        if lost.object is watch and issubclass(lost.exc_type, KeyboardInterrupt):
            # Later, and with a thread that is not waited for: here it would be lost again.
            _thread.start_new_thread(_interrupt_soon, ())
        else:
            usual(lost)

    sys.unraisablehook = heard
    try:
        yield
    finally:
        if sys.unraisablehook is heard:
            sys.unraisablehook = usual
