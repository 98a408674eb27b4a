"""Each generator's part of a run, and the gate at which all parts start at the same time.

The parts add up to the whole run: they divide the operations, calls in flight and due times.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from kvstore.client.workload import Workload
from kvstore.parent import INTERRUPTED
from kvstore.protocol import generator_of

MOST_GENERATORS = 32
"""With more generators, keys of a single byte would not reach every one of them."""
SEEDS_APART = 1_000_003
"""Distance between the seeds of two generators: larger than the seeds that users choose."""


class Part(NamedTuple):
    """Generator `number`, from 0, of `of`. The parts of all generators add up to the whole run."""

    number: int = 0
    of: int = 1

    def count(self, whole: int) -> int:
        """Return this part of a number of calls; parts differ by one at most."""
        return whole // self.of + (self.number < whole % self.of)

    def due_times(self, whole: Iterator[float]) -> Iterator[float]:
        """Return every `of`-th due time, starting with number `number`."""
        return islice(whole, self.number, None, self.of)

    def workload(self, whole: Workload) -> Workload:
        """Return the workload of this part: the same settings, another seed.

        The keys that are created before the run are divided, at least one for each part.
        """
        if self.of == 1:
            return whole
        preload = max(1, self.count(whole.preload)) if whole.preload else 0
        return replace(whole, seed=whole.seed + self.number * SEEDS_APART, preload=preload)

    def owns(self, key: bytes) -> bool:
        """Return whether this generator may use the key: no two generators use the same."""
        return self.of == 1 or generator_of(key, self.of) == self.number

    @classmethod
    def parse(cls, text: str) -> "Part":
        """Return the part for "0/2", "1/2" and so on. Raises `ValueError` for any other text."""
        number, _, of = text.partition("/")
        part = cls(int(number), int(of))
        if not 0 <= part.number < part.of <= MOST_GENERATORS:
            raise ValueError(f"a part is number/of, such as 0/2, got {text!r}")
        return part

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


WHOLE = Part()
"""The only part of a run that one generator makes."""


def parts(processes: int) -> list[Part]:
    """Return the parts of a run of so many processes. Raises `ValueError` for a wrong number."""
    whole = isinstance(processes, int) and not isinstance(processes, bool)
    if not whole or not 1 <= processes <= MOST_GENERATORS:
        raise ValueError(
            f"processes must be a whole number from 1 to {MOST_GENERATORS}, got {processes!r}"
        )
    return [Part(number, processes) for number in range(processes)]


OPENS_IN_S = 0.05
"""Seconds between the message that opens the gate and its opening, so that all have received it."""
READY = "ready_s"
"""Name of a generator's message: the time of its clock when it was ready."""


class Gate:
    """The gate in the process of a generator."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._opens_s = 0.0
        self.closed = False
        """Whether the parent has requested the end."""
        self.inside = False
        """Whether a run has begun, whose monitor checks `closed`."""

    def receive(self, word: str) -> None:
        """Handle a message from the parent; all but "open" are ignored."""
        verb, _, at_s = word.partition(" ")
        if verb == "open":
            self._opens_s = float(at_s)
            self._open.set()

    def stop(self) -> None:
        """Close the gate, because the parent requested the end.

        No signal is used: in the middle of a call, gRPC may then wait for ever when its channel is
        closed, and at the end of a run its records may be lost. A process in which no run has begun
        has nothing to save and ends here.
        """
        self.closed = True
        if not self.inside:
            os._exit(INTERRUPTED)

    def wait(self) -> float:
        """Report that this process is ready, wait for the gate, and return when it opened."""
        print(json.dumps({READY: time.perf_counter()}), flush=True)
        while not self._open.wait(0.05):
            if self.closed:
                return time.perf_counter()
        delay_s = self._opens_s - time.perf_counter()
        if delay_s > 0:
            time.sleep(delay_s)
        return self._opens_s


def opening(in_s: float = OPENS_IN_S) -> tuple[str, float]:
    """Return the message that opens the gate in `in_s` seconds, and the time at which it opens."""
    opens_s = time.perf_counter() + in_s
    return f"open {opens_s!r}", opens_s
