"""Lost updates: clients that add to one counter at the same time, and two writers in the server.

Read then write loses an update in some orders. Compare and set loses none.
"""

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import grpc
import pandas as pd

from kvstore.client.channel import connected, target_of
from kvstore.client.messages import Operation, create, delete, retrieve, update
from kvstore.course.experiments.failures import Answer, answer_to
from kvstore.protocol import STATUSES
from kvstore.server import Server
from kvstore.server.store import Store
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


# ---- many clients, as they come ------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """What many clients added to a counter, counted twice: by the clients, and in the store."""

    clients: int
    each: int
    """How many times each client added one."""
    acknowledged: int
    """The adds whose calls were all answered, so that `add` returned."""
    stored: int
    """The value of the counter in the end; it began at 0."""
    calls: pd.DataFrame
    """One row for each call, in the order in which the calls ended."""
    window_s: float

    @property
    def lost(self) -> int:
        """Return the acknowledged adds that are not in the store."""
        return self.acknowledged - self.stored


def count_together(server: object, add: Add, *, clients: int, each: int) -> Counted:
    """Let so many clients add one to a new counter, all at the same time, `each` times each."""
    counter, rows, begin = b"counter", list[dict[str, str]](), threading.Barrier(clients)

    def work(name: str) -> tuple[int, int]:
        watched, version, done = Watched(stub, name, rows), 0, 0
        begin.wait()
        for done in range(1, each + 1):  # noqa: B007
            version = add(watched, counter, version)
        return version, done

    with connected(target_of(server)) as (channel, _), ThreadPoolExecutor(clients) as pool:
        stub = KeyValueServiceStub(channel)
        if answer_to(stub, create(key_of(counter, 0), b"0")).status != "OK":
            raise RuntimeError("the counter exists already: start another server")
        began_s = time.perf_counter()
        working = [pool.submit(work, f"client {number + 1}") for number in range(clients)]
        ended = [each.result() for each in working]
        window_s = time.perf_counter() - began_s
        stored = _stored(stub, counter, max(version for version, _ in ended))
    acknowledged = sum(done for _, done in ended)
    calls = pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="call"))
    return Counted(clients, each, acknowledged, stored, calls, window_s)


class Watched:
    """A stub that notes each call; `turn` is called before a call is made."""

    def __init__(
        self,
        stub: Any,
        name: str,
        rows: list[dict[str, str]],
        turn: Callable[[], None] | None = None,
    ) -> None:
        self._stub, self._name, self._rows, self._turn = stub, name, rows, turn

    def __getattr__(self, method: str) -> "_WatchedMethod":
        return _WatchedMethod(getattr(self._stub, method), method, self)

    def made(self, method: str, request: Any, call: Any) -> None:
        """Note a call that has ended."""
        failed = call.exception() is not None
        self._rows.append(
            {
                "client": self._name,
                "call": method,
                "key": request.key.decode(),
                "writes": getattr(request, "value", b"").decode(),
                "status": call.code().name,
                "reads": "" if failed else getattr(call.result(), "value", b"").decode(),
            }
        )


class _WatchedMethod:
    def __init__(self, method: Any, name: str, stub: Watched) -> None:
        self._method, self._name, self._watched = method, name, stub

    def __call__(self, request: Any, *more: Any, **named: Any) -> Any:
        return self.future(request, *more, **named).result()

    def with_call(self, request: Any, *more: Any, **named: Any) -> tuple[Any, Any]:
        """Return the reply and the call."""
        call = self.future(request, *more, **named)
        return call.result(), call

    def future(self, request: Any, *more: Any, **named: Any) -> Any:
        """Make the call when it is this client's turn; return it when it has ended."""
        if self._watched._turn is not None:
            self._watched._turn()
        call = self._method.future(request, *more, **named)
        call.exception()
        self._watched.made(self._name, request, call)
        return call


# ---- a few clients, in a chosen order ------------------------------------------------------------


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
        made = self.calls[(self.calls["call"] == "Create") & (self.calls["status"] == "OK")]
        last = made.groupby("client")["key"].last()
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
        watched = Watched(stub, self.name, rows, self._wait)
        threading.Thread(target=self._work, args=(watched, counter), daemon=True).start()
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


# ---- two calls within the server -----------------------------------------------------------------

BEFORE: Final = b"old"
"""The value of the key before the race, unless both calls create it."""
OFFSET: Final = 1 / 3
"""The second call is sent after this part of a write's disk time."""


@dataclass(frozen=True)
class Race:
    """The operations of two calls, their statuses, and the value that is stored in the end."""

    before: bytes | None
    operations: tuple[Operation, Operation]
    statuses: tuple[str, str]
    stored: bytes | None

    @property
    def explained_by(self) -> list[str]:
        """Return the orders, "AB" or "BA", that give these statuses and this value."""
        return [
            "".join("AB"[place] for place in order)
            for order in itertools.permutations(range(len(self.operations)))
            if self._one_by_one(order) == (self.statuses, self.stored)
        ]

    @property
    def lost(self) -> bool:
        """Return whether no order explains the result: a reply of OK was wrong."""
        return not self.explained_by

    def _one_by_one(self, order: tuple[int, ...]) -> tuple[tuple[str, ...], bytes | None]:
        """Return the statuses and the value of a store that does one after the other."""
        store, key = Store(), self.operations[0].key
        if self.before is not None:
            store.apply(*create(key, self.before)[:3])
        answers = {place: store.apply(*self.operations[place][:3])[0] for place in order}
        _, stored = store.apply(*retrieve(key)[:3])
        return tuple(STATUSES[answers[place]] for place in sorted(answers)), stored or None


def races(server: Server) -> dict[str, Race]:
    """Run all races at once, each on its own key, on a server with slow writes.

    Raise `RuntimeError` if the disk is too fast for the second call to overlap the first.
    """
    disk_s = server.settings.write_delay_s
    if disk_s < 0.05:
        raise RuntimeError(f"write_delay_s must be 0.05 or more for a race, got {disk_s}")
    target = target_of(server)
    with connected(target) as (channel, _), ThreadPoolExecutor(2 * len(_RACES)) as pool:
        call = partial(answer_to, KeyValueServiceStub(channel))
        keys = {name: b"race %d" % number for number, name in enumerate(_RACES)}
        before = {name: None if "create" in name else BEFORE for name in _RACES}
        creates = [create(keys[name], value) for name, value in before.items() if value]
        if any(answer.status != "OK" for answer in pool.map(call, creates)):
            raise RuntimeError("these races were run on this server before: start another server")
        pairs = {name: _two(name, key) for name, key in keys.items()}
        first = {name: pool.submit(call, pair[0]) for name, pair in pairs.items()}
        time.sleep(OFFSET * disk_s)
        second = {name: pool.submit(call, pair[1]) for name, pair in pairs.items()}
        answers = {name: (first[name].result(), second[name].result()) for name in _RACES}
        stored = {name: call(retrieve(key)) for name, key in keys.items()}
        return {
            name: Race(before[name], pairs[name], _statuses(answers[name]), _value(stored[name]))
            for name in _RACES
        }


def table(seen: Mapping[str, Race]) -> pd.DataFrame:
    """Return the statuses of A and B, the stored value, and the orders that explain it."""
    rows = {
        name: {
            "status of A": race.statuses[0],
            "status of B": race.statuses[1],
            "stored in the end": "nothing" if race.stored is None else race.stored.decode(),
            "explained by": " or ".join(race.explained_by) or "NO ORDER",
        }
        for name, race in seen.items()
    }
    return pd.DataFrame(rows).T.rename_axis("A, then B")


_RACES: Final = ("create, create", "update, update", "update, delete", "delete, update")


def _two(name: str, key: bytes) -> tuple[Operation, Operation]:
    first, second = name.split(", ")
    return _made(first, key, b"of A"), _made(second, key, b"of B")


def _made(kind: str, key: bytes, value: bytes) -> Operation:
    if kind == "delete":
        return delete(key)
    return (create if kind == "create" else update)(key, value)


def _statuses(answers: tuple[Answer, Answer]) -> tuple[str, str]:
    return answers[0].status, answers[1].status


def _value(answer: Answer) -> bytes | None:
    return answer.value if answer.status == "OK" else None
