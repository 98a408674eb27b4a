"""The server's own count of operations."""

import threading
from collections import Counter
from collections.abc import Iterable

from kvstore.protocol import KINDS, OK, STATUSES


class Counts:
    """The number of operations answered, by kind and status; safe for several threads.

    It is independent of the client's count, so a wrong count of the client is detected.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, kind: int, status: int) -> None:
        """Count one operation."""
        with self._lock:
            self._counts[kind, status] += 1

    def add_columns(self, kinds: bytes, statuses: bytes | bytearray) -> None:
        """Count the operations of one message."""
        if len(kinds) == 1:
            self.add(kinds[0], statuses[0])
            return
        counted: Iterable[tuple[tuple[int, int], int]]
        if statuses.count(OK) == len(statuses):  # then one count for each kind suffices
            counted = [((kind, OK), kinds.count(kind)) for kind in set(kinds)]
        else:
            counted = Counter(zip(kinds, statuses, strict=True)).items()
        with self._lock:
            for what, count in counted:
                self._counts[what] += count

    def by_name(self) -> dict[str, int]:
        """Return the counts under names such as "create/OK"."""
        with self._lock:
            counts = dict(self._counts)
        return {f"{_kind_name(kind)}/{STATUSES[s]}": n for (kind, s), n in counts.items()}


def _kind_name(kind: int) -> str:
    return KINDS[kind] if 0 < kind < len(KINDS) else f"kind {kind}"
