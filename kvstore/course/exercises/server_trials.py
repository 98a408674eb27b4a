"""Trials of a learner's server.

The disk that the server gets holds every call back until the trial lets it go. So the trial can
read off who uses the disk at the same time, at any speed of the machine.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import thread as pools
from contextlib import contextmanager
from typing import Any, Final

import grpc

from kvstore.course.exercises import Wrong
from kvstore.course.exercises.puppet import PATIENCE_S
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceStub,
)

SETTLE_S: Final = 0.03
"""How long it looks for something that a right server never does."""
DEADLINE_S: Final = 8.0
"""The time limit of each call."""


class WatchedDisk:
    """The disk of a learner's server: counts who is on it, and holds calls back where it is shut.

    `reads` and `writes` count the accesses by key. A key in `broken` fails once, with OSError.
    """

    def __init__(self) -> None:
        self.reads: Counter[bytes] = Counter()
        self.writes: Counter[bytes] = Counter()
        self.broken: set[bytes] = set()
        self.most_writers = 0
        """The most writes of one key that were on the disk at the same time."""
        self._reading: Counter[bytes] = Counter()
        self._writing: Counter[bytes] = Counter()
        self._shut: set[str] = set()
        self._changed = threading.Condition()

    def read(self, key: bytes) -> None:
        """Wait for one read of the disk."""
        self._use("read", key, self._reading, self.reads)

    def write(self, key: bytes) -> None:
        """Wait for one write to the disk."""
        self._use("write", key, self._writing, self.writes)

    def _use(self, kind: str, key: bytes, inside: Counter[bytes], count: Counter[bytes]) -> None:
        with self._changed:
            count[key] += 1
            inside[key] += 1
            self.most_writers = max(self.most_writers, *self._writing.values(), 0)
            self._changed.notify_all()
            self._changed.wait_for(lambda: kind not in self._shut, DEADLINE_S)
            inside[key] -= 1
            self._changed.notify_all()
            if key in self.broken:
                self.broken.discard(key)
                raise OSError("the disk failed once, as the check wants it to")

    @contextmanager
    def shut(self, *kinds: str) -> Iterator[None]:
        """Hold back every "read", or every "write", for as long as the block lasts."""
        with self._changed:
            self._shut |= set(kinds)
        try:
            yield
        finally:
            with self._changed:
                self._shut.clear()
                self._changed.notify_all()

    @property
    def writing(self) -> dict[bytes, int]:
        """Writes on the disk now, by key."""
        with self._changed:
            return {key: count for key, count in self._writing.items() if count}

    def busy(self) -> int:
        """Calls on the disk now."""
        with self._changed:
            return self._reading.total() + self._writing.total()


class ServerUnderTrial:
    """A running server of the learner's, its disk, and a stub that calls it."""

    def __init__(self, disk: WatchedDisk, stub: Any, threads: int) -> None:
        self.disk = disk
        self.stub = stub
        self.threads = threads

    def read(self, key: bytes) -> bytes | grpc.StatusCode:
        """Return the value of a key, or the status of a call that failed."""
        reply = self.outcome(self.stub.Retrieve.future(pb.RetrieveRequest(key=key), DEADLINE_S))
        return reply if isinstance(reply, grpc.StatusCode) else bytes(reply.value)

    def begin_read(self, key: bytes) -> Any:
        """Start a Retrieve and return its future."""
        return self.stub.Retrieve.future(pb.RetrieveRequest(key=key), DEADLINE_S)

    def begin_write(self, key: bytes, value: bytes) -> Any:
        """Start an Update and return its future."""
        return self.stub.Update.future(pb.UpdateRequest(key=key, value=value), DEADLINE_S)

    def outcome(self, call: Any) -> Any:
        """Return the reply of a call, or its status. Raises `Wrong` for an error inside."""
        error = call.exception()
        if error is None:
            return call.result()
        details = str(error.details() or "")
        if "the disk failed once" in details:
            return grpc.StatusCode.UNKNOWN
        if "Exception calling application" in details:
            raise Wrong(f"a method of your servicer stopped with an error: {details[31:]}")
        if "serialize" in details:
            raise Wrong(
                "a method of your servicer returned something else than its reply message: return"
                " `RetrieveResponse(value=...)` from Retrieve, and `UpdateResponse()` from Update."
            )
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise Wrong(
                "the server does not know the method: add your servicer to the server with"
                " `add_KeyValueServiceServicer_to_server`, and name its methods as the contract."
            )
        return error.code()


@contextmanager
def unlogged(name: str) -> Iterator[None]:
    """Disable a logger of gRPC for the block: it prints the error of every method that fails."""
    log = logging.getLogger(name)
    was, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was


@contextmanager
def started(
    serve: Callable[..., Any], values: Mapping[bytes, bytes], threads: int
) -> Iterator[ServerUnderTrial]:
    """Start the learner's server and connect to it; it ends with the block.

    Raises `Wrong` when there is no server that answers.
    """
    disk = WatchedDisk()
    server: Any = None
    older = set(_joined_at_exit())
    try:
        server, address = server_and_address(serve(disk, dict(values), threads))
        with (
            unlogged("grpc._server"),
            grpc.insecure_channel(
                address, options=[("grpc.use_local_subchannel_pool", 1)]
            ) as channel,
        ):
            if not answers(channel):
                raise Wrong(
                    f"no server answers at {address}. Did you call `server.start()`, and is `port`"
                    " what `server.add_insecure_port` returned?"
                )
            yield ServerUnderTrial(disk, KeyValueServiceStub(channel), threads)
    finally:
        if hasattr(server, "stop"):
            server.stop(0)
        # A thread that waits for ever for a lock of the learner's must not keep Python from
        # ending. Threads of such a pool are daemons: gRPC's own thread starts them.
        for each in set(_joined_at_exit()) - older:
            _joined_at_exit().pop(each, None)


def _joined_at_exit() -> Any:
    """Return the threads of pools that Python joins when it ends."""
    return getattr(pools, "_threads_queues", {})


def server_and_address(returned: Any) -> tuple[Any, str]:
    """Return the server of the learner's `serve`, and its address; raises `Wrong`."""
    try:
        server, port = returned
        return server, f"127.0.0.1:{int(port)}"
    except (TypeError, ValueError):
        raise Wrong(
            f"`serve` must return two things, the server and its port, got {returned!r:.60}."
        ) from None


def answers(channel: grpc.Channel) -> bool:
    """Return whether a server answers; a method that no server has needs no servicer."""
    try:
        channel.unary_unary("/kvstore.course/Ready")(b"", PATIENCE_S, wait_for_ready=True)
    except grpc.RpcError as error:
        return error.code() is grpc.StatusCode.UNIMPLEMENTED
    return True


def statuses(trial: ServerUnderTrial, calls: Sequence[Any]) -> list[str]:
    """Return how calls ended, by the name of the status."""
    ends = [trial.outcome(call) for call in calls]
    return [end.name if isinstance(end, grpc.StatusCode) else "OK" for end in ends]
