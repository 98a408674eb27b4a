"""Trials of a learner's server, and the servers and back ends that trials need.

The disk that the server gets holds every call back until the trial lets it go. So the trial can
read off who uses the disk at the same time, at any speed of the machine.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as pools
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import grpc

from kvstore.client.client import measured_channel
from kvstore.course.exercises import AnswerFailed
from kvstore.measure.run import Run
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2 import RetrieveResponse
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    KeyValueServiceStub,
    add_KeyValueServiceServicer_to_server,
)

PATIENCE_S: Final = 2.0
"""How long the trial waits for something that a right server does at once."""
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


class ServerFailed(Exception):
    """The learner's server did something that it must not do; the text says what."""


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
        """Return the reply of a call, or its status. Raises `ServerFailed` for an error inside."""
        error = call.exception()
        if error is None:
            return call.result()
        details = str(error.details() or "")
        if "the disk failed once" in details:
            return grpc.StatusCode.UNKNOWN
        if "Exception calling application" in details:
            raise ServerFailed(f"a method of your servicer stopped with an error: {details[31:]}")
        if "serialize" in details:
            raise ServerFailed(
                "a method of your servicer returned something else than its reply message: return"
                " `RetrieveResponse(value=...)` from Retrieve, and `UpdateResponse()` from Update."
            )
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise ServerFailed(
                "the server does not know the method: add your servicer to the server with"
                " `add_KeyValueServiceServicer_to_server`, and name its methods as the contract."
            )
        return error.code()


@contextmanager
def started(
    serve: Callable[..., Any], values: Mapping[bytes, bytes], threads: int
) -> Iterator[ServerUnderTrial]:
    """Start the learner's server and connect to it; it ends with the block.

    Raises `ServerFailed` when there is no server that answers.
    """
    disk = WatchedDisk()
    log = logging.getLogger("grpc._server")  # prints the error of every handler that fails
    was, log.disabled = log.disabled, True
    server: Any = None
    older = set(_joined_at_exit())
    try:
        returned = serve(disk, dict(values), threads)
        try:
            server, port = returned
            address = f"127.0.0.1:{int(port)}"
        except (TypeError, ValueError):
            raise ServerFailed(
                f"`serve` must return two things, the server and its port, got {returned!r:.60}."
            ) from None
        with grpc.insecure_channel(
            address, options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            if not _answers(channel):
                raise ServerFailed(
                    f"no server answers at {address}. Did you call `server.start()`, and is `port`"
                    " what `server.add_insecure_port` returned?"
                )
            yield ServerUnderTrial(disk, KeyValueServiceStub(channel), threads)
    finally:
        log.disabled = was
        if hasattr(server, "stop"):
            server.stop(0)
        # A thread that waits for ever for a lock of the learner's must not keep Python from
        # ending. Threads of such a pool are daemons: gRPC's own thread starts them.
        for each in set(_joined_at_exit()) - older:
            _joined_at_exit().pop(each, None)


def _joined_at_exit() -> Any:
    """Return the threads of pools that Python joins when it ends."""
    return getattr(pools, "_threads_queues", {})


def _answers(channel: grpc.Channel) -> bool:
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


# ---- scripted server ----------------------------------------------------------------------------
# A server that does what a script says, and logs every call: clients are judged on it.
#
# It runs in this process, because nothing is measured on it.


STALL_S = 30.0
"""A stalled call lasts so long, unless the trial ends before."""


class Served(NamedTuple):
    """A call as the server saw it."""

    method: str
    key: bytes
    deadline_s: float
    """Seconds that the call had left when it arrived; infinite where it had no deadline."""


@dataclass(frozen=True)
class Script:
    """What the server does."""

    values: Mapping[bytes, bytes] = field(default_factory=dict)
    """The keys that have a value before the first call."""
    delay_s: float = 0.0
    failures: Mapping[bytes, grpc.StatusCode] = field(default_factory=dict)
    """Calls for these keys end with this status."""
    stalled: frozenset[bytes] = frozenset()
    """Calls for these keys are never answered."""
    stored: Callable[[bytes], bytes] = bytes
    """What the server stores of a value that a Create sends."""


class ScriptedStore(KeyValueServiceServicer):
    """The service that follows a script."""

    def __init__(self, script: Script) -> None:
        self.served: list[Served] = []
        """Every call, in the order of arrival: the server's own count."""
        self.over = threading.Event()
        self._script = script
        self._values = dict(script.values)
        self._lock = threading.Lock()

    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> pb.CreateResponse:
        """Store a value under a new key."""
        self._arrive("Create", request.key, context)
        with self._lock:
            if request.key in self._values:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
            self._values[request.key] = self._script.stored(request.value)
        return pb.CreateResponse()

    def Retrieve(
        self, request: pb.RetrieveRequest, context: grpc.ServicerContext
    ) -> pb.RetrieveResponse:
        """Send the value of a key."""
        self._arrive("Retrieve", request.key, context)
        with self._lock:
            if request.key not in self._values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            return pb.RetrieveResponse(value=self._values[request.key])

    def _arrive(self, method: str, key: bytes, context: grpc.ServicerContext) -> None:
        left_s = context.time_remaining()
        with self._lock:
            self.served.append(Served(method, key, float("inf") if left_s is None else left_s))
        if key in self._script.stalled:
            self.over.wait(STALL_S)
        time.sleep(self._script.delay_s)
        if key in self._script.failures:
            context.abort(self._script.failures[key], "the script says so")


@dataclass(frozen=True)
class ClientTrial:
    """What a client did with a scripted server."""

    returned: Any
    """What the learner's function returned; None where it raised."""
    failure: AnswerFailed | None
    """The error that left the learner's function."""
    run: Run
    """The calls as the channel recorded them."""
    served: tuple[Served, ...]
    """The calls as the server counted them."""

    @property
    def status(self) -> grpc.StatusCode | None:
        """The status of the gRPC error that left the learner's function; None without one."""
        error = self.failure.__cause__ if self.failure else None
        return error.code() if isinstance(error, grpc.RpcError) else None

    @property
    def overlapping(self) -> int:
        """Calls that were sent before all earlier calls had ended."""
        calls = self.run.calls
        early = calls["sent_s"].to_numpy()[1:] < calls["done_s"].cummax().to_numpy()[:-1]
        return int(early.sum())


def try_client(script: Script, client: Callable[[KeyValueServiceStub], Any]) -> ClientTrial:
    """Run the client against a server that follows the script, and return what both saw."""
    returned, failure = None, None
    with _serving(script) as (store, address):
        with measured_channel(address, station_times=False) as channel:
            try:
                returned = client(KeyValueServiceStub(channel))
            except AnswerFailed as error:
                failure = error
            store.over.set()
        return ClientTrial(returned, failure, channel.run(), tuple(store.served))


@contextmanager
def _serving(script: Script) -> Iterator[tuple[ScriptedStore, str]]:
    store = ScriptedStore(script)
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        add_KeyValueServiceServicer_to_server(store, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield store, f"127.0.0.1:{port}"
        finally:
            store.over.set()
            server.stop(0).wait()


# ---- held back end ------------------------------------------------------------------------------
# A back end that holds every call until the trial releases it; it sees how many wait at once.
#
# It runs in this process, on a loopback port: nothing is measured on it.


THREADS: Final = 64
"""The most calls that the back end can hold."""
HELD_S: Final = 8.0
"""No call is held for longer, so that a trial that fails comes to its end."""


class Arrived(NamedTuple):
    """A call as the back end saw it."""

    key: bytes
    deadline_s: float
    """Seconds that the call had left; a very large number where it had no deadline."""


class HeldBackEnd(KeyValueServiceServicer):
    """Answers Retrieve from `values`; a key in `failures` ends with that status."""

    def __init__(
        self, values: Mapping[bytes, bytes], failures: Mapping[bytes, grpc.StatusCode]
    ) -> None:
        self.arrived: list[Arrived] = []
        """Every call, in the order of arrival."""
        self.given_up: set[int] = set()
        """Calls by their number (from 0) that their caller ended before they were answered."""
        self._values, self._failures = values, failures
        self._open: set[int] = set()
        self._shut = False
        self._changed = threading.Condition()

    def Retrieve(self, request: Any, context: Any) -> RetrieveResponse:
        """Wait until the call is released, then answer."""
        with self._changed:
            number = len(self.arrived)
            self.arrived.append(Arrived(request.key, context.time_remaining()))
            self._open.add(number)
            self._changed.notify_all()
        if not context.add_callback(lambda: self._ended(number)):
            self._ended(number)
        with self._changed:
            self._changed.wait_for(lambda: not self._shut or number not in self._open, HELD_S)
            self._open.discard(number)
        if request.key in self._failures:
            context.abort(self._failures[request.key], "the check wants this call to fail")
        if request.key not in self._values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        return RetrieveResponse(value=self._values[request.key])

    def _ended(self, number: int) -> None:
        with self._changed:
            if number in self._open:
                self.given_up.add(number)

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Hold every call for as long as the block lasts."""
        self._shut = True
        try:
            yield
        finally:
            with self._changed:
                self._shut = False
                self._changed.notify_all()

    def open(self) -> int:
        """Return how many calls wait for their answer now."""
        with self._changed:
            return len(self._open)

    def release(self, number: int) -> None:
        """Let the call that arrived as this number (from 0) be answered."""
        with self._changed:
            self._open.discard(number)
            self._changed.notify_all()


@contextmanager
def held_back_end(
    values: Mapping[bytes, bytes], failures: Mapping[bytes, grpc.StatusCode]
) -> Iterator[tuple[HeldBackEnd, str]]:
    """Serve a back end while the block lasts; yield it and its address."""
    back_end = HeldBackEnd(values, failures)
    server = grpc.server(ThreadPoolExecutor(THREADS))
    add_KeyValueServiceServicer_to_server(back_end, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield back_end, f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait(PATIENCE_S)


def wait_until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> bool:
    """Return whether the condition became true within the time."""
    end_s = time.perf_counter() + patience_s
    while not condition():
        if time.perf_counter() > end_s:
            return False
        time.sleep(0.001)
    return True
