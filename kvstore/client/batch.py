"""Many operations at once, in columns: what one request of a stream carries."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kvstore.client.workload import Operation
from kvstore.codes import BATCH, CREATE, OK, RETRIEVE, UPDATE


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

    encoded: bytes | None = field(default=None, compare=False, repr=False)
    """The columns as they go over the wire, where they are kept; see `requests.columns`."""
    count: int = field(init=False, compare=False)
    """How many there are. This and what follows is worked out once: every record tells it."""
    kind: int = field(init=False, compare=False)
    """What a record calls it: the kind of the only one, or BATCH."""
    payload_bytes: int = field(init=False, compare=False)
    """Bytes of keys and values together: what the caller wanted moved."""
    written_bytes: int = field(init=False, compare=False)
    """Bytes that are read when each retrieve reads what was written."""

    def __post_init__(self) -> None:
        count = len(self.kinds)
        told = {
            "count": count,
            "kind": self.kinds[0] if count == 1 else BATCH,
            "payload_bytes": sum(map(len, self.keys)) + sum(map(len, self.values)),
            "written_bytes": sum(map(len, self.written or ())),
        }
        for name, value in told.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return self.count

    def first(self, count: int) -> "Batch":
        """The first `count` of them, of retrieves and updates."""
        updates = self.kinds[:count].count(UPDATE)
        return replace(
            self,
            kinds=self.kinds[:count],
            keys=self.keys[:count],
            values=self.values[:updates],
            written=None if self.written is None else self.written[: count - updates],
            encoded=None,
        )


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
