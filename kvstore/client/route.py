"""Which connection a call takes, where there are several."""

from collections import deque
from threading import Lock
from typing import Protocol

from kvstore.client.workload import Operation
from kvstore.shards import shard_of


class Route(Protocol):
    """Decides which connection a call takes; threads may ask at once."""

    def take(self, operation: Operation) -> int:
        """The number of the connection for this operation."""

    def give(self, connection: int) -> None:
        """The call that took this connection has ended."""


class EvenShare:
    """Each connection has the same number of slots; a call takes a free one and gives it back.

    With N calls in flight over c connections none ever has more than N / c, rounded up, and in
    a closed loop the next call takes the place of the one that ended: each connection keeps
    N / c in flight, as h2load's clients keep their streams.
    """

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._free: deque[int] = deque()
        self._lock = Lock()

    def take(self, operation: Operation) -> int:
        """The connection of the slot that is free for longest; one more slot on each if none."""
        while True:
            try:
                return self._free.popleft()  # one step of the interpreter: it needs no lock
            except IndexError:
                with self._lock:
                    if not self._free:
                        self._free.extend(range(self._connections))

    def give(self, connection: int) -> None:
        """Free a slot of this connection."""
        self._free.append(connection)


class ByKey:
    """Each server keeps a shard of the keys: a call goes to that one, on a share of its own.

    Connection i leads to server i modulo `shards`, and each server has `connections` of them.
    """

    def __init__(self, shards: int, connections: int) -> None:
        self._shards = shards
        self._shares = [EvenShare(connections) for _ in range(shards)]

    def take(self, operation: Operation) -> int:
        """A connection to the server that keeps the operation's key."""
        shard = shard_of(operation.key, self._shards)
        return self._shares[shard].take(operation) * self._shards + shard

    def give(self, connection: int) -> None:
        """The call that took this connection has ended."""
        self._shares[connection % self._shards].give(connection // self._shards)


def route(shards: int, connections: int) -> Route | None:
    """The route for so many servers and connections to each; none where there is no choice."""
    if shards > 1:
        return ByKey(shards, connections)
    return EvenShare(connections) if connections > 1 else None
