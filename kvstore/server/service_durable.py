"""The key-value service whose writes are on a real disk before they are answered, on both stacks.

Reads are those of the other services: memory holds all that is on the disk. A write waits for
the store's own thread, which takes writes in the order in which they come: no lock is needed
for that. Where the locking holds one through the disk, it is held here too, and then writes
that it keeps apart never meet in one group.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import nullcontext

from kvstore.codes import RETRIEVE
from kvstore.server.durable import Answer, DurableStore
from kvstore.server.pool import MeasuredPool
from kvstore.server.service import KeyValueService
from kvstore.server.service_async import AsyncKeyValueService
from kvstore.server.settings import ServerSettings
from kvstore.server.status import Counts
from kvstore.server.store import CARRY_VALUE
from kvstore.stations import StationClock
from kvstore.v1 import kvstore_pb2 as pb

_FREE: nullcontext[None] = nullcontext()


class DurableService(KeyValueService):
    """A thread of the pool waits until the write of its call is on the disk.

    Raises `OSError` when the folder cannot be used.
    """

    def __init__(self, settings: ServerSettings, pool: MeasuredPool, counts: Counts) -> None:
        super().__init__(settings, pool, counts)
        self._store = self._durable = DurableStore(settings)
        self.close = self._durable.close

    def _apply(self, kind: int, key: bytes, value: bytes, clock: StationClock) -> tuple[int, bytes]:
        if kind == RETRIEVE:
            return super()._apply(kind, key, value, clock)
        held = self._locks.through_disk
        with self._locks.holding(kind, key) if held else _FREE:
            clock.locked()
            statuses, _ = self._durable.write(bytes([kind]), [key], _carried(kind, value)).result()
            clock.worked()
        return statuses[0], b""

    def _commit(self, request: pb.PipelineRequest, clock: StationClock) -> Answer:
        kinds, keys = request.kinds, list(request.keys)
        if only_reads(kinds):
            return super()._commit(request, clock)
        clock.begin()
        held = self._locks.through_disk
        with self._locks.holding_all(kinds, keys) if held else _FREE:
            clock.locked()
            answer = self._durable.write(kinds, keys, request.values).result()
            clock.worked()
        return answer


class AsyncDurableService(AsyncKeyValueService):
    """The loop goes on with other calls while the store's thread is on the disk.

    Raises `OSError` when the folder cannot be used.
    """

    def __init__(self, settings: ServerSettings, counts: Counts) -> None:
        super().__init__(settings, counts)
        self._store = self._durable = DurableStore(settings)
        self._at_once = False

    async def close(self) -> None:
        """Write what waits, and leave the folder to whoever comes next."""
        await asyncio.to_thread(self._durable.close)

    async def _apply(
        self, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        if kind == RETRIEVE:
            return await super()._apply(kind, key, value, clock)
        held = self._locks.through_disk
        async with self._locks.holding(kind, key) if held else _FREE:
            clock.locked()
            statuses, _ = await self._written(bytes([kind]), [key], _carried(kind, value))
            clock.worked()
        return statuses[0], b""

    async def _commit(self, request: pb.PipelineRequest, clock: StationClock) -> Answer:
        kinds, keys = request.kinds, list(request.keys)
        if only_reads(kinds):
            return await super()._commit(request, clock)
        clock.begin()
        held = self._locks.through_disk
        async with self._locks.holding_all(kinds, keys) if held else _FREE:
            clock.locked()
            answer = await self._written(kinds, keys, request.values)
            clock.worked()
        return answer

    async def _written(
        self, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> Answer:
        return await asyncio.wrap_future(self._durable.write(kinds, keys, values))


def only_reads(kinds: bytes) -> bool:
    """Whether a batch changes nothing: then memory answers it."""
    return kinds.count(RETRIEVE) == len(kinds)


def _carried(kind: int, value: bytes) -> list[bytes]:
    return [value] if kind in CARRY_VALUE else []
