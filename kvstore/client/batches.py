"""Where batches come from: drawn ahead where that can be, and ready to be sent."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, cycle, pairwise

from kvstore.client.batch import Batch, batch_of
from kvstore.client.requests import columns
from kvstore.client.workload import Operation, Operations
from kvstore.codes import RETRIEVE, UPDATE

BLOCK_OPERATIONS = 16 * 1024
"""Operations that are drawn once, for batches to be cut from."""
ENCODED_BYTES = 16 * 1024 * 1024
"""Keys and values of batches that are kept encoded; above it each is encoded when it is sent."""


class Batches:
    """Draws many operations at a time.

    Where every operation asks for keys that were created before the run, and none changes what
    they hold, a block of operations is drawn and cut into batches once, which then come round
    and round: the run has no time to make them, and it is known what each retrieve has to read.
    Updates then write what their key holds already. All other workloads draw one operation
    after the other.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._size = 0
        self._ready: Iterator[Batch] | None = None

    def prepare(self, count: int) -> None:
        """Make batches of this size, unless they are there or there can be none."""
        held = self._operations.held_throughout()
        if held and self._operations.known and count != self._size:
            drawn = [self._operations.draw() for _ in range(max(BLOCK_OPERATIONS, 4 * count))]
            cut = _alone(drawn, held) if count == 1 else _cut(drawn, held, count)
            self._ready, self._size = cycle(cut), count

    def draw(self, count: int, due_s: Sequence[float] = ()) -> Batch:
        """The next `count` operations; without due times they are due as soon as possible."""
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
    """Each operation as a batch of its own; the same one for those that are alike.

    A batch is met again while the processor still has it at hand: one for each of the thousands
    that are drawn, all cold, cost a message a tenth of its processor time.
    """
    asked = [operation[:2] for operation in drawn]
    made: dict[tuple[int, bytes], Batch] = {}
    for kind, key in dict.fromkeys(asked):
        writes, reads = ([held[key]], []) if kind == UPDATE else ([], [held[key]])
        made[kind, key] = Batch(bytes([kind]), [key], writes, written=reads)
    kept = dict(zip(made, _encoded(list(made.values())), strict=True))
    return [kept[each] for each in asked]


def _cut(drawn: Sequence[Operation], held: dict[bytes, bytes], size: int) -> Sequence[Batch]:
    """Retrieves and updates in batches of one size, and what each retrieve has to read."""
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
    return _encoded(cut)


def _encoded(batches: Sequence[Batch]) -> Sequence[Batch]:
    """The same, ready to be sent over and over, unless that would take too much memory."""
    if sum(batch.payload_bytes for batch in batches) > ENCODED_BYTES:
        return batches
    return [replace(batch, encoded=columns(batch)) for batch in batches]
