"""Is a history of one key linearizable? A search with a memory of what was tried.

Wing and Gong (Journal of Parallel and Distributed Computing 17, 1993), with the cache of Lowe
(Concurrency and Computation 29, 2017): operations that overlap in time are tried in every order
that keeps the order of those that do not overlap. Keys are independent, so each is judged alone
(Herlihy and Wing, ACM TOPLAS 12, 1990, theorem 1).
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvstore.protocol import ALREADY_EXISTS, CREATE, DELETE, NOT_FOUND, OK, RETRIEVE, UPDATE

State = bytes | None
"""The value of the key; None where it is unknown."""


class Event(NamedTuple):
    """One operation on one key, as its client saw it."""

    kind: int
    value: bytes
    """Written by a create or update, or read by a retrieve."""
    status: int
    """OK, NOT_FOUND or ALREADY_EXISTS; any other means that its effect is unknown."""
    sent_s: float
    done_s: float
    """Infinite where the effect is unknown: the server may do it at any time, or never."""
    after: int = -1
    """Index, in the history of the key, of the operation before it in the same batch."""

    @property
    def known(self) -> bool:
        """Whether the client learned what the operation did."""
        return self.done_s < math.inf


def then(state: State, event: Event) -> tuple[State, int, bytes]:
    """Return the state after an operation, its status, and the value that it reads."""
    if event.kind == CREATE:
        return (event.value, OK, b"") if state is None else (state, ALREADY_EXISTS, b"")
    if event.kind == RETRIEVE:
        return (None, NOT_FOUND, b"") if state is None else (state, OK, state)
    if event.kind == UPDATE:
        return (None, NOT_FOUND, b"") if state is None else (event.value, OK, b"")
    assert event.kind == DELETE
    return None, OK, b""


def agrees(event: Event, status: int, read: bytes) -> bool:
    """Return whether the client saw this status and this value."""
    if not event.known:
        return True
    return event.status == status and (
        event.kind != RETRIEVE or status != OK or event.value == read
    )


MOST_TRIED = 200_000
"""Limit on the orders that are tried; a search that needs more has no verdict."""


class Undecided(RuntimeError):
    """A history has too many orders to try all of them."""


def linearizable(history: Sequence[Event]) -> bool:
    """Return whether the operations have an order that explains what the clients saw.

    The history has the operations of one key in the order in which they were sent. Operations of
    unknown effect may be left out. Raises `Undecided`.
    """
    known = sum(1 << number for number, event in enumerate(history) if event.known)
    tried: set[tuple[int, State]] = set()
    waiting: list[tuple[int, State]] = [(0, None)]
    while waiting:
        done, state = waiting.pop()
        if done & known == known:
            return True
        if (done, state) in tried:
            continue
        tried.add((done, state))
        if len(tried) > MOST_TRIED:
            raise Undecided(f"no order of {len(history)} operations in {MOST_TRIED:,} tries")
        for number in _next(history, done):
            event = history[number]
            after, status, read = then(state, event)
            if agrees(event, status, read):
                waiting.append((done | 1 << number, after))
    return False


def _next(history: Sequence[Event], done: int) -> Iterable[int]:
    """Return the operations that may come next: sent before any other one has ended."""
    first_end_s = math.inf
    found = []
    for number, event in enumerate(history):
        if done >> number & 1:
            continue
        if event.sent_s > first_end_s:
            break
        first_end_s = min(first_end_s, event.done_s)
        if event.after < 0 or done >> event.after & 1:
            found.append(number)
    return [number for number in found if history[number].sent_s <= first_end_s]
