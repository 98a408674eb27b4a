"""The schedule of a run: its operations, when each is due, and when the run ends."""

import asyncio
import itertools
import math
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain, cycle, islice, pairwise, takewhile
from typing import Any

from kvstore.client.messages import Batch, Operation, StreamRequest, batch_of
from kvstore.client.plan import SEEDS_APART, Part
from kvstore.client.workload import MethodCall, MethodOperations, Operations, Workload
from kvstore.protocol import RETRIEVE, UPDATE, shard_of
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

# Batches of operations, drawn and encoded before the run where the workload permits it.


BLOCK_OPERATIONS = 16 * 1024
"""Operations that are drawn once and cut into batches."""
KEPT_BYTES = 16 * 1024 * 1024
"""Limit on the keys and values of batches whose messages are kept; above
it, each message is encoded when it is sent."""


class Batches:
    """Draws many operations at a time.

    Where every operation is on a key that was created before the run, and none changes its value,
    a block of operations is drawn and cut into batches once. These batches are then sent in a
    cycle: encoding them during the run would cost too much. The value that each retrieve has to
    read is known, because an update writes the value that its key has already. All other
    workloads draw one operation after the other.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._size = 0
        self._ready: Iterator[Batch] | None = None

    def prepare(self, count: int) -> None:
        """Make batches of this size, unless there are some or the workload permits none."""
        held = self._operations.held_throughout()
        if held and self._operations.known and count != self._size:
            drawn = [self._operations.draw() for _ in range(max(BLOCK_OPERATIONS, 4 * count))]
            cut = _alone(drawn, held) if count == 1 else _cut(drawn, held, count)
            self._ready, self._size = cycle(cut), count

    def draw(self, count: int, due_s: Sequence[float] = ()) -> Batch:
        """Return the next `count` operations; without due times, each is due at once."""
        if count > self._size:
            self.prepare(count)
        if self._ready is None:
            each_s = due_s or [math.nan] * count
            return batch_of([self._operations.draw(due) for due in each_s])
        batch = next(self._ready)
        if count < batch.count:
            batch = batch.first(count)
        return replace(batch, due_s=due_s[0]) if due_s else batch


def _alone(drawn: Sequence[Operation], held: dict[bytes, bytes]) -> Sequence[Batch]:
    """Return each operation as a batch of its own; equal operations share one batch.

    So a batch is used again while it is in the cache of the processor. With a batch for each of the
    thousands of operations, cache misses took a tenth of the CPU time per message.
    """
    kinds_and_keys = [operation[:2] for operation in drawn]
    batches: dict[tuple[int, bytes], Batch] = {}
    for kind, key in dict.fromkeys(kinds_and_keys):
        writes, reads = ([held[key]], []) if kind == UPDATE else ([], [held[key]])
        batches[kind, key] = Batch(bytes([kind]), [key], writes, written=reads)
    of = dict(zip(batches, _kept(list(batches.values())), strict=True))
    return [of[each] for each in kinds_and_keys]


def _cut(drawn: Sequence[Operation], held: dict[bytes, bytes], size: int) -> Sequence[Batch]:
    """Return retrieves and updates in batches of one size, and what each retrieve has to read."""
    kinds = bytes(operation.kind for operation in drawn)
    keys = [operation.key for operation in drawn]
    values = [held[operation.key] for operation in drawn if operation.kind == UPDATE]
    written = [held[operation.key] for operation in drawn if operation.kind == RETRIEVE]
    updates = list(accumulate((kind == UPDATE for kind in kinds), initial=0))
    cut = [
        Batch(
            kinds[first:last],
            keys[first:last],
            values[updates[first] : updates[last]],
            written=written[first - updates[first] : last - updates[last]],
        )
        for first, last in pairwise(range(0, len(drawn) + 1, size))
    ]
    return _kept(cut)


def _kept(batches: Sequence[Batch]) -> Sequence[Batch]:
    """Return the batches with their messages encoded, unless that takes too much memory."""
    if sum(batch.payload_bytes for batch in batches) > KEPT_BYTES:
        return batches
    return [batch.keep() for batch in batches]


# Operations for several servers, each of which has a shard of the keys.
#
# Each shard has its own `Operations`, which draws keys of that shard only. So a batch for one
# server is drawn in one go, which a million operations per second require. An operation for any
# server is drawn from a random shard.


_SHARD_SEEDS_APART = 64 * SEEDS_APART
"""A larger distance than between the seeds of any two generators."""


class ShardedOperations:
    """Draws operations as `Operations` does, with the keys distributed over `shards` servers.

    Every server gets the same share of the operations. Keys that are created before the run are
    distributed, at least one to each.
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
        self._rng = random.Random(workload.seed)
        self._lock = threading.Lock()

    def stub(self, channel: Any) -> KeyValueServiceStub:
        """Return gRPC's generated stub, on a channel of `grpc` or `grpc.aio`."""
        return KeyValueServiceStub(channel)

    def draw(self, due_s: float = math.nan) -> Operation:
        """Return the next operation, for any of the servers."""
        with self._lock:
            shard = self._rng.choice(self.shards)
        return shard.draw(due_s)

    def preloads(self) -> list[Operation]:
        """Return the creates that have to be executed before the run."""
        return [*chain.from_iterable(each.preloads() for each in self.shards)]

    def held_throughout(self) -> dict[bytes, bytes]:
        """Return the constant value of each preloaded key; empty where values change."""
        return {key: held for each in self.shards for key, held in each.held_throughout().items()}

    def created(self, key: bytes) -> None:
        """Note that a create was answered OK: later operations may use its key."""
        self.shards[shard_of(key, len(self.shards))].created(key)


def _operations_of_shard(
    workload: Workload, part: Part, salt: str, owns: Callable[[bytes], bool] | None
) -> Operations:
    def of_this_shard(key: bytes) -> bool:
        return shard_of(key, part.of) == part.number and (owns is None or owns(key))

    return Operations(part.workload(workload, _SHARD_SEEDS_APART), salt, of_this_shard)


AnyOperations = Operations | ShardedOperations
"""The operations for one server or for several."""


LOOK_EVERY = 50
"""Operations between two calls of the guard: some 3 MB with values of 64 KiB."""

WAIT_S = 0.05
"""Seconds after which a caller that waits for a due time checks whether the run has ended."""


class Schedule(Iterator[Operation | MethodCall]):
    """Yields operations until the duration or the count is reached; threads may share it.

    In a closed loop (no due times), it ends when the clock passes `duration_s`; in an open loop,
    when the next due time does. It also ends when `guard`, which is called regularly, returns True.

    `for` and `async for` yield an operation when it is due: `for` sleeps until then, `async for`
    lets other tasks run. With `joins`, iterator k starts at the k-th of these times.
    """

    def __init__(
        self,
        operations: AnyOperations | MethodOperations,
        *,
        clock: Callable[[], float],
        duration_s: float = math.inf,
        calls: float = math.inf,
        due_times: Iterator[float] | None = None,
        guard: Callable[[], bool] | None = None,
        joins: Sequence[float] = (),
        unsent: dict[int, Batch] | None = None,
    ) -> None:
        """`unsent` receives the batch of each stream request by its id, for the recording."""
        self._operations = operations
        self._batches = [Batches(each) for each in operations.shards]
        self._clock = clock
        self._duration_s = duration_s
        self._calls = calls
        self._due_times = due_times
        self._guard = guard
        self._lock = threading.Lock()
        self._handed_out = 0
        self._free_until = 0.0
        """Up to this number of operations, neither guard nor count has to be checked."""
        self._stopped = False
        """Whether no operation is left."""
        self._held_until_s = 0.0
        self._given_up = False
        """Whether callers that wait for a due time stop waiting: the run ends before its time."""
        self._turn = threading.Lock()
        self._aturn: asyncio.Lock | None = None
        """Callers draw in turn, and the next one draws only when the last operation is due. So only
        one of them waits for a due time."""
        self._joins = joins
        self._callers = itertools.count()
        self._ids = itertools.count(1)
        self._unsent = unsent

    def prepare(self, batch: int) -> None:
        """Draw and encode batches of this size before the run, where the workload permits it."""
        for batches in self._batches:
            batches.prepare(batch)

    def stop(self) -> None:
        """Yield no more operations; calls in flight go on."""
        self._stopped = self._given_up = True

    def hold(self, seconds: float) -> None:
        """Let the callers of a closed loop wait so long before their next operation."""
        self._held_until_s = self._clock() + seconds if seconds else 0.0

    @property
    def stopped(self) -> bool:
        """Whether the schedule has ended."""
        return self._stopped

    # One operation at a time

    def draw(self) -> Operation | MethodCall:
        """Return the next operation, before it is due. Raises `StopIteration` at the end."""
        with self._lock:
            if self._stopped or (self._handed_out >= self._free_until and not self._left(1)):
                self._stopped = True
                raise StopIteration
            if self._due_times is None:
                due_s, now_s = math.nan, self._clock()
            else:
                due_s = now_s = next(self._due_times, math.inf)
            if now_s >= self._duration_s or now_s == math.inf:
                self._stopped = True
                raise StopIteration
            self._handed_out += 1
        return self._operations.draw(due_s)

    def __iter__(self) -> Iterator[Operation | MethodCall]:
        return _Caller(self, self._join_s()) if self._joins else self

    def __next__(self) -> Operation | MethodCall:
        if self._due_times is None:
            self._sleep_until(self._held_until_s)
            return self.draw()
        with self._turn:
            operation = self.draw()
            self._sleep_until(operation.due_s)
            return operation

    def __aiter__(self) -> AsyncIterator[Operation | MethodCall]:
        return _Caller(self, self._join_s())

    def _join_s(self) -> float:
        """Return when the next caller starts."""
        return next(islice(self._joins, next(self._callers), None), 0.0) if self._joins else 0.0

    def _sleep_until(self, at_s: float) -> None:
        """Sleep until this time of the run, or until the run is given up."""
        while at_s and (left_s := at_s - self._clock()) > 0 and not self._given_up:
            time.sleep(min(left_s, WAIT_S))

    async def _wait_until(self, at_s: float) -> None:
        """Wait as `_sleep_until` does, and let other tasks run meanwhile."""
        while (left_s := at_s - self._clock()) > 0 and not self._given_up:
            await asyncio.sleep(min(left_s, WAIT_S))

    async def _adraw(self) -> Operation | MethodCall:
        """Draw as `__next__` does, and let other tasks run. Raises `StopAsyncIteration`."""
        try:
            if self._due_times is None:
                if self._held_until_s:
                    await self._wait_until(self._held_until_s)
                return self.draw()
            if self._aturn is None:
                self._aturn = asyncio.Lock()  # not before: it belongs to the loop of its first use
            async with self._aturn:
                operation = self.draw()
                await self._wait_until(operation.due_s)
                return operation
        except StopIteration:
            raise StopAsyncIteration from None

    # Many at once, in columns

    def stream(self, batch: int = 1, shard: int = 0) -> "StreamSchedule":
        """Return the requests of one stream, each with up to `batch` operations for one server."""
        return StreamSchedule(self, batch, shard)

    def take(self, most: int, shard: int = 0) -> Batch | None:
        """Return up to `most` operations; fewer at the end, and then None.

        All are for one server: number `shard` where there are several.
        """
        with self._lock:
            free = not self._stopped and self._handed_out + most <= self._free_until
            count = most if free else self._left(most)
            due_s: Sequence[float] = ()
            if count and self._due_times is not None:
                in_time = takewhile(lambda due: due < self._duration_s, self._due_times)
                due_s = list(islice(in_time, count))
                self._stopped = len(due_s) < count
                count = len(due_s)
            elif count and self._clock() >= self._duration_s:
                self._stopped, count = True, 0
            self._handed_out += count
            return self._batches[shard].draw(count, due_s) if count else None

    def _request(self, most: int, shard: int) -> StreamRequest | None:
        batch = self.take(most, shard)
        if batch is None:
            return None
        number = next(self._ids)
        if self._unsent is not None:
            self._unsent[number] = batch
        return StreamRequest(number, batch)

    def _left(self, most: int) -> int:
        """Return how many of `most` operations the guard and the count still allow."""
        look = self._guard is not None and -self._handed_out % LOOK_EVERY < most
        if look and self._guard is not None and self._guard():
            self.stop()
        if self._stopped:
            return 0
        count = int(min(most, self._calls - self._handed_out))
        next_look = -(-(self._handed_out + count) // LOOK_EVERY) * LOOK_EVERY
        self._free_until = min(self._calls, next_look if self._guard else math.inf)
        return count


class _Caller(Iterator[Operation | MethodCall], AsyncIterator[Operation | MethodCall]):
    """The operations of one caller, which starts at a given time."""

    def __init__(self, schedule: Schedule, begins_s: float) -> None:
        self._schedule = schedule
        self._begins_s = begins_s

    def __next__(self) -> Operation | MethodCall:
        while self._begins_s and (left_s := self._left_s()):
            time.sleep(left_s)
        return next(self._schedule)

    async def __anext__(self) -> Operation | MethodCall:
        while self._begins_s and (left_s := self._left_s()):
            await asyncio.sleep(left_s)
        return await self._schedule._adraw()

    def _left_s(self) -> float:
        """Return the next seconds that this caller waits until it joins; 0 when it does."""
        left_s = self._begins_s - self._schedule._clock()
        if self._schedule.stopped or left_s <= 0:
            self._begins_s = left_s = 0.0
        return min(WAIT_S, left_s)


class StreamSchedule(AsyncIterator[StreamRequest]):
    """The requests of one stream, each yielded when its first operation is due."""

    def __init__(self, schedule: Schedule, batch: int, shard: int) -> None:
        self._schedule = schedule
        self._batch = batch
        self._shard = shard

    async def __anext__(self) -> StreamRequest:
        request = self._schedule._request(self._batch, self._shard)
        if request is None:
            raise StopAsyncIteration
        if request.batch.due_s > 0:
            await self._schedule._wait_until(request.batch.due_s)
        return request
