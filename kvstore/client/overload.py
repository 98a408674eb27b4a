"""What a client does when a server is too slow: an adaptive limit, and retries after a pause.

Additive increase, multiplicative decrease (D.-M. Chiu and R. Jain, 1989), and the signal of TCP
Vegas (L. Brakmo and L. Peterson, 1995): not a loss, but the number of calls that queue. It follows
from Little's law. A call that does not queue takes the shortest time seen. So of `limit` calls in
flight, limit * shortest / typical are in service, and the others queue.
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import grpc

TOLERATED = 2.0
"""Calls that may queue while the limit grows."""


class Limiter:
    """The limit on the calls in flight; it adapts to each reply.

    The limit grows by one while no more than `TOLERATED` calls queue. It falls by a quarter when
    more calls queue, or when the server refuses one. A decision needs as many replies as the limit,
    all to calls sent under it: earlier calls belong to another limit. TCP Vegas has the same
    weakness: when the server itself becomes slower, the shortest time seen stays too short.
    """

    def __init__(self, most: int) -> None:
        self.limit = 1
        self.history: list[tuple[float, int]] = [(0.0, 1)]
        """Seconds from the start of the run, and the limit from then on."""
        self._most = most
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
        fewer = refused or self._waiting() > TOLERATED
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


# ---- retrying -----------------------------------------------------------------------------------
# Retries: a refused operation is sent again, after a random pause that grows.
#
# Each attempt is a call of the run, recorded as any other; the attempts of each operation are
# recorded besides. Full jitter: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture
# Blog (2015). The budget is that of gRPC's own retries (gRFC A6, "retryThrottling").


RETRIED = ("RESOURCE_EXHAUSTED", "UNAVAILABLE")
"""Statuses after which a retry is safe, because the operation was not executed.
Not DEADLINE_EXCEEDED: the server may have executed it, and only the reply was lost."""


Pause = Callable[[int, float, float, Callable[[], float]], float]
"""A function `(failures, first_s, most_s, draw)` that returns the seconds until the next attempt.
`failures` counts from 1; `draw()` returns a random number from 0 to 1."""


def in_step(failures: int, first_s: float, most_s: float, draw: Callable[[], float]) -> float:
    """Return a pause that doubles with each failure, up to `most_s`: the same for all callers."""
    return min(most_s, first_s * 2.0 ** (failures - 1))


def full_jitter(failures: int, first_s: float, most_s: float, draw: Callable[[], float]) -> float:
    """Return any part of the pause that doubles, so that callers do not retry together."""
    return draw() * min(most_s, first_s * 2.0 ** (failures - 1))


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """How long to wait before a retry. Raises `ValueError` for a time that makes no sense."""

    first_s: float = 0.020
    """Longest pause before the second attempt; it doubles with each attempt. 0: no pause."""
    most_s: float = 1.0
    """No pause is longer."""
    pause_s: Pause = full_jitter
    """Chooses each pause."""
    attempts: int = 1_000
    """Attempts of one operation after which it has failed."""

    def __post_init__(self) -> None:
        if not 0 <= self.first_s <= self.most_s < math.inf:
            raise ValueError(
                f"first_s must be from 0 to most_s, got {self.first_s} and {self.most_s}"
            )
        if self.attempts != int(self.attempts) or not self.attempts >= 1:
            raise ValueError(f"attempts must be a whole number of 1 or more, got {self.attempts}")

    def wait_s(self, failures: int, rng: random.Random) -> float:
        """Return the seconds between failure number `failures`, from 1, and the next attempt."""
        return self.pause_s(min(failures, 1_000), self.first_s, self.most_s, rng.random)


class Budget:
    """A retry budget: a limit on the retries of all callers of a client together.

    A failure costs a token, an answer earns `ratio` of a token, and nothing is retried while half
    of the tokens or fewer are left. So a server that fails for long gets at most 1 + `ratio` times
    as many calls as one that does not fail.
    """

    def __init__(self, tokens: float, ratio: float = 0.1) -> None:
        if not 0 < tokens < math.inf or not ratio >= 0:
            raise ValueError(
                f"tokens must be above 0 and finite, ratio 0 or more, got {tokens} and {ratio}"
            )
        self._most = self._left = float(tokens)
        self._ratio = ratio

    def refill(self) -> None:
        """Start again with all tokens."""
        self._left = self._most

    def allows(self, failed: bool) -> bool:
        """Count an attempt; return whether a retry is allowed after it."""
        change = -1.0 if failed else self._ratio
        self._left = min(self._most, max(0.0, self._left + change))
        return self._left > self._most / 2


class Attempts(NamedTuple):
    """The attempts of one operation, and how it ended."""

    attempts: int
    status: str
    """The status of the last attempt; CANCELLED when the run ended before."""
    took_s: float
    """Seconds from its first attempt to its end, pauses and all."""


class Retrying:
    """A strategy: `tasks`, each of which asks again for what was refused.

    After a run `operations` has one entry for each operation; their attempts add up to the
    calls of the run. Another run with the same object starts again.
    """

    __name__ = "retrying"

    def __init__(self, backoff: Backoff, budget: Budget | None = None, *, seed: int = 1) -> None:
        self.operations: list[Attempts] = []
        self._backoff = backoff
        self._budget = budget
        self._seed = seed
        self._rng = random.Random(seed)

    @property
    def ends(self) -> Counter[str]:
        """The number of operations by their last status."""
        return Counter(each.status for each in self.operations)

    async def __call__(self, stub: Any, operations: AsyncIterator[Any], in_flight: int) -> None:
        """Run `in_flight` tasks; each ends its operation before the next one."""
        self.operations = []
        self._rng = random.Random(self._seed)
        if self._budget is not None:
            self._budget.refill()

        async def caller() -> None:
            async for operation in operations:
                await self._until_it_ends(stub, operation)

        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(caller())

    async def _until_it_ends(self, stub: Any, operation: Any) -> None:
        attempts, status, began_s = 0, "CANCELLED", time.perf_counter()
        try:
            while True:
                attempts += 1
                answered = await _attempt(stub, operation)
                if not self._again(answered, attempts):
                    status = answered
                    return
                await asyncio.sleep(self._backoff.wait_s(attempts, self._rng))
        finally:
            self.operations.append(Attempts(attempts, status, time.perf_counter() - began_s))

    def _again(self, status: str, attempts: int) -> bool:
        failed = status in RETRIED
        allowed = self._budget is None or self._budget.allows(failed)
        return failed and allowed and attempts < self._backoff.attempts


async def _attempt(stub: Any, operation: Any) -> str:
    """Make the call; return the name of its status."""
    try:
        await operation.rpc(stub)(operation.request)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"
