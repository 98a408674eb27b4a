"""The clocks of several processes, which may be on several machines.

A reading of `perf_counter` means nothing in another process. So the driver reads the clock of each
worker several times. In each round trip, the worker's clock was read at an unknown moment between
request and reply. The middle of the shortest round trip is the estimate, and half of that round
trip is the largest error (F. Cristian, Distributed Computing 3, 1989).
"""

import time
from collections.abc import Callable
from typing import NamedTuple

ROUNDS = 10


class Clock(NamedTuple):
    """How far a worker's clock is ahead of the driver's."""

    ahead_s: float
    """The estimated difference, in seconds; a large number for another machine."""
    error_s: float
    """The largest possible error of it: half of the shortest round trip."""

    def there(self, here_s: float) -> float:
        """Return the worker's reading at a time of this process's clock."""
        return here_s + self.ahead_s


def compare(read: Callable[[], float], rounds: int = ROUNDS) -> Clock:
    """Return the difference of another clock, which `read` reads in one round trip."""
    best = Clock(0.0, float("inf"))
    for _ in range(rounds):
        before_s = time.perf_counter()
        there_s = read()
        after_s = time.perf_counter()
        half_s = (after_s - before_s) / 2
        if half_s < best.error_s:
            best = Clock(there_s - before_s - half_s, half_s)
    return best
