"""One generator's part of a run that several processes make together."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from kvstore.client.workload import Workload
from kvstore.shards import generator_of

MOST_GENERATORS = 32
"""With more of them, keys of a single byte would not reach every one."""
SEEDS_APART = 1_000_003
"""From one generator's seed to the next one's: seeds that people choose are smaller."""


class Part(NamedTuple):
    """Generator `number`, from 0, of `of`. The parts of all generators add up to the whole run."""

    number: int = 0
    of: int = 1

    def count(self, whole: int) -> int:
        """Its share of a number of calls, or of calls in flight; shares differ by one at most."""
        return whole // self.of + (self.number < whole % self.of)

    def due_times(self, whole: Iterator[float]) -> Iterator[float]:
        """Every `of`-th due time, beginning with this generator's first."""
        return islice(whole, self.number, None, self.of)

    def workload(self, whole: Workload) -> Workload:
        """The same operations from another seed, of which every generator knows its own keys.

        The keys that are created before the run are shared out, at least one for each.
        """
        if self.of == 1:
            return whole
        preload = max(1, self.count(whole.preload)) if whole.preload else 0
        return replace(whole, seed=whole.seed + self.number * SEEDS_APART, preload=preload)

    def owns(self, key: bytes) -> bool:
        """Whether this generator may ask for the key: no two ever ask for the same."""
        return self.of == 1 or generator_of(key, self.of) == self.number

    @classmethod
    def parse(cls, text: str) -> "Part":
        """The part that "0/2", "1/2" and so on stand for. Raises `ValueError` for other texts."""
        number, _, of = text.partition("/")
        part = cls(int(number), int(of))
        if not 0 <= part.number < part.of <= MOST_GENERATORS:
            raise ValueError(f"a part is number/of, such as 0/2, got {text!r}")
        return part

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


WHOLE = Part()
"""The part of a run that one generator makes alone."""


def parts(processes: int) -> list[Part]:
    """The parts of a run that so many processes make together. Raises `ValueError`."""
    whole = isinstance(processes, int) and not isinstance(processes, bool)
    if not whole or not 1 <= processes <= MOST_GENERATORS:
        raise ValueError(
            f"processes must be a whole number from 1 to {MOST_GENERATORS}, got {processes!r}"
        )
    return [Part(number, processes) for number in range(processes)]
