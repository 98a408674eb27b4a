"""Operations for several servers, each of which has a shard of the keys.

Each shard has its own `Operations`, which draws keys of that shard only. So a batch for one server
is drawn in one go, which a million operations per second require. An operation for any server is
drawn from a random shard.
"""

import math
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from kvstore.client.fleet.parts import SEEDS_APART, Part
from kvstore.client.messages import Operation
from kvstore.client.workload import Operations, Workload
from kvstore.protocol import shard_of
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

_SHARD_SEEDS_APART = 64 * SEEDS_APART
"""A larger distance than between the seeds of any two generators."""


class ShardedOperations:
    """Draws operations as `Operations` does, with the keys distributed over `shards` servers.

    Every server gets the same share of the operations, unless the workload has a `busiest_share`
    for the first. Keys that are created before the run are distributed, at least one to each. A
    "zipf" workload has the same skew on each server. Raises `ValueError` for a share that is below
    an even share or above 1.
    """

    def __init__(
        self,
        workload: Workload,
        shards: int,
        salt: str = "",
        owns: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.workload = workload
        self.shards = [
            _operations_of_shard(workload, Part(n, shards), salt, owns) for n in range(shards)
        ]
        even = 1 / shards
        self._first = even if workload.busiest_share is None else workload.busiest_share
        if not even <= self._first <= 1:
            raise ValueError(
                f"busiest_share must be from 1/{shards} to 1, got {self._first}: the busiest of"
                f" {shards} servers gets at least an even share"
            )
        self._rng = random.Random(workload.seed)
        self._lock = threading.Lock()

    def stub(self, channel: Any) -> KeyValueServiceStub:
        """Return gRPC's generated stub, on a channel of `grpc` or `grpc.aio`."""
        return KeyValueServiceStub(channel)

    def draw(self, due_s: float = math.nan) -> Operation:
        """Return the next operation, for any of the servers."""
        with self._lock:
            drawn = self._rng.random()
        others = len(self.shards) - 1
        if drawn < self._first or not others:
            return self.shards[0].draw(due_s)
        # Rounding may make the quotient 1, which belongs to no server.
        place = int((drawn - self._first) / (1 - self._first) * others)
        return self.shards[1 + min(place, others - 1)].draw(due_s)

    def preloads(self) -> list[Operation]:
        """Return the creates that have to be executed before the run."""
        return [*chain.from_iterable(each.preloads() for each in self.shards)]

    def held_throughout(self) -> Mapping[bytes, bytes]:
        """Return the constant value of each preloaded key; empty where values change."""
        return {key: held for each in self.shards for key, held in each.held_throughout().items()}

    def created(self, key: bytes) -> None:
        """Note that a create was answered OK: later operations may use its key."""
        self.shards[shard_of(key, len(self.shards))].created(key)


def _operations_of_shard(
    workload: Workload, part: Part, salt: str, owns: Callable[[bytes], bool] | None
) -> Operations:
    preload = max(1, part.count(workload.preload)) if workload.preload else 0
    seed = workload.seed + part.number * _SHARD_SEEDS_APART

    def of_this_shard(key: bytes) -> bool:
        return shard_of(key, part.of) == part.number and (owns is None or owns(key))

    return Operations(replace(workload, seed=seed, preload=preload), salt, of_this_shard)


AnyOperations = Operations | ShardedOperations
"""The operations for one server or for several."""
