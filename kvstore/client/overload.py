"""Retries of a refused operation: it is sent again, after a random pause that grows.

Each attempt is a call of the run, recorded as any other; the attempts of each operation are
recorded besides. Full jitter: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture
Blog (2015). The budget is that of gRPC's own retries (gRFC A6, "retryThrottling").
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc

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
