"""Trying again: what was refused is asked for once more, after a pause that grows and varies.

Each attempt is a call of the run, recorded as any other; what became of the operations is kept
beside it. Full jitter: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog
(2015). The budget is that of gRPC's own retries (gRFC A6, "retryThrottling").
"""

import asyncio
import math
import random
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from kvstore.client.client import Client
from kvstore.client.schedule import Schedule
from kvstore.client.workload import Operation

RETRIED = ("RESOURCE_EXHAUSTED", "UNAVAILABLE")
"""Statuses after which the operation was surely not begun, or it does no harm to ask again.
Not DEADLINE_EXCEEDED: the server may have done it, and an answer may be all that was lost."""


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """How long to wait before an attempt. Raises `ValueError` for a time that makes no sense."""

    first_s: float = 0.020
    """Longest pause before the second attempt; it doubles with each. 0: at once, every time."""
    most_s: float = 1.0
    """No pause is longer."""
    jitter: bool = True
    """Draw the pause evenly between nothing and the longest, so that callers come apart."""
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
        """Seconds between the failure of this number, from 1, and the next attempt."""
        longest_s = min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 1_000))
        return rng.uniform(0.0, longest_s) if self.jitter else longest_s


class Budget:
    """How much trying again a client may do in all, whatever each of its callers would like.

    A failure costs a token, an answer earns `ratio` of one, and no attempt is made again
    while half of the tokens or fewer are left. So a server that fails for long is asked at
    most 1 + `ratio` times as often as one that does not.
    """

    def __init__(self, tokens: float, ratio: float = 0.1) -> None:
        if not 0 < tokens < math.inf or not ratio >= 0:
            raise ValueError(
                f"tokens must be above 0 and finite, ratio 0 or more, got {tokens} and {ratio}"
            )
        self._most = self._left = float(tokens)
        self._ratio = ratio

    def refill(self) -> None:
        """Begin anew, with all the tokens."""
        self._left = self._most

    def allows(self, failed: bool) -> bool:
        """Take note of an attempt; whether another may be made after it."""
        change = -1.0 if failed else self._ratio
        self._left = min(self._most, max(0.0, self._left + change))
        return self._left > self._most / 2


class Tried(NamedTuple):
    """What became of one operation."""

    attempts: int
    status: str
    """That of its last attempt; CANCELLED when the run ended before."""
    took_s: float
    """Seconds from its first attempt to its end, pauses and all."""


class Retrying:
    """A strategy: `tasks`, each of which asks again for what was refused.

    After a run `operations` has one entry for each operation; their attempts add up to the
    calls of the run. Another run with the same object begins anew.
    """

    __name__ = "retrying"

    def __init__(self, backoff: Backoff, budget: Budget | None = None, *, seed: int = 1) -> None:
        self.operations: list[Tried] = []
        self._backoff = backoff
        self._budget = budget
        self._seed = seed
        self._rng = random.Random(seed)

    @property
    def ends(self) -> Counter[str]:
        """How many operations ended with which status."""
        return Counter(tried.status for tried in self.operations)

    def __call__(self, client: Client, schedule: Schedule, in_flight: int) -> None:
        """Run `in_flight` tasks; each ends its operation, one way or another, before the next."""
        self.operations = []
        self._rng = random.Random(self._seed)
        if self._budget is not None:
            self._budget.refill()

        async def one_task() -> None:
            for operation in schedule:
                await self._until_it_ends(client, operation)

        async def all_tasks() -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(in_flight):
                    group.create_task(one_task())

        client.run_async(all_tasks)

    async def _until_it_ends(self, client: Client, operation: Operation) -> None:
        attempts, status, began_s = 0, "CANCELLED", client.now_s()
        try:
            while True:
                attempts += 1
                answer = await client.acall(operation)
                if not self._again(answer.status, attempts):
                    status = answer.status
                    return
                await asyncio.sleep(self._backoff.wait_s(attempts, self._rng))
        finally:
            self.operations.append(Tried(attempts, status, client.now_s() - began_s))

    def _again(self, status: str, attempts: int) -> bool:
        failed = status in RETRIED
        allowed = self._budget is None or self._budget.allows(failed)
        return failed and allowed and attempts < self._backoff.attempts
