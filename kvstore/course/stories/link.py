"""A stream as two verbs, for code that a learner writes: `send` a request, `receive` a reply."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from kvstore.client.channel import connected, target_of
from kvstore.codes import CREATE, OK, RETRIEVE
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

DEADLINE_S = 10.0
"""The whole stream ends after this long, so that no `receive` waits for ever."""


class LinkError(RuntimeError):
    """The link was used in a way that can never end well."""


class Link:
    """One open pipeline of reads: replies come as they finish, in any order.

    It counts how many requests were unanswered at most (`most_open`), and remembers what
    was sent (`sent`).
    """

    def __init__(self, stub: kvstore_pb2_grpc.KeyValueServiceStub, slow: dict[bytes, int]) -> None:
        self._requests: SimpleQueue[pb.PipelineRequest | None] = SimpleQueue()
        self._replies = stub.Pipeline(iter(self._requests.get, None), timeout=DEADLINE_S)
        self._slow = slow
        self._open: set[int] = set()
        self._lock = threading.Lock()
        self.sent: list[tuple[int, bytes]] = []
        self.most_open = 0

    def send(self, number: int, key: bytes) -> None:
        """Ask for the value of a key; `number` comes back with the reply. Does not wait."""
        with self._lock:
            if number in self._open:
                raise LinkError(
                    f"request {number} is still unanswered: give each request a number of its own,"
                    " or nobody can tell the replies apart"
                )
            self._open.add(number)
            self.most_open = max(self.most_open, len(self._open))
            self.sent.append((number, key))
        # A slow key is read several times over, one after the other, in one request.
        times = self._slow.get(key, 1)
        self._requests.put(
            pb.PipelineRequest(id=number, kinds=bytes([RETRIEVE]) * times, keys=[key] * times)
        )

    def receive(self) -> tuple[int, bytes]:
        """Wait for the next reply, whichever it is; return its number and the value."""
        if not self._open:
            raise LinkError(
                "there is nothing to receive: every request that was sent has been answered"
            )
        reply = next(self._replies)
        with self._lock:
            self._open.discard(reply.id)
        return reply.id, reply.values[0] if reply.values else b""

    def close(self) -> None:
        """Send no more."""
        self._requests.put(None)
        self._replies.cancel()


@contextmanager
def linked(
    server: object, values: dict[bytes, bytes], slow: dict[bytes, int] | None = None
) -> Iterator[Link]:
    """A link to a server that holds these values. `slow` keys take so many times as long."""
    with connected(target_of(server)) as (channel, _):
        stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        first = pb.PipelineRequest(
            id=1, kinds=bytes([CREATE]) * len(values), keys=list(values), values=values.values()
        )
        (stored,) = stub.Pipeline(iter([first]), timeout=DEADLINE_S)
        if any(status != OK for status in stored.statuses):
            raise LinkError(f"the server did not store the values: {stored.detail}")
        link = Link(stub, slow or {})
        try:
            yield link
        finally:
            link.close()
