"""A client that behaves: it keeps the promises of the real one, and needs no server."""

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

ANSWER_S = 0.001


class FakeClient:
    """Answers each request after a millisecond; remembers the most it had open at once."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._idle = threading.Condition()
        self.open = 0
        self.most_open = 0
        self.answered: list[Any] = []
        self.requests: list[int] = []
        self.fail_at = -1
        """The operation, by its place, whose sending raises."""

    def call(self, operation: Any) -> None:
        replied = threading.Event()
        self.start(operation, replied.set)
        replied.wait()

    def start(self, operation: Any, on_reply: Callable[[], object] | None = None) -> None:
        self._opened([operation])
        self._pool.submit(self._answer, [operation], on_reply or (lambda: None))

    def wait_until_idle(self) -> None:
        with self._idle:
            self._idle.wait_for(lambda: not self.open)

    async def acall(self, operation: Any) -> None:
        self._opened([operation])
        await asyncio.sleep(ANSWER_S)
        self._closed([operation])

    def run_async(self, work: Callable[[], Awaitable[None]]) -> None:
        async def working() -> None:
            await work()

        asyncio.run(working())

    def stream(self, on_reply: Callable[[], object]) -> "FakeStream":
        return FakeStream(self, on_reply)

    def _answer(self, operations: Sequence[Any], on_reply: Callable[[], object]) -> None:
        threading.Event().wait(ANSWER_S)
        self._closed(operations)
        on_reply()

    def _opened(self, operations: Sequence[Any]) -> None:
        with self._idle:
            if self.fail_at == sum(self.requests):
                raise ValueError("this one cannot be sent")
            self.requests.append(len(operations))
            self.open += 1
            self.most_open = max(self.most_open, self.open)

    def _closed(self, operations: Sequence[Any]) -> None:
        with self._idle:
            self.open -= 1
            self.answered.extend(operations)
            self._idle.notify_all()


class FakeStream:
    """One open pipeline; leaving it waits for the last reply."""

    shard = 0

    def __init__(self, client: FakeClient, on_reply: Callable[[], object]) -> None:
        self._client = client
        self._on_reply = on_reply

    async def __aenter__(self) -> "FakeStream":
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        return self

    async def send(self, operations: Sequence[Any]) -> None:
        self._client._opened(operations)
        self._group.create_task(self._reply(operations))

    async def _reply(self, operations: Sequence[Any]) -> None:
        await asyncio.sleep(ANSWER_S)
        self._client._closed(operations)
        self._on_reply()

    async def __aexit__(self, *how: Any) -> None:
        await self._group.__aexit__(*how)


class Shared(Iterator[Any]):
    """Items that threads may take from at once, as they may from a schedule."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = iter(items)
        self._lock = threading.Lock()

    def __next__(self) -> Any:
        with self._lock:
            return next(self._items)

    def take(self, most: int, shard: int = 0) -> list[Any]:
        with self._lock:
            return list(itertools.islice(self._items, most))
