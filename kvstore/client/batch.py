"""Many operations at once, in columns: what one request of a stream carries."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle

from kvstore.client.workload import Operation, Operations
from kvstore.codes import CREATE, OK, RETRIEVE, UPDATE

BLOCK_OPERATIONS = 16 * 1024
"""Operations that are drawn once, for batches to be cut from at random places."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Operations in columns, in the layout of the contract: the first is `kinds[0]` on `keys[0]`.

    A million operations a second leave no time for an object for each of them.
    """

    kinds: bytes
    keys: Sequence[bytes]
    values: Sequence[bytes]
    """One for each create and update, in their order."""
    due_s: float = math.nan
    """When the first of them ought to be sent, in seconds from the start of the run."""
    written: Sequence[bytes] | None = None
    """What each retrieve has to read, in their order; None where nobody can know."""

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys and values together: what the caller wanted moved."""
        return sum(map(len, self.keys)) + sum(map(len, self.values))


def batch_of(operations: Batch | Sequence[Operation]) -> Batch:
    """Operations laid out in columns; a batch is so already."""
    if isinstance(operations, Batch):
        return operations
    return Batch(
        bytes([operation.kind for operation in operations]),
        [operation.key for operation in operations],
        [operation.value for operation in operations if operation.kind in (CREATE, UPDATE)],
        operations[0].due_s if operations else math.nan,
    )


def verify(batch: Batch, statuses: bytes, values: Sequence[bytes]) -> None:
    """Compare what was read with what was written, where that is known.

    Raises `ValueError` naming the first key of which something else was read.
    """
    if batch.written is None:
        return
    answered = [
        status for kind, status in zip(batch.kinds, statuses, strict=True) if kind == RETRIEVE
    ]
    asked = [key for kind, key in zip(batch.kinds, batch.keys, strict=True) if kind == RETRIEVE]
    good = [
        (key, value)
        for key, value, status in zip(asked, batch.written, answered, strict=True)
        if status == OK
    ]
    if len(good) != len(values):
        raise ValueError(f"{len(values)} values for {len(good)} retrieves that succeeded")
    for (key, written), read in zip(good, values, strict=True):
        if read != written:
            raise ValueError(
                f"a retrieve of {key!r:.40} read {read!r:.40}, but {written!r:.40} was written"
            )


class Batches:
    """Draws many operations at a time.

    Where every operation asks for keys that were created before the run, and none changes what
    they hold, a block of operations is drawn once and batches are cut from it at random places:
    the cost of an operation is that of copying a pointer, and it is known what each retrieve
    has to read. Updates then write what their key holds already. Batches of one come in the order
    of the block. All other workloads draw one operation after the other.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._rng = random.Random(operations.workload.seed)
        self._block: _Block | None = None

    def prepare(self, count: int) -> None:
        """Draw the block for batches of this size, unless it is there or there can be none."""
        held = self._operations.held_throughout()
        if not held or not self._operations.known:
            return
        if self._block is None or len(self._block.keys) < 2 * count:
            self._block = _Block(self._operations, held, max(BLOCK_OPERATIONS, 4 * count))
            if count == 1:
                self._block.take_apart()

    def draw(self, count: int, due_s: Sequence[float] = ()) -> Batch:
        """The next `count` operations; without due times they are due as soon as possible."""
        self.prepare(count)
        block = self._block
        if block is None:
            each_s = due_s or [math.nan] * count
            return batch_of([self._operations.draw(due) for due in each_s])
        if count == 1 and block.alone is not None and not due_s:
            return next(block.alone)
        first = int(self._rng.random() * (len(block.keys) - count))
        last = first + count
        updates_before, updates_until = block.updates[first], block.updates[last]
        return Batch(
            block.kinds[first:last],
            block.keys[first:last],
            block.values[updates_before:updates_until],
            due_s[0] if due_s else math.nan,
            block.written[first - updates_before : last - updates_until],
        )


class _Block:
    """Retrieves and updates in columns, and how many updates there are before each of them."""

    def __init__(self, operations: Operations, held: dict[bytes, bytes], count: int) -> None:
        drawn = [operations.draw() for _ in range(count)]
        self.kinds = bytes(operation.kind for operation in drawn)
        self.keys = [operation.key for operation in drawn]
        self.values = [held[operation.key] for operation in drawn if operation.kind == UPDATE]
        self.written = [held[operation.key] for operation in drawn if operation.kind == RETRIEVE]
        self.updates = list(accumulate((kind == UPDATE for kind in self.kinds), initial=0))
        self.alone: Iterator[Batch] | None = None
        """Each operation as a batch of its own, round and round, once it was taken apart."""

    def take_apart(self) -> None:
        """Make a batch of each operation: where each needs its own message, that is the price."""
        values, written = iter(self.values), iter(self.written)
        self.alone = cycle(
            [
                Batch(bytes([kind]), (key,), (), written=[next(written)])
                if kind == RETRIEVE
                else Batch(bytes([kind]), (key,), (next(values),), written=[])
                for kind, key in zip(self.kinds, self.keys, strict=True)
            ]
        )
