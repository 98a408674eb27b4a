"""Back-pressure on one stream: a limit on what the server holds for a client that does not read.

A request counts from its reading until its reply is written. gRPC reports a reply as written when
HTTP/2 flow control accepted it, so a client that does not read its replies fills this window. The
server then reads no more requests from the stream, and flow control makes the client wait.
"""

import asyncio
from queue import SimpleQueue
from typing import Final

STREAM_REQUESTS: Final = 16_384
"""Limit on the requests of one stream that the server holds."""
STREAM_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one stream at which the server stops reading: requests without an answer, and replies
that are not written yet."""


class _Window:
    """The requests and bytes that the server holds for a stream."""

    def __init__(self) -> None:
        self._requests = 0
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether the next request has to wait; an empty window is never full."""
        return self._requests >= STREAM_REQUESTS or self._bytes >= STREAM_BYTES


class StreamWindow(_Window):
    """The window of a stream that is served by threads.

    Only the thread that reads the stream uses the counts. Other threads send it their changes
    through a queue: with a lock, the threads of a busy pool waited for each other.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changes: SimpleQueue[tuple[int, int] | None] = SimpleQueue()

    def admit(self, request_bytes: int) -> bool:
        """Wait for room and count a request; return False if the stream was closed meanwhile."""
        while self.full or not self._changes.empty():
            change = self._changes.get()
            if change is None:
                return False
            self._requests += change[0]
            self._bytes += change[1]
        self._requests += 1
        self._bytes += request_bytes
        return True

    def answered(self, request_bytes: int, reply_bytes: int) -> None:
        """Count the reply in place of its request."""
        self._changes.put((0, reply_bytes - request_bytes))

    def written(self, reply_bytes: int) -> None:
        """Remove a request whose reply is written."""
        self._changes.put((-1, -reply_bytes))

    def close(self) -> None:
        """End the wait in `admit`: no further reply will be written."""
        self._changes.put(None)


class AsyncStreamWindow(_Window):
    """The window of a stream that is served by an event loop: `room` when it is full, `admit`."""

    def __init__(self) -> None:
        super().__init__()
        self._waits: asyncio.Future[None] | None = None

    async def room(self) -> None:
        """Wait until the window is no longer full; one task at a time."""
        self._waits = asyncio.get_running_loop().create_future()
        await self._waits
        self._waits = None

    def admit(self, request_bytes: int) -> None:
        """Count a request."""
        self._requests += 1
        self._bytes += request_bytes

    def answered(self, request_bytes: int, reply_bytes: int) -> None:
        """Count the reply in place of its request."""
        self._bytes += reply_bytes - request_bytes
        if self._waits:
            self._wake(self._waits)

    def written(self, reply_bytes: int) -> None:
        """Remove a request whose reply is written."""
        self._requests -= 1
        self._bytes -= reply_bytes
        if self._waits:
            self._wake(self._waits)

    def _wake(self, waits: "asyncio.Future[None]") -> None:
        if not self.full and not waits.done():
            waits.set_result(None)
