"""Throughput by operations in a message, up to the most that this machine can do.

A message of k operations takes a + b k seconds of CPU time in the bottleneck process, so
X <= k / (a + b k). Two sizes give a and b; the other sizes test them.
"""

from typing import Final, NamedTuple

from kvstore.model import Prediction, batching

ENDS: Final = (1, 1_024)
"""The two sizes that give a and b: far apart, or the noise would be larger than b."""


class Cost(NamedTuple):
    """The CPU time of a message: a once, and b for each operation in it."""

    per_message_s: float
    per_operation_s: float

    def throughput(self, size: int) -> Prediction:
        """Return operations per second in messages of this size: k / (a + b k)."""
        return batching.throughput(size, **self._asdict())
