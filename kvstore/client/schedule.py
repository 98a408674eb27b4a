"""When each operation is asked for, and when the asking ends."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile

from kvstore.client.batch import Batch
from kvstore.client.batches import Batches
from kvstore.client.sharding import AnyOperations
from kvstore.client.workload import Operation

LOOK_EVERY = 50
"""Operations between two looks at the guard: with values of 64 KiB some 13 MB."""

NOTHING = Batch(b"", (), ())
"""What a schedule that has ended hands out."""


class Schedule(Iterator[Operation]):
    """Hands out operations until the time or the count is up; threads may share it.

    In a closed loop (no due times) it ends when the clock passes `duration_s`; in an open
    loop when the next due time does; and as soon as `guard`, asked now and then, says so. It
    never waits: whoever sends waits until an operation is due, so a thread can sleep and a
    task can await.
    """

    def __init__(
        self,
        operations: AnyOperations,
        *,
        clock: Callable[[], float],
        duration_s: float = math.inf,
        calls: float = math.inf,
        due_times: Iterator[float] | None = None,
        guard: Callable[[], bool] | None = None,
    ) -> None:
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
        """Up to so many operations nobody has to be asked: neither the guard nor the count."""
        self._stopped = False

    def prepare(self, batch: int) -> None:
        """Draw ahead what can be drawn ahead for batches of this size: the run has no time."""
        for batches in self._batches:
            batches.prepare(batch)

    def stop(self) -> None:
        """Hand out nothing more; what is in flight is not touched."""
        self._stopped = True

    @property
    def stopped(self) -> bool:
        """Whether nothing more is handed out, as far as anybody has asked."""
        return self._stopped

    def __next__(self) -> Operation:
        with self._lock:
            if self._stopped or (self._handed_out >= self._free_until and not self._left(1)):
                self._stopped = True
                raise StopIteration
            if self._due_times is None:
                due_s, now_s = math.nan, self._clock()
            else:
                due_s = now_s = next(self._due_times)
            if now_s >= self._duration_s:
                self._stopped = True
                raise StopIteration
            self._handed_out += 1
        return self._operations.draw(due_s)

    def take(self, most: int, shard: int = 0) -> Batch:
        """Up to `most` operations at once, in columns; fewer at the end, and then none.

        All are for one server; where there are several, `shard` says for which.
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
            return self._batches[shard].draw(count, due_s) if count else NOTHING

    def _left(self, most: int) -> int:
        """How many of `most` operations the guard and the count still allow."""
        look = self._guard is not None and -self._handed_out % LOOK_EVERY < most
        if look and self._guard is not None and self._guard():
            self._stopped = True
        if self._stopped:
            return 0
        count = int(min(most, self._calls - self._handed_out))
        next_look = -(-(self._handed_out + count) // LOOK_EVERY) * LOOK_EVERY
        self._free_until = min(self._calls, next_look if self._guard else math.inf)
        return count
