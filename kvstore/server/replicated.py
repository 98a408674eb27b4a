"""A service that stores its data on several servers: a write is acknowledged by a quorum."""

import asyncio
import itertools
import logging
from contextlib import nullcontext
from typing import Any, Final

import grpc

from kvstore.protocol import (
    ALREADY_EXISTS,
    CREATE,
    DELETE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    RETRIEVE,
    UNAVAILABLE,
    UPDATE,
    StationClock,
)
from kvstore.server.locking import AsyncKeyLocks
from kvstore.server.proxy import OPTIONS, PATIENCE_S, methods
from kvstore.server.service_async import AsyncKeyValueService
from kvstore.server.settings import ServerSettings
from kvstore.server.status import Counts
from kvstore.v1 import kvstore_pb2 as pb

ANSWERS: Final = frozenset({OK, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS})
"""Statuses of an answer from a store. After any other status, the effect is unknown."""
MOST_BEHIND: Final = 10_000
"""Limit on the writes in flight to one replica: a replica that stalls would fill the memory."""
CATCH_UP_S: Final = 1.0
"""Seconds in which slow replicas may finish their writes when the front stops."""
_FREE: Final[nullcontext[None]] = nullcontext()


class Replica:
    """One of the replicas, with its writes of each key in order."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.lost = False
        """Whether it has missed a write."""
        self._order = AsyncKeyLocks(through_disk=True)
        self._under_way = 0
        channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        self._methods = methods(channel)
        self.close = channel.close

    def lags(self, key: bytes) -> bool:
        """Return whether a write of this key is in flight to it."""
        return self._order.waiting(key)

    async def read(self, key: bytes) -> tuple[int, bytes]:
        """Return status and value, after all writes of the key that were in flight before."""
        async with self._order.holding(CREATE, key) if self.lags(key) else _FREE:
            try:
                reply = await self._methods[RETRIEVE](
                    pb.RetrieveRequest(key=key), timeout=PATIENCE_S
                )
            except grpc.aio.AioRpcError as error:
                return int(error.code().value[0]), b""
            return OK, reply.value

    async def write(self, kind: int, key: bytes, value: bytes) -> int:
        """Send a write after the earlier writes of its key; return its status."""
        if self._under_way >= MOST_BEHIND:
            self._lose(f"it is {MOST_BEHIND:,} writes behind")
            return UNAVAILABLE
        self._under_way += 1
        try:
            async with self._order.holding(kind, key):
                return UNAVAILABLE if self.lost else await self._send(kind, key, value)
        finally:
            self._under_way -= 1

    async def _send(self, kind: int, key: bytes, value: bytes) -> int:
        try:
            await self._methods[kind](_request(kind, key, value), timeout=PATIENCE_S)
        except grpc.aio.AioRpcError as error:
            status = int(error.code().value[0])
            if status not in ANSWERS:
                self._lose(error.details() or error.code().name)
            return status
        return OK

    def _lose(self, why: str) -> None:
        """Exclude the replica, because it has missed a write; log it once."""
        if not self.lost:
            self.lost = True
            logging.getLogger(__name__).warning(
                "the replica at %s missed a write and gets no more calls: %s", self.address, why
            )


class ReplicatedService(AsyncKeyValueService):
    """Sends each write to all replicas and answers when `write_quorum` of them have answered.

    A read goes to one replica, in rotation, and to the next one if that does not answer. It needs
    no quorum: the front knows which replicas lag on this key, and prefers the others.
    """

    def __init__(self, settings: ServerSettings, counts: Counts) -> None:
        super().__init__(settings, counts)
        assert settings.back_end is not None
        assert settings.write_quorum is not None
        self._group_commit = self._at_once = False
        self._replicas = [Replica(address) for address in settings.back_end.split(",")]
        self._quorum = settings.write_quorum
        self._turns = itertools.count()
        self._under_way: set[asyncio.Task[int]] = set()

    async def close(self) -> None:
        """Wait a little for the writes in flight to slow replicas, and close their channels."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CATCH_UP_S)
        for replica in self._replicas:
            await replica.close()

    async def _apply(
        self, kind: int, key: bytes, value: bytes, clock: StationClock
    ) -> tuple[int, bytes]:
        if kind == RETRIEVE:
            answer = await self._read(key)
        elif kind in (CREATE, UPDATE, DELETE):
            answer = await self._write(kind, key, value), b""
        else:
            answer = INVALID_ARGUMENT, b""
        clock.worked()
        return answer

    async def _read(self, key: bytes) -> tuple[int, bytes]:
        first = next(self._turns)
        in_turn = [
            self._replicas[(first + step) % len(self._replicas)]
            for step in range(len(self._replicas))
        ]
        for replica in sorted(in_turn, key=lambda replica: replica.lags(key)):
            if not replica.lost:
                status, found = await replica.read(key)
                if status in ANSWERS:
                    return status, found
        return UNAVAILABLE, b""

    async def _write(self, kind: int, key: bytes, value: bytes) -> int:
        there = [replica for replica in self._replicas if not replica.lost]
        if len(there) < self._quorum:
            return UNAVAILABLE
        # Tasks, because they go on when the caller has its answer, or has gone.
        writes = [asyncio.create_task(replica.write(kind, key, value)) for replica in there]
        for write in writes:
            self._under_way.add(write)
            write.add_done_callback(self._under_way.discard)
        answers = 0
        for write_ended in asyncio.as_completed(writes):
            status = await write_ended
            answers += status in ANSWERS
            if answers == self._quorum:
                return status
        return UNAVAILABLE


def _request(kind: int, key: bytes, value: bytes) -> Any:
    if kind == CREATE:
        return pb.CreateRequest(key=key, value=value)
    if kind == UPDATE:
        return pb.UpdateRequest(key=key, value=value)
    return pb.DeleteRequest(key=key)
