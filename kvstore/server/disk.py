"""The simulated disk: it makes whoever asks wait, and costs no processor time."""

import asyncio
import time

from kvstore.codes import RETRIEVE
from kvstore.server.settings import ServerSettings


class Disk:
    """Waits `read_delay_s` for a retrieve and `write_delay_s` for anything else.

    With `stall_s` set it stands still now and then, as a disk does that flushes: who comes
    during a stall waits for its end first. The first begins with the disk.

    It has no queue: any number of operations can be on the disk at once. Where they
    queue is decided by the lock they hold meanwhile.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._read_s = settings.read_delay_s
        self._write_s = settings.write_delay_s
        self._stall_s = settings.stall_s
        self._stall_every_s = settings.stall_every_s
        self._began_s = time.perf_counter()

    @property
    def instant(self) -> bool:
        """Whether no operation waits at all."""
        return self._read_s == 0 and self._write_s == 0 and self._stall_s == 0

    def delay_s(self, kind: int) -> float:
        """Seconds that an operation of this kind spends here."""
        return self._read_s if kind == RETRIEVE else self._write_s

    def stalled_s(self) -> float:
        """Seconds until the stall that is under way is over; 0 when the disk turns."""
        if not self._stall_s:
            return 0.0
        passed_s = (time.perf_counter() - self._began_s) % self._stall_every_s
        return max(0.0, self._stall_s - passed_s)

    def heaviest(self, kinds: bytes) -> int:
        """The kind whose time a batch pays when it is committed as a group: a write's, if any."""
        reads = kinds.count(RETRIEVE)
        return RETRIEVE if reads == len(kinds) else next(kind for kind in kinds if kind != RETRIEVE)

    def work(self, kind: int) -> None:
        """Hold the calling thread for the operation's time."""
        delay_s = self.stalled_s() + self.delay_s(kind)
        if delay_s:
            time.sleep(delay_s)

    async def work_async(self, kind: int) -> None:
        """Hold the calling task for the operation's time."""
        delay_s = self.stalled_s() + self.delay_s(kind)
        if delay_s:
            await asyncio.sleep(delay_s)
