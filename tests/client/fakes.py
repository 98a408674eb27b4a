"""A stub that keeps the promises of gRPC's own, and needs no server."""

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc

ANSWER_S = 0.001
LONGEST_S = 5.0
"""Seconds after which a strategy will not send what an answer waits for."""


class FakeError(grpc.RpcError):
    """A call that was answered with a refusal."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.RESOURCE_EXHAUSTED


class FakeStub:
    """Answers each request after a millisecond; remembers the most it had open at once.

    The first answer waits until `until_open` calls are open, however slow the machine is. A
    request is its operation's number. Of these, `fail_at` cannot be sent at all, and those in
    `refused` are answered with an error.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        *,
        until_open: int = 1,
        fail_at: int = -1,
        refused: Sequence[int] = (),
    ) -> None:
        self._until_open = until_open
        self._pool = pool
        self._lock = threading.Lock()
        self._fail_at = fail_at
        self._refused = refused
        self.open = 0
        self.most_open = 0
        self.answered: list[int] = []

    @property
    def blocking(self) -> "FakeMethod":
        """A method of a stub on a `grpc.Channel`."""
        return FakeMethod(self)

    @property
    def awaited(self) -> Callable[[int], Any]:
        """A method of a stub on a `grpc.aio.Channel`."""

        async def call(request: int) -> None:
            await self.work_on_loop()
            self._answer(request)

        def send(request: int) -> Any:
            self._send(request)
            return call(request)

        return send

    def Pipeline(self) -> "FakeStream":
        return FakeStream(self)

    def work(self) -> None:
        """Take the time of an answer, in a thread."""
        end_s = time.monotonic() + LONGEST_S
        while time.sleep(ANSWER_S) or self.most_open < self._until_open:
            if time.monotonic() > end_s:
                return

    async def work_on_loop(self) -> None:
        """Take the time of an answer, on an event loop."""
        end_s = time.monotonic() + LONGEST_S
        while await asyncio.sleep(ANSWER_S) or self.most_open < self._until_open:
            if time.monotonic() > end_s:
                return

    def _send(self, request: int) -> None:
        if request == self._fail_at:
            raise ValueError("this one cannot be sent")
        with self._lock:
            self.open += 1
            self.most_open = max(self.most_open, self.open)

    def _answer(self, request: int) -> None:
        with self._lock:
            self.open -= 1
            self.answered.append(request)
        if request in self._refused:
            raise FakeError


class FakeMethod:
    """Called, it waits for the answer; `future` does not."""

    def __init__(self, stub: FakeStub) -> None:
        self._stub = stub

    def __call__(self, request: int) -> None:
        self.future(request).result()

    def future(self, request: int) -> "Future[None]":
        self._stub._send(request)

        def answer() -> None:
            self._stub.work()
            self._stub._answer(request)

        return self._stub._pool.submit(answer)


class FakeStream:
    """One open stream; it ends when no more is written and all is answered."""

    def __init__(self, stub: FakeStub) -> None:
        self._stub = stub
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        self._replying: list[asyncio.Task[None]] = []

    async def write(self, request: int) -> None:
        self._stub._send(request)
        self._replying.append(asyncio.create_task(self._reply(request)))

    async def _reply(self, request: int) -> None:
        await self._stub.work_on_loop()
        self._stub._answer(request)
        self._replies.put_nowait(request)

    async def done_writing(self) -> None:
        await asyncio.gather(*self._replying)
        self._replies.put_nowait(grpc.aio.EOF)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (reply := await self._replies.get()) is not grpc.aio.EOF:
            yield reply


class FakeOperation:
    """An operation whose request is its number."""

    def __init__(self, number: int, asynchronous: bool) -> None:
        self.request = number
        self._asynchronous = asynchronous

    def rpc(self, stub: FakeStub) -> Any:
        return stub.awaited if self._asynchronous else stub.blocking


class FakeOperations(Iterator[FakeOperation]):
    """Operations that threads or tasks may take from at once, as they may from a schedule."""

    def __init__(self, count: int, asynchronous: bool) -> None:
        self._numbers = itertools.count()
        self._count = count
        self._asynchronous = asynchronous

    def __next__(self) -> FakeOperation:
        number = next(self._numbers)
        if number >= self._count:
            raise StopIteration
        return FakeOperation(number, self._asynchronous)

    async def __aiter__(self) -> AsyncIterator[FakeOperation]:
        for operation in self:
            yield operation
