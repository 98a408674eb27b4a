"""Clients that add to one counter, with their calls in a chosen order.

Read then write loses an update in some orders. Compare and set loses none.
"""

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import grpc
import pandas as pd

from kvstore.client.channel import connected, target_of
from kvstore.client.messages import create, retrieve
from kvstore.course.experiments.failures import answer_to
from kvstore.course.stubs import WrappedStub
from kvstore.v1.kvstore_pb2 import CreateRequest, RetrieveRequest, UpdateRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

Add = Callable[[Any, bytes, int], int]
"""`add(stub, counter, version)` adds one to a counter of which this version exists.

It returns the version that it knows in the end."""

MOST_CALLS: Final = 100
"""After so many calls, clients that have not ended never will."""
PATIENCE_S: Final = 5.0
"""Seconds in which a client must make its next call, or end."""


class NeverDone(RuntimeError):
    """The clients make calls without end, and none of them succeeds."""


def key_of(counter: bytes, version: int) -> bytes:
    """Return the key of a version of the counter."""
    return b"%s/%d" % (counter, version)


def read_then_write(stub: Any, counter: bytes, version: int) -> int:
    """Read the number, add one, and write it back: wrong if another client writes in between."""
    key = key_of(counter, version)
    number = int(stub.Retrieve(RetrieveRequest(key=key)).value)
    stub.Update(UpdateRequest(key=key, value=b"%d" % (number + 1)))
    return version


def compare_and_set(stub: Any, counter: bytes, version: int, amount: int = 1) -> int:
    """Create the version after the one that was read; where it exists, read that and try again."""
    while True:
        reply = stub.Retrieve(RetrieveRequest(key=key_of(counter, version)))
        value = b"%d" % (int(reply.value) + amount)
        version += 1
        try:
            stub.Create(CreateRequest(key=key_of(counter, version), value=value))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        else:
            return version


def watched(
    stub: Any, name: str, rows: list[dict[str, str]], turn: Callable[[], None]
) -> WrappedStub:
    """Return a stub that notes each call; `turn` is called before a call is made."""

    def around(method: Any, how: str, request: Any, *more: Any, **named: Any) -> Any:
        turn()
        call = method.future(request, *more, **named)
        failed = call.exception() is not None  # it has ended
        rows.append(
            {
                "client": name,
                "call": type(request).__name__.removesuffix("Request"),
                "key": request.key.decode(),
                "writes": getattr(request, "value", b"").decode(),
                "status": call.code().name,
                "reads": "" if failed else getattr(call.result(), "value", b"").decode(),
            }
        )
        if how == "future":
            return call
        return (call.result(), call) if how == "with_call" else call.result()

    return WrappedStub(stub, around)


@dataclass(frozen=True)
class History:
    """The calls in their order, and their results."""

    order: str
    calls: pd.DataFrame
    """One row for each call: the client, the operation, and the answer."""
    counted: int
    """What all clients that finished have added."""
    stored: int
    """The value of the counter at the end."""
    returned: Mapping[str, int]
    """The version that each client returned."""
    start: int = 0
    """The counter's value at the start."""

    @property
    def lost(self) -> int:
        """Return the increments that were answered OK and are not in the counter."""
        return self.counted - (self.stored - self.start)

    @property
    def created(self) -> dict[str, int]:
        """Return the last version that each client created."""
        creates = self.calls[(self.calls["call"] == "Create") & (self.calls["status"] == "OK")]
        last = creates.groupby("client")["key"].last()
        return {str(name): int(key.rpartition("/")[2]) for name, key in last.items()}


def orders(clients: str = "AB", calls_each: int = 2) -> list[str]:
    """Return every order in which clients can make so many calls each: AABB, ABAB, ..."""
    return sorted({"".join(turn) for turn in itertools.permutations(clients * calls_each)})


class _Over(BaseException):
    """Ends the thread of a client: no call of it is made any more."""


class _Client:
    """One add in a thread of its own, which makes a call when it gets a turn."""

    def __init__(self, name: str, add: Add) -> None:
        self.name, self.add = name, add
        self.ended, self.over = False, False
        self.version: Any = None
        self.error: BaseException | None = None
        self._turn, self._stands = threading.Semaphore(0), threading.Semaphore(0)

    def begin(self, stub: Any, counter: bytes, rows: list[dict[str, str]]) -> None:
        """Start the thread; return when it stands before its first call, or has ended."""
        noted = watched(stub, self.name, rows, self._wait)
        threading.Thread(target=self._work, args=(noted, counter), daemon=True).start()
        self._until_it_stands()

    def make_a_call(self) -> None:
        """Let it make one call; return when it stands before the next one, or has ended."""
        self._turn.release()
        self._until_it_stands()

    def stop(self) -> None:
        """End the thread at its next call."""
        self.over = True
        self._turn.release()

    def _until_it_stands(self) -> None:
        if not self._stands.acquire(timeout=PATIENCE_S):
            raise NeverDone(f"client {self.name} makes no call and does not end")
        if self.error is not None:
            raise self.error

    def _wait(self) -> None:
        self._stands.release()
        self._turn.acquire()
        if self.over:
            self._turn.release()  # also for the next call, if the answer catches this
            raise _Over

    def _work(self, stub: Any, counter: bytes) -> None:
        try:
            self.version = self.add(stub, counter, 0)
        except _Over:
            pass
        except BaseException as error:  # raised again by whoever drives
            self.error = error
        self.ended = True
        self._stands.release()


def history(
    server: object,
    add: Add,
    order: str,
    counter: bytes,
    start: int = 0,
    others: Mapping[str, tuple[Add, int]] = MappingProxyType({}),
) -> History:
    """Let each client named in `order` add one, with their calls in that order.

    A client that has ended is skipped. After `order`, the remaining clients alternate.
    `others` names clients with an add of their own, and what it adds. `counter` must be
    new to the server; its first value is `start`. Raise `RuntimeError` if it is not new,
    `NeverDone` after `MOST_CALLS` calls.
    """
    with connected(target_of(server)) as (channel, _):
        stub = KeyValueServiceStub(channel)
        if answer_to(stub, create(key_of(counter, 0), b"%d" % start)).status != "OK":
            raise RuntimeError(f"the counter {counter!r} exists already: choose a new name")
        names = sorted(set(order))
        clients = {name: _Client(name, others.get(name, (add, 1))[0]) for name in names}
        rows: list[dict[str, str]] = []
        try:
            for client in clients.values():
                client.begin(stub, counter, rows)
            turns = itertools.chain(order, itertools.cycle(names))
            while not all(client.ended for client in clients.values()):
                client = clients[next(turns)]
                if client.ended:
                    continue
                if len(rows) >= MOST_CALLS:
                    raise NeverDone(
                        f"clients {', '.join(names)} have not ended after {MOST_CALLS} calls"
                    )
                client.make_a_call()
        finally:
            for client in clients.values():
                client.stop()
        calls = pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="call"))
        counted = sum(others.get(name, (add, 1))[1] for name in names)
        returned = {name: client.version for name, client in clients.items()}
        return History(order, calls, counted, _stored(stub, counter), returned, start)


def _stored(stub: Any, counter: bytes, version: int = 0) -> int:
    """Return the value of the latest version, from a known one on."""
    value = b"0"
    while (answer := answer_to(stub, retrieve(key_of(counter, version)))).status == "OK":
        value, version = answer.value, version + 1
    return int(value)
