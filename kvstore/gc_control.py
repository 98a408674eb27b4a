"""Python's garbage collector: keep it from scanning long-lived objects, and record its work.

A program that measures has a large heap that hardly changes (modules, tables, the notebook), and a
full collection scans all of it. `settled` excludes this heap from collections; `watched_collector`
records each collection and its duration.
"""

import _thread
import gc
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kvstore.subprocesses import interrupt_main

YOUNG_OBJECTS = 50_000
"""New objects that start a collection; Python's own setting is 700 to 2,000."""


def settle() -> None:
    """Exclude all current objects from collections, and collect less often, from now on."""
    gc.freeze()  # without a collection before, which takes 0.1 s in a notebook
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


@contextmanager
def settled() -> Iterator[None]:
    """`settle` while the block lasts; restore the collector afterwards."""
    before = gc.get_threshold()
    settle()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


KEPT_EVERY_S = 0.05
"""Smallest distance of two recorded moments: Python's own settings make many collections."""
MOST_KEPT = 20_000
"""Number of recorded moments; the oldest are dropped, so the memory of a server is limited."""
AGAIN_S = 0.02
"""Seconds until a lost interrupt is raised again."""


class Collections(NamedTuple):
    """Number of collections so far, by generation from the youngest, and their duration."""

    young: int = 0
    middle: int = 0
    full: int = 0
    pause_s: float = 0.0


class Moment(NamedTuple):
    """The collections until one time, in seconds since 1970, which all processes share."""

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
        """Return the collections so far."""
        young, middle, full = self._counts
        return Collections(young, middle, full, self._pause_s)

    def moments(self) -> list[Moment]:
        """Return the collections over time, from the oldest recorded moment until now."""
        return [*self._moments, Moment(time.time(), self.now())]

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """Record the start or the end of a collection; `gc` calls this, in any thread."""
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
    """Yield a `CollectorWatch` that counts while the block lasts."""
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
    """Repeat an interrupt that came while the watch was called.

    Python raises `KeyboardInterrupt` in the next line that it runs, and ignores errors of a watch.
    During work in C, such as a large import, this line is one of the watch in 10 % of the cases.
    """
    usual = sys.unraisablehook

    def on_lost(lost: "sys.UnraisableHookArgs") -> None:
        # Python 3.14 names the callback in the message only; the versions before it, as the object.
        ours = lost.object is watch or repr(watch) in (lost.err_msg or "")
        if ours and issubclass(lost.exc_type, KeyboardInterrupt):
            # Later, in a thread that is not joined: here it would be lost again.
            _thread.start_new_thread(_interrupt_soon, ())
        else:
            usual(lost)

    sys.unraisablehook = on_lost
    try:
        yield
    finally:
        if sys.unraisablehook is on_lost:
            sys.unraisablehook = usual
