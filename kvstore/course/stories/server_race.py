"""Two calls race for one key inside the server, and somebody asks whether any order explains it.

The second call is sent while the first is on the disk: both have looked, and neither has
written. A history is in order if *some* order of the two, one after the other, would have given
the same answers and left the same value: that is what linearizability asks of two calls that
overlap (M. Herlihy and J. Wing, 1990). If no order does, what one of them wrote is lost.
"""

import itertools
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pandas as pd

from kvstore.client.channel import connected, target_of
from kvstore.client.client import Answer, Client
from kvstore.client.workload import Operation, create, delete, retrieve, update
from kvstore.codes import STATUSES
from kvstore.server import Server
from kvstore.server.store import Store

BEFORE: Final = b"old"
"""What the key holds before the race, unless the race is about who creates it."""
APART: Final = 1 / 3
"""The second call is sent after this part of a write's disk time."""


@dataclass(frozen=True)
class Race:
    """What two calls asked, what they were answered, and what is stored in the end."""

    before: bytes | None
    asked: tuple[Operation, Operation]
    answered: tuple[str, str]
    stored: bytes | None

    @property
    def explained_by(self) -> list[str]:
        """The orders, "AB" or "BA", that would have given these answers and this value."""
        return [
            "".join("AB"[place] for place in order)
            for order in itertools.permutations(range(len(self.asked)))
            if self._one_by_one(order) == (self.answered, self.stored)
        ]

    @property
    def lost(self) -> bool:
        """Whether no order explains it: somebody was told OK for what never was."""
        return not self.explained_by

    def _one_by_one(self, order: tuple[int, ...]) -> tuple[tuple[str, ...], bytes | None]:
        """What a store that does one after the other answers, and what it holds in the end."""
        store, key = Store(), self.asked[0].key
        if self.before is not None:
            store.apply(*create(key, self.before)[:3])
        answers = {place: store.apply(*self.asked[place][:3])[0] for place in order}
        _, stored = store.apply(*retrieve(key)[:3])
        return tuple(STATUSES[answers[place]] for place in sorted(answers)), stored or None


def races(server: Server) -> dict[str, Race]:
    """All races at once, each for a key of its own, on a server that takes its time to write.

    Raises `RuntimeError` when the disk is too fast for the second call to come in between.
    """
    disk_s = server.settings.write_delay_s
    if disk_s < 0.05:
        raise RuntimeError(f"a race needs a slow disk: write_delay_s is {disk_s}, not 0.05 or more")
    target = target_of(server)
    with connected(target) as (channel, _), ThreadPoolExecutor(2 * len(_RACES)) as pool:
        client = Client(channel, target.address)
        named = {name: _named(number) for number, name in enumerate(_RACES)}
        begun = {name: None if "create" in name else BEFORE for name in _RACES}
        creates = [create(named[name], value) for name, value in begun.items() if value]
        if any(answer.status != "OK" for answer in pool.map(client.call, creates)):
            raise RuntimeError("these races were run on this server before: start another one")
        asked = {name: _two(name, key) for name, key in named.items()}
        first = {name: pool.submit(client.call, two[0]) for name, two in asked.items()}
        time.sleep(APART * disk_s)
        second = {name: pool.submit(client.call, two[1]) for name, two in asked.items()}
        answers = {name: (first[name].result(), second[name].result()) for name in _RACES}
        held = {name: client.call(retrieve(key)) for name, key in named.items()}
        return {
            name: Race(begun[name], asked[name], _statuses(answers[name]), _value(held[name]))
            for name in _RACES
        }


def table(seen: Mapping[str, Race]) -> pd.DataFrame:
    """One row for each race: what A and B were told, what is stored, and what explains it."""
    rows = {
        name: {
            "A is told": race.answered[0],
            "B is told": race.answered[1],
            "stored in the end": "nothing" if race.stored is None else race.stored.decode(),
            "explained by": " or ".join(race.explained_by) or "NO ORDER",
        }
        for name, race in seen.items()
    }
    return pd.DataFrame(rows).T.rename_axis("A, then B")


_RACES: Final = ("create, create", "update, update", "update, delete", "delete, update")


def _named(number: int) -> bytes:
    return b"raced for %d" % number


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
