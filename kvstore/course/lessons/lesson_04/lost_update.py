"""Lost updates: two writers of one key, between two calls and inside the server.

Read then write loses an update in some orders. Compare and replace loses none.
"""

import itertools
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from kvstore.client.channel import connected, target_of
from kvstore.client.messages import Operation, create, delete, retrieve, update
from kvstore.course.experiments.failures import Answer, answer_to
from kvstore.protocol import STATUSES
from kvstore.server import Server
from kvstore.server.store import Store
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

Steps = Generator[Operation, Answer, None]
"""The work of a client: it yields an operation and receives the answer."""
Increment = Callable[[bytes], Steps]
"""A function that adds one to the counter of that name."""

MOST_CALLS = 100
"""After so many calls, clients that have not ended never will."""


class NeverDone(RuntimeError):
    """The clients make calls without end, and none of them succeeds."""


def read_then_write(counter: bytes) -> Steps:
    """Read the number, add one, and write it back: wrong if another client writes in between."""
    answer = yield retrieve(version(counter, 0))
    yield update(version(counter, 0), b"%d" % (int(answer.value) + 1))


def compare_and_replace(counter: bytes, amount: int = 1) -> Steps:
    """Create the version after the one that was read; where it exists, read that and try again."""
    for number in itertools.count():
        answer = yield retrieve(version(counter, number))
        answer = yield create(version(counter, number + 1), b"%d" % (int(answer.value) + amount))
        if answer.status == "OK":
            return


def version(counter: bytes, number: int) -> bytes:
    """Return the key of a version of the counter."""
    return counter + b"/%d" % number


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
    start: int = 0
    """Its value at the start."""

    @property
    def lost(self) -> int:
        """Return the increments that were answered OK and are not in the counter."""
        return self.counted - (self.stored - self.start)


def orders(clients: str = "AB", calls_each: int = 2) -> list[str]:
    """Return every order in which clients can make so many calls each: AABB, ABAB, ..."""
    return sorted({"".join(turn) for turn in itertools.permutations(clients * calls_each)})


def history(
    server: object,
    increment: Increment,
    order: str,
    counter: bytes,
    start: int = 0,
    others: Mapping[str, tuple[Increment, int]] = MappingProxyType({}),
) -> History:
    """Let each client named in `order` add one, with their calls in that order.

    A client that has ended is skipped. After `order`, the remaining clients alternate.
    `others` names clients with an increment of their own, and what it adds. `counter` must be
    new to the server; its first value is `start`. Raise `RuntimeError` if it is not new,
    `NeverDone` after `MOST_CALLS` calls.
    """
    with connected(target_of(server)) as (channel, _):
        stub = KeyValueServiceStub(channel)
        if answer_to(stub, create(version(counter, 0), b"%d" % start)).status != "OK":
            raise RuntimeError(f"the counter {counter!r} exists already: choose a new name")
        names = sorted(set(order))
        steps = {name: others.get(name, (increment, 1))[0](counter) for name in names}
        wanted = {name: next(steps[name], None) for name in names}  # None: this client has ended
        rows: list[dict[str, str]] = []
        turns = itertools.chain(order, itertools.cycle(names))
        while any(wanted.values()):
            name = next(turns)
            operation = wanted[name]
            if operation is None:
                continue
            if len(rows) == MOST_CALLS:
                raise NeverDone(
                    f"clients {', '.join(names)} have not ended after {MOST_CALLS} calls"
                )
            answer = answer_to(stub, operation)
            rows.append(_row(name, operation, answer))
            try:
                wanted[name] = steps[name].send(answer)
            except StopIteration:
                wanted[name] = None
        calls = pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="call"))
        counted = sum(others.get(name, (increment, 1))[1] for name in names)
        return History(order, calls, counted, _stored(stub, counter), start)


def _row(name: str, operation: Operation, answer: Answer) -> dict[str, str]:
    return {
        "client": name,
        "operation": operation.name,
        "key": operation.key.decode(),
        "writes": operation.value.decode(),
        "answer": answer.status,
        "reads": answer.value.decode(),
    }


def _stored(stub: Any, counter: bytes) -> int:
    """Return the value of the latest version; a plain counter has one version."""
    value, number = b"0", 0
    while (answer := answer_to(stub, retrieve(version(counter, number)))).status == "OK":
        value, number = answer.value, number + 1
    return int(value)


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
