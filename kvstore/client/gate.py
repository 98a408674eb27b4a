"""The gate before which generators wait, so that none sends before all of them can.

A single one waits as well: its parent hears in the same way that it is ready, and ends it.

They count their time from its opening, by one clock: `time.perf_counter` is the same for all
processes of a machine, on Linux, macOS and Windows (as Python's documentation says of it, and
whoever opens the gate checks).
"""

import json
import os
import threading
import time

OPENS_IN_S = 0.05
"""Seconds between the word that opens the gate and its opening: all have heard it by then."""
INTERRUPTED = 130
"""Exit status of a process that Ctrl-C has ended, as shells have it."""
READY = "ready_s"
"""What a generator tells: its clock when it was ready."""


class Gate:
    """A generator's side of the gate."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._opens_s = 0.0
        self.closed = False
        """Whether the parent has asked for an end."""
        self.inside = False
        """Whether whoever looks on at the run also looks at `closed`."""

    def hear(self, word: str) -> None:
        """Take note of what the parent says; anything else than "open" is not for the gate."""
        verb, _, at_s = word.partition(" ")
        if verb == "open":
            self._opens_s = float(at_s)
            self._open.set()

    def stop(self) -> None:
        """The parent asks for an end: let no more through.

        Nothing is interrupted by a signal. In the middle of a call, gRPC may then wait for ever
        when its channel is closed; and at the end of a run all that it recorded may be lost. A
        process in which no run has begun has nothing to save and ends here.
        """
        self.closed = True
        if not self.inside:
            os._exit(INTERRUPTED)

    def wait(self) -> float:
        """Say that all is ready, wait until the gate opens or closes, and return when that was."""
        print(json.dumps({READY: time.perf_counter()}), flush=True)
        while not self._open.wait(0.05):
            if self.closed:
                return time.perf_counter()
        delay_s = self._opens_s - time.perf_counter()
        if delay_s > 0:
            time.sleep(delay_s)
        return self._opens_s


def opening(in_s: float = OPENS_IN_S) -> tuple[str, float]:
    """The parent's side: the word that opens the gate in so many seconds, and when it will."""
    opens_s = time.perf_counter() + in_s
    return f"open {opens_s!r}", opens_s
