"""Batches of operations, drawn and encoded before the run where the workload permits it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, cycle, pairwise

from kvstore.client.messages import Batch, Operation, batch_of
from kvstore.client.workload import Operations
from kvstore.protocol import RETRIEVE, UPDATE

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
    made: dict[tuple[int, bytes], Batch] = {}
    for kind, key in dict.fromkeys(kinds_and_keys):
        writes, reads = ([held[key]], []) if kind == UPDATE else ([], [held[key]])
        made[kind, key] = Batch(bytes([kind]), [key], writes, written=reads)
    of = dict(zip(made, _kept(list(made.values())), strict=True))
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
