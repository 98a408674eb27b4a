"""A learner's stream client, judged by what a real server receives.

The server answers nothing before the window is full, then one request at a time, drawn by chance.
So it sees at each reply whether the window is kept, at any speed of the machine.
"""

import queue
import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from kvstore.protocol import NOT_FOUND, OK, RETRIEVE
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    KeyValueServiceStub,
    add_KeyValueServiceServicer_to_server,
)

PATIENCE_S: Final = 2.0
"""How long the server waits for a request that a right client sends at once."""
SETTLE_S: Final = 0.005
"""How long it waits at each reply for a request that a right client does not send."""
DEADLINE_S: Final = 12.0
"""The whole stream ends after this long."""

_END: Final = None


@dataclass
class Seen:
    """What the server received on one stream."""

    requests: int = 0
    most: int = 0
    """The most requests without a reply at any moment."""
    fewest: int | None = None
    """The fewest that were open when it answered, where the window allowed more; None: never."""
    same_id: int | None = None
    """An id that a second request had while the first one was open."""
    strange: str = ""
    """What was wrong with a request."""
    ended: bool = False
    """Whether the client ended its requests."""
    keys: list[bytes] = field(default_factory=list)


class WindowedStore(KeyValueServiceServicer):
    """Answers reads on one stream, out of order, and keeps account of the window."""

    def __init__(
        self, values: Mapping[bytes, bytes], count: int, window: int, draw: random.Random
    ) -> None:
        self.seen = Seen()
        self._values = values
        self._count = count
        self._window = window
        self._draw = draw

    def Pipeline(
        self, request_iterator: Iterable[pb.PipelineRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.PipelineResponse]:
        """Fill the window, answer one of its requests, and so on until the client ends."""
        arrived: queue.SimpleQueue[pb.PipelineRequest | None] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(request_iterator, arrived), daemon=True).start()
        open_requests: list[pb.PipelineRequest] = []
        answered, patience_s = 0, PATIENCE_S
        while not self.seen.ended or open_requests:
            room = min(self._window, self._count - answered)
            while len(open_requests) < room and not self.seen.ended:
                if not self._take(arrived, open_requests, patience_s):
                    break
            while self._take(arrived, open_requests, SETTLE_S):
                pass
            self.seen.most = max(self.seen.most, len(open_requests))
            if len(open_requests) < room:
                self.seen.fewest = min(self.seen.fewest or room, len(open_requests))
                patience_s = 0.02  # one delay is enough to judge it
            if open_requests:
                request = open_requests.pop(self._draw.randrange(len(open_requests)))
                answered += 1
                yield self._reply(request)
            elif self._take(arrived, open_requests, PATIENCE_S):
                continue
            elif not self.seen.ended:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no request came any more")

    def _take(
        self,
        arrived: "queue.SimpleQueue[pb.PipelineRequest | None]",
        open_requests: list[pb.PipelineRequest],
        patience_s: float,
    ) -> bool:
        """Take one request that has arrived; whether there was one."""
        if self.seen.ended:
            return False
        try:
            request = arrived.get(timeout=patience_s)
        except queue.Empty:
            return False
        if request is _END:
            self.seen.ended = True
            return False
        if request.id in {each.id for each in open_requests}:
            self.seen.same_id = request.id
        if len(request.keys) != 1 or request.kinds != bytes([RETRIEVE]):
            self.seen.strange = (
                f"a request had the kinds {request.kinds!r} and {len(request.keys)} keys: send one"
                " key in each, with `kinds=bytes([OPERATION_KIND_RETRIEVE])`."
            )
        self.seen.requests += 1
        self.seen.keys.extend(request.keys)
        open_requests.append(request)
        return True

    def _reply(self, request: pb.PipelineRequest) -> pb.PipelineResponse:
        found = [self._values[key] for key in request.keys if key in self._values]
        statuses = bytes(OK if key in self._values else NOT_FOUND for key in request.keys)
        return pb.PipelineResponse(id=request.id, statuses=statuses, values=found)


def _read(
    requests: Iterable[pb.PipelineRequest],
    arrived: "queue.SimpleQueue[pb.PipelineRequest | None]",
) -> None:
    try:
        for request in requests:
            arrived.put(request)
    except grpc.RpcError:
        pass  # the client has gone
    arrived.put(_END)


class WatchedStub:
    """The generated stub; keeps an error that the learner's request iterator raises."""

    def __init__(self, stub: Any) -> None:
        self.streams = 0
        self.unary = 0
        self.error: Exception | None = None
        self._stub = stub

    def Pipeline(self, requests: Any, timeout: float | None = DEADLINE_S, **how: Any) -> Any:
        """Open the stream."""
        self.streams += 1
        return self._stub.Pipeline(self._watched(requests), timeout=timeout, **how)

    def _watched(self, requests: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from requests
        except Exception as error:
            self.error = error

    def __getattr__(self, name: str) -> Any:
        self.unary += 1
        return getattr(self._stub, name)


@contextmanager
def windowed(
    values: Mapping[bytes, bytes], keys: Sequence[bytes], window: int, seed: int
) -> Iterator[tuple[WatchedStub, Seen]]:
    """Start a server that expects reads of these keys in a window; give a stub and what it sees."""
    store = WindowedStore(values, len(keys), window, random.Random(seed))
    server = grpc.server(ThreadPoolExecutor(4))
    add_KeyValueServiceServicer_to_server(store, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            yield WatchedStub(KeyValueServiceStub(channel)), store.seen
    finally:
        server.stop(0)
