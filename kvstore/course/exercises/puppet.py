"""The puppet: a server that does what a judge's script says, and notes every call.

It holds calls until the trial lets them go. So a trial can read off how many wait at the same time,
at any speed of the machine. It runs in this process, because nothing is measured on it.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import grpc

from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    add_KeyValueServiceServicer_to_server,
)

PATIENCE_S: Final = 2.0
"""How long a trial waits for something that a right answer does at once."""
HELD_S: Final = 8.0
"""A call is held so long at most, so that a trial that fails comes to its end."""
STALL_S: Final = 30.0
"""A stalled call lasts so long, unless the trial ends before."""
THREADS: Final = 160
"""The most calls that a server can hold."""


def wait_until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> bool:
    """Return whether the condition became true within the time."""
    end_s = time.perf_counter() + patience_s
    while not condition():
        if time.perf_counter() > end_s:
            return False
        time.sleep(0.001)
    return True


def wait_for_count(
    count: Callable[[], int], wanted: int, ended: Callable[[], object] = lambda: False
) -> bool:
    """Return whether a count reached `wanted`, or `ended` came true: it has `PATIENCE_S` to grow.

    On a busy machine 130 calls take seconds to arrive, and each that comes gives the next its time.
    """
    highest, end_s = count(), time.perf_counter() + PATIENCE_S
    while highest < wanted and not ended():
        if time.perf_counter() > end_s:
            return False
        time.sleep(0.001)
        if (now := count()) > highest:
            highest, end_s = now, time.perf_counter() + PATIENCE_S
    return True


@contextmanager
def served(
    servicer: Any,
    pool: ThreadPoolExecutor | None = None,
    *,
    interceptors: tuple[Any, ...] = (),
    add: Callable[..., None] = add_KeyValueServiceServicer_to_server,
) -> Iterator[str]:
    """Serve on a loopback port while the block lasts; yield the address."""
    server = grpc.server(
        pool or ThreadPoolExecutor(THREADS),
        interceptors=interceptors,
        options=[("grpc.so_reuseport", 0)],
    )
    add(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait(PATIENCE_S)


class _Counts(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers every method with its own request."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def reply(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.calls[context.peer()] += 1
            return request

        return grpc.unary_unary_rpc_method_handler(reply)


@contextmanager
def counting() -> Iterator[tuple[str, Counter[str]]]:
    """Serve every method; yield the address and the calls so far by connection."""
    counts = _Counts()
    with served(counts, ThreadPoolExecutor(1), add=_add_generic) as address:
        yield address, counts.calls


def _add_generic(handler: grpc.GenericRpcHandler, server: grpc.Server) -> None:
    server.add_generic_rpc_handlers((handler,))


class Arrived(NamedTuple):
    """A call as the server saw it."""

    method: str
    key: bytes
    deadline_s: float
    """Seconds that the call had left; infinite, or very large, where it had no deadline."""
    at_s: float


@dataclass(frozen=True)
class Script:
    """What the server does."""

    values: Mapping[bytes, bytes] = field(default_factory=dict)
    """The keys that have a value before the first call."""
    always: bytes | None = None
    """Every key has this value at all times."""
    delay_s: float = 0.0
    failures: Mapping[bytes, grpc.StatusCode | Exception] = field(default_factory=dict)
    """Calls for these keys end with this status, or the method raises this error."""
    stalled: frozenset[bytes] = frozenset()
    """Calls for these keys are never answered."""
    never_held: frozenset[bytes] = frozenset()
    """Calls for these keys are answered also while others are held."""
    longest_s: float = HELD_S
    """No call is held for longer."""
    stored: Callable[[bytes], bytes] = bytes
    """What the server stores of a value that a Create sends."""


class Puppet(KeyValueServiceServicer):
    """The service that follows a script."""

    def __init__(self, script: Script) -> None:
        self.arrived: list[Arrived] = []
        """Every call, in the order of arrival: the server's own count."""
        self.given_up: set[int] = set()
        """Calls by their number (from 0) that their caller ended before they were answered."""
        self.most = 0
        """The most calls that waited for their answer at one time."""
        self._script = script
        self._ends: dict[int, grpc.StatusCode] = {}
        self._values = dict(script.values)
        self._open: set[int] = set()
        self._shut = self._over = False
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """Calls that wait for their answer now."""
        return len(self.held())

    def held(self, first: Sequence[bytes] = ()) -> list[int]:
        """Return the numbers (from 0) of the calls that wait now, in the order of arrival.

        Calls that came at once were noted in any order: `first` has their keys in the right one.
        """

        def place(number: int) -> int:
            key = self.arrived[number].key
            return first.index(key) if number < len(first) and key in first else number

        with self._changed:
            return sorted(self._open, key=place)

    def hold(self) -> None:
        """Hold every call from now on."""
        self._shut = True

    def let_go(self) -> None:
        """Answer every call that is held, and hold none."""
        with self._changed:
            self._shut = False
            self._changed.notify_all()

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Hold every call for as long as the block lasts."""
        self.hold()
        try:
            yield
        finally:
            self.let_go()

    def release(self, number: int, status: grpc.StatusCode = grpc.StatusCode.OK) -> None:
        """Let the call that arrived as this number (from 0) be answered, or end with a status."""
        with self._changed:
            self._ends[number] = status
            self._open.discard(number)
            self._changed.notify_all()

    def end(self) -> None:
        """Let also the stalled calls end."""
        self._over = True
        self.let_go()

    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> pb.CreateResponse:
        """Store a value under a new key."""
        self._arrive("Create", request.key, context)
        with self._changed:
            if request.key in self._values and self._script.always is None:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
            self._values[request.key] = self._script.stored(request.value)
        return pb.CreateResponse()

    def Retrieve(
        self, request: pb.RetrieveRequest, context: grpc.ServicerContext
    ) -> pb.RetrieveResponse:
        """Send the value of a key."""
        self._arrive("Retrieve", request.key, context)
        with self._changed:
            value = self._values.get(request.key, self._script.always)
        if value is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
        return pb.RetrieveResponse(value=value)

    def Update(self, request: pb.UpdateRequest, context: grpc.ServicerContext) -> pb.UpdateResponse:
        """Store a value, whether or not the key has one."""
        self._arrive("Update", request.key, context)
        with self._changed:
            self._values[request.key] = request.value
        return pb.UpdateResponse()

    def Delete(self, request: pb.DeleteRequest, context: grpc.ServicerContext) -> pb.DeleteResponse:
        """Remove the value of a key, whether or not it has one."""
        self._arrive("Delete", request.key, context)
        with self._changed:
            self._values.pop(request.key, None)
        return pb.DeleteResponse()

    def _arrive(self, method: str, key: bytes, context: grpc.ServicerContext) -> None:
        """Do with a call what the script says before its answer."""
        left_s = context.time_remaining()
        left_s = float("inf") if left_s is None else left_s
        with self._changed:
            number = len(self.arrived)
            self.arrived.append(Arrived(method, key, left_s, time.perf_counter()))
            self._open.add(number)
            self.most = max(self.most, len(self._open))
        if not context.add_callback(lambda: self._ended(number)):
            self._ended(number)
        longest_s = STALL_S if key in self._script.stalled else self._script.longest_s
        with self._changed:
            self._changed.wait_for(lambda: self._may_go(number, key), longest_s)
            self._open.discard(number)
        time.sleep(self._script.delay_s)
        failure = self._script.failures.get(key, self._ends.get(number))
        if isinstance(failure, Exception):
            raise failure
        if failure not in (None, grpc.StatusCode.OK):
            context.abort(failure, "the check wants this call to fail")

    def _may_go(self, number: int, key: bytes) -> bool:
        if key in self._script.stalled:
            return self._over
        return not self._shut or number not in self._open or key in self._script.never_held

    def _ended(self, number: int) -> None:
        with self._changed:
            if number in self._open:
                self.given_up.add(number)


@contextmanager
def puppet(
    values: Mapping[bytes, bytes], failures: Mapping[bytes, grpc.StatusCode]
) -> Iterator[tuple[Puppet, str]]:
    """Serve these values, and these failures by key; yield the server and its address."""
    server = Puppet(Script(values, failures=failures))
    with served(server) as address:
        yield server, address


TURNS: Final = 50
"""So many turns of the event loop are enough for an answer to do what it can do at once."""


async def turns() -> None:
    """Let the other tasks of the loop go on until they wait for something."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
