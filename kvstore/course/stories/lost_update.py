"""Two clients count together: read then write loses a count, compare and replace never does.

Each client is a generator that yields the operation it wants to make and gets the answer
back. So the order of the calls is not left to chance: `history` makes them one by one, in the
order it is told, on a real server.

The contract has no compare-and-replace, and needs none: Create is one. It stores a value only
where there is none. So each value of the counter gets a key of its own, counter/0, counter/1 ...,
and who creates the next one has counted.
"""

import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass

import pandas as pd

from kvstore.client.channel import connected, target_of
from kvstore.client.client import Answer, Client
from kvstore.client.workload import Operation, create, retrieve, update

Steps = Generator[Operation, Answer, None]
"""A client's work: it yields an operation, and is sent the answer."""
Increment = Callable[[bytes], Steps]
"""Adds one to the counter of that name."""

MOST_CALLS = 100
"""Clients that are not done after so many calls never will be."""


class NeverDone(RuntimeError):
    """The clients go on and on, and none of them counts."""


def read_then_write(counter: bytes) -> Steps:
    """Read the number, add one, write it back, and trust that nobody came between."""
    answer = yield retrieve(version(counter, 0))
    yield update(version(counter, 0), b"%d" % (int(answer.value) + 1))


def compare_and_replace(counter: bytes) -> Steps:
    """Create the version after the one that was read; if somebody has, read that and try again."""
    for number in itertools.count():
        answer = yield retrieve(version(counter, number))
        answer = yield create(version(counter, number + 1), b"%d" % (int(answer.value) + 1))
        if answer.status == "OK":
            return


def version(counter: bytes, number: int) -> bytes:
    """The key under which a version of the counter is stored."""
    return counter + b"/%d" % number


@dataclass(frozen=True)
class History:
    """What was called in which order, and what came of it."""

    order: str
    calls: pd.DataFrame
    """One row for each call: the client, what it asked, and the answer."""
    counted: int
    """The increments that were finished without a complaint."""
    stored: int
    """The number that the counter holds at the end."""

    @property
    def lost(self) -> int:
        """Increments that were answered OK and are not in the counter."""
        return self.counted - self.stored


def orders(clients: str = "AB", calls_each: int = 2) -> list[str]:
    """Every order in which clients of so many calls each can take turns: AABB, ABAB, ..."""
    return sorted({"".join(turn) for turn in itertools.permutations(clients * calls_each)})


def history(server: object, increment: Increment, order: str, counter: bytes) -> History:
    """Let the clients named in `order` add one each, their calls made in that order.

    Who is done is passed over; who is not when `order` ends goes on in turn. `counter` must
    be new to the server. Raises `RuntimeError` when it is not, `NeverDone` after
    `MOST_CALLS` calls.
    """
    with connected(target_of(server)) as (channel, _):
        client = Client(channel, target_of(server).address)
        if client.call(create(version(counter, 0), b"0")).status != "OK":
            raise RuntimeError(f"the counter {counter!r} is known already: give it a new name")
        names = sorted(set(order))
        steps = {name: increment(counter) for name in names}
        wanted = {name: next(steps[name], None) for name in names}  # None: this client is done
        rows: list[dict[str, str]] = []
        turns = itertools.chain(order, itertools.cycle(names))
        while any(wanted.values()):
            name = next(turns)
            operation = wanted[name]
            if operation is None:
                continue
            if len(rows) == MOST_CALLS:
                raise NeverDone(f"clients {', '.join(names)} are not done after {MOST_CALLS} calls")
            answer = client.call(operation)
            rows.append(_row(name, operation, answer))
            try:
                wanted[name] = steps[name].send(answer)
            except StopIteration:
                wanted[name] = None
        calls = pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="call"))
        return History(order, calls, len(names), _stored(client, counter))


def _row(name: str, operation: Operation, answer: Answer) -> dict[str, str]:
    return {
        "client": name,
        "asks": operation.name,
        "key": operation.key.decode(),
        "writes": operation.value.decode(),
        "answer": answer.status,
        "reads": answer.value.decode(),
    }


def _stored(client: Client, counter: bytes) -> int:
    """The value of the latest version: a plain counter has one version only."""
    value, number = b"0", 0
    while (answer := client.call(retrieve(version(counter, number)))).status == "OK":
        value, number = answer.value, number + 1
    return int(value)
