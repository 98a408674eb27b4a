"""A limit that nobody has to know: the client finds it from how long its calls take.

Additive increase, multiplicative decrease (D.-M. Chiu and R. Jain, 1989), and the signal of TCP
Vegas (L. Brakmo and L. Peterson, 1995): not a loss, but the calls that are waiting. They follow
from Little's law: a call that waits for nobody takes the shortest time seen, so of `limit` in
flight limit * shortest / typical are being served, and the others wait.
"""

import asyncio
import math
from statistics import median

from kvstore.client.client import Client
from kvstore.client.schedule import Schedule
from kvstore.client.workload import Operation


class Limiter:
    """How many calls may be in flight; it learns from each answer.

    One more while no more than `tolerated` calls wait, a quarter fewer when more do, or when
    the server refuses. It judges when as many calls as the limit were sent *and* answered
    under it: answers to earlier calls tell of another limit. One weakness it shares with its
    model: when the server itself becomes slower, the shortest time seen stays too short.
    """

    def __init__(self, most: int, *, tolerated: float = 2.0) -> None:
        self.limit = 1
        self.history: list[tuple[float, int]] = [(0.0, 1)]
        """Seconds of the run, and the limit from then on."""
        self._most = most
        self._tolerated = tolerated
        self._shortest_s = math.inf
        self._heard_s: list[float] = []

    def answered(self, sent_s: float, done_s: float, *, refused: bool = False) -> None:
        """Take note of a call by its times in the run, and choose the limit anew."""
        if sent_s < self.history[-1][0]:
            return
        if not refused:
            self._heard_s.append(done_s - sent_s)
            if len(self._heard_s) < self.limit:
                return
        fewer = refused or self._waiting() > self._tolerated
        self.limit = max(1, min(self._most, 3 * self.limit // 4 if fewer else self.limit + 1))
        self.history.append((done_s, self.limit))
        self._heard_s.clear()

    def _waiting(self) -> float:
        """How many of the calls in flight wait for others, by how long calls took."""
        typical_s = median(self._heard_s)
        self._shortest_s = min(self._shortest_s, typical_s)
        return self.limit * (1 - self._shortest_s / typical_s)

    def settled(self, until_s: float) -> float:
        """The mean limit over the second half of a run of so many seconds."""
        half_s, area = until_s / 2, 0.0
        ends_s = [at_s for at_s, _ in self.history[1:]] + [until_s]
        for (begins_s, limit), end_s in zip(self.history, ends_s, strict=True):
            area += limit * max(0.0, min(end_s, until_s) - max(begins_s, half_s))
        return area / (until_s - half_s)


class Adaptive:
    """A strategy: an asyncio task for each call, as many at once as its limiter allows.

    `in_flight` is the most it may ever choose. After a run `limiter` tells what it chose.
    """

    __name__ = "adaptive"

    def __init__(self) -> None:
        self.limiter = Limiter(1)

    def __call__(self, client: Client, schedule: Schedule, in_flight: int) -> None:
        """Send whatever is due as long as there is room, and wait for the rest."""
        self.limiter = limiter = Limiter(in_flight)
        calls: set[asyncio.Task[None]] = set()

        async def one_call(operation: Operation) -> None:
            sent_s = client.now_s()
            answer = await client.acall(operation)
            refused = answer.status == "RESOURCE_EXHAUSTED"
            limiter.answered(sent_s, client.now_s(), refused=refused)

        async def all_calls() -> None:
            async with asyncio.TaskGroup() as group:
                for operation in schedule:
                    calls.add(task := group.create_task(one_call(operation)))
                    task.add_done_callback(calls.discard)
                    while len(calls) >= limiter.limit:  # only then is the next one chosen
                        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)

        client.run_async(all_calls)
