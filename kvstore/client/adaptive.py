"""A limit on the calls in flight that the client finds from the latency of its calls.

Additive increase, multiplicative decrease (D.-M. Chiu and R. Jain, 1989), and the signal of TCP
Vegas (L. Brakmo and L. Peterson, 1995): not a loss, but the number of calls that queue. It follows
from Little's law. A call that does not queue takes the shortest time seen. So of `limit` calls in
flight, limit * shortest / typical are in service, and the others queue.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

import grpc


class Limiter:
    """The limit on the calls in flight; it adapts to each reply.

    The limit grows by one while no more than `tolerated` calls queue. It falls by a quarter when
    more calls queue, or when the server refuses one. A decision needs as many replies as the limit,
    all to calls sent under it: earlier calls belong to another limit. TCP Vegas has the same
    weakness: when the server itself becomes slower, the shortest time seen stays too short.
    """

    def __init__(self, most: int, *, tolerated: float = 2.0) -> None:
        self.limit = 1
        self.history: list[tuple[float, int]] = [(0.0, 1)]
        """Seconds from the start of the run, and the limit from then on."""
        self._most = most
        self._tolerated = tolerated
        self._shortest_s = math.inf
        self._latencies_s: list[float] = []

    def answered(self, sent_s: float, done_s: float, *, refused: bool = False) -> None:
        """Count a call, by its times in the run, and adapt the limit."""
        if sent_s < self.history[-1][0]:
            return
        if not refused:
            self._latencies_s.append(done_s - sent_s)
            if len(self._latencies_s) < self.limit:
                return
        fewer = refused or self._waiting() > self._tolerated
        self.limit = max(1, min(self._most, 3 * self.limit // 4 if fewer else self.limit + 1))
        self.history.append((done_s, self.limit))
        self._latencies_s.clear()

    def _waiting(self) -> float:
        """Return how many of the calls in flight queue, estimated from the latencies."""
        typical_s = median(self._latencies_s)
        self._shortest_s = min(self._shortest_s, typical_s)
        return self.limit * (1 - self._shortest_s / typical_s)

    def settled(self, until_s: float) -> float:
        """Return the mean limit over the second half of a run that lasted `until_s` seconds."""
        half_s, area = until_s / 2, 0.0
        ends_s = [at_s for at_s, _ in self.history[1:]] + [until_s]
        for (begins_s, limit), end_s in zip(self.history, ends_s, strict=True):
            area += limit * max(0.0, min(end_s, until_s) - max(begins_s, half_s))
        return area / (until_s - half_s)


class Adaptive:
    """A strategy: an asyncio task for each call, as many at once as its limiter allows.

    `in_flight` is the highest limit it may choose. After a run, `limiter` has the limits chosen.
    """

    __name__ = "adaptive"

    def __init__(self) -> None:
        self.limiter = Limiter(1)

    async def __call__(self, stub: Any, operations: AsyncIterator[Any], in_flight: int) -> None:
        """Send every operation, each when the limit allows; wait until all calls have ended."""
        self.limiter = limiter = Limiter(in_flight)
        calls: set[asyncio.Task[None]] = set()
        began_s = time.perf_counter()

        async def one_call(operation: Any) -> None:
            sent_s = time.perf_counter() - began_s
            refused = False
            try:
                await operation.rpc(stub)(operation.request)
            except grpc.RpcError as error:
                refused = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            limiter.answered(sent_s, time.perf_counter() - began_s, refused=refused)

        async with asyncio.TaskGroup() as group:
            async for operation in operations:
                calls.add(task := group.create_task(one_call(operation)))
                task.add_done_callback(calls.discard)
                while len(calls) >= limiter.limit:  # only then is the next operation drawn
                    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
