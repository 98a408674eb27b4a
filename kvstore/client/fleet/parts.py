"""Each generator's part of a run, and the gate at which a run waits for its start.

The parts add up to the whole run: they divide the operations, calls in flight and due times.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, TypeVar

from kvstore.client.method_calls import MethodCalls
from kvstore.client.workload import Workload
from kvstore.protocol import generator_of

MOST_GENERATORS = 32
"""With more generators, keys of a single byte would not reach every one of them."""
SEEDS_APART = 1_000_003
"""Distance between the seeds of two generators: larger than the seeds that users choose."""


AnyWorkload = TypeVar("AnyWorkload", bound=Workload | MethodCalls)


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

    def workload(self, whole: AnyWorkload) -> AnyWorkload:
        """Return the workload of this part: the same settings, another seed.

        The keys that are created before the run are divided, at least one for each part. The calls
        of another service's method are the same for all parts.
        """
        if self.of == 1 or not isinstance(whole, Workload):
            return whole
        preload = max(1, self.count(whole.preload)) if whole.preload else 0
        return replace(whole, seed=whole.seed + self.number * SEEDS_APART, preload=preload)

    def owns(self, key: bytes) -> bool:
        """Return whether this generator may use the key: no two generators use the same."""
        return self.of == 1 or generator_of(key, self.of) == self.number


WHOLE = Part()
"""The only part of a run that one generator makes."""


def parts(generators: int) -> list[Part]:
    """Return the parts of a run of so many generators. Raises `ValueError` for a wrong number."""
    whole = isinstance(generators, int) and not isinstance(generators, bool)
    if not whole or not 1 <= generators <= MOST_GENERATORS:
        raise ValueError(
            f"a fleet has a whole number of workers from 1 to {MOST_GENERATORS}, got {generators!r}"
        )
    return [Part(number, generators) for number in range(generators)]


class Gate:
    """Where a run waits for its start, and where another thread can stop it.

    No signal is used to stop a run: in the middle of a call, gRPC may then wait for ever when its
    channel is closed, and at the end of a run its records may be lost.
    """

    def __init__(self) -> None:
        self.closed = False
        """Whether the run has to stop."""
        self.inside = False
        """Whether a run has begun, whose monitor checks `closed`."""

    def stop(self) -> None:
        """Close the gate: the run sends no further call, and ends in order."""
        self.closed = True

    def wait(self) -> float:
        """Wait until the run may send its first call; return that time of `perf_counter`."""
        return time.perf_counter()
