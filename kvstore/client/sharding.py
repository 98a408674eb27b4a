"""Operations for several servers, each of which keeps a shard of the keys.

Each shard has a drawer of its own that makes keys of that shard only, so a batch for one server
is drawn at once and no operation has to be looked at again: a million a second leave no time
for that. An operation for whichever server is drawn from a shard chosen by chance.
"""

import math
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain

from kvstore.client.part import SEEDS_APART, Part
from kvstore.client.workload import Operation, Operations, Workload
from kvstore.shards import shard_of

_SHARD_SEEDS_APART = 64 * SEEDS_APART
"""Further than from one generator's seed to any other's."""


class ShardedOperations:
    """Draws operations as `Operations` does, whose keys are shared out over `shards` servers.

    Every server gets the same share of them, unless the workload has a `busiest_share` for the
    first; keys that are created before the run are shared out, at least one for each. A workload
    that prefers some keys ("zipf") prefers them on each server alike. Raises `ValueError` for a
    share that cannot be the busiest one's.
    """

    def __init__(
        self,
        workload: Workload,
        shards: int,
        salt: str = "",
        owns: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.workload = workload
        self.shards = [_drawer(workload, Part(n, shards), salt, owns) for n in range(shards)]
        even = 1 / shards
        self._first = even if workload.busiest_share is None else workload.busiest_share
        if not even <= self._first <= 1:
            raise ValueError(
                f"busiest_share must be from 1/{shards} to 1, got {self._first}: of {shards}"
                " servers the busiest gets at least its even share"
            )
        self._rng = random.Random(workload.seed)
        self._lock = threading.Lock()

    def draw(self, due_s: float = math.nan) -> Operation:
        """The next operation, for any of the servers."""
        with self._lock:
            drawn = self._rng.random()
        others = len(self.shards) - 1
        if drawn < self._first or not others:
            return self.shards[0].draw(due_s)
        # Rounding may lift the quotient to 1, which no server is for.
        place = int((drawn - self._first) / (1 - self._first) * others)
        return self.shards[1 + min(place, others - 1)].draw(due_s)

    def preloads(self) -> list[Operation]:
        """The creates that have to be done before the run begins."""
        return [*chain.from_iterable(each.preloads() for each in self.shards)]

    def held_throughout(self) -> Mapping[bytes, bytes]:
        """What each preloaded key holds throughout; empty where nobody can know."""
        return {key: held for each in self.shards for key, held in each.held_throughout().items()}

    def created(self, key: bytes) -> None:
        """A create was answered OK: its key may be asked for from now on."""
        self.shards[shard_of(key, len(self.shards))].created(key)


def _drawer(
    workload: Workload, part: Part, salt: str, owns: Callable[[bytes], bool] | None
) -> Operations:
    preload = max(1, part.count(workload.preload)) if workload.preload else 0
    seed = workload.seed + part.number * _SHARD_SEEDS_APART

    def of_this_shard(key: bytes) -> bool:
        return shard_of(key, part.of) == part.number and (owns is None or owns(key))

    return Operations(replace(workload, seed=seed, preload=preload), salt, of_this_shard)


AnyOperations = Operations | ShardedOperations
"""What draws operations: for one server, or for several."""
