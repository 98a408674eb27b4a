"""The simulated disk: each operation waits, without CPU time."""

import asyncio
import time

from kvstore.protocol import RETRIEVE
from kvstore.server.settings import ServerSettings


class Disk:
    """Waits `read_delay_s` for a retrieve and `write_delay_s` for anything else.

    With `stall_s` it stalls regularly, as a disk does when it flushes: an operation that arrives
    during a stall waits for its end first. The first stall begins when the disk is made.

    The disk has no queue: it serves any number of operations at once. Operations queue for the
    locks that others hold during their disk time.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._read_s = settings.read_delay_s
        self._write_s = settings.write_delay_s
        self._stall_s = settings.stall_s
        self._stall_every_s = settings.stall_every_s
        self._began_s = time.perf_counter()

    @property
    def instant(self) -> bool:
        """Whether no operation ever waits."""
        return self._read_s == 0 and self._write_s == 0 and self._stall_s == 0

    def delay_s(self, kind: int) -> float:
        """Return the disk time of an operation of this kind, in seconds."""
        return self._read_s if kind == RETRIEVE else self._write_s

    def stalled_s(self) -> float:
        """Return the seconds until the current stall ends; 0 without a stall."""
        if not self._stall_s:
            return 0.0
        passed_s = (time.perf_counter() - self._began_s) % self._stall_every_s
        return max(0.0, self._stall_s - passed_s)

    def heaviest(self, kinds: bytes) -> int:
        """Return the kind whose disk time a group commit takes: a write, if there is one."""
        reads = kinds.count(RETRIEVE)
        return RETRIEVE if reads == len(kinds) else next(kind for kind in kinds if kind != RETRIEVE)

    def work(self, kind: int) -> None:
        """Block the calling thread for the disk time."""
        delay_s = self.stalled_s() + self.delay_s(kind)
        if delay_s:
            time.sleep(delay_s)

    async def work_async(self, kind: int) -> None:
        """Suspend the calling task for the disk time."""
        delay_s = self.stalled_s() + self.delay_s(kind)
        if delay_s:
            await asyncio.sleep(delay_s)
