"""Concurrent clients of the contract, and the history of what they saw."""

import math
import random
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import grpc

from kvstore.protocol import (
    ALREADY_EXISTS,
    CREATE,
    DELETE,
    NOT_FOUND,
    OK,
    OWN_CONNECTION,
    RETRIEVE,
    UPDATE,
)
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub
from proofs.linearizable.checker import Event

DEADLINE_S = 2.0
KEYS = 4
"""Keys in use at the same time; few, so that clients meet."""
LIFE = 32
"""Operations on a key before a fresh one takes its place: a search grows with the history."""
BATCH = 4
KNOWN = (OK, NOT_FOUND, ALREADY_EXISTS)
DRAW = (CREATE,) * 5 + (RETRIEVE,) * 8 + (UPDATE,) * 4 + (DELETE,) * 3
AGAIN_SOON = [
    OWN_CONNECTION,
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 50),
]


class History:
    """The events of every key, in the order in which they were sent."""

    def __init__(self, seed: int) -> None:
        self.events: dict[bytes, list[Event]] = defaultdict(list)
        self.operations = 0
        self.known = 0
        """Operations of which the client knows what they did."""
        self._lock = threading.Lock()
        self._seed = seed
        self._keys = [self._fresh(number) for number in range(KEYS)]
        self._used = [0] * KEYS
        self._made = KEYS
        self._values = 0

    def _fresh(self, number: int) -> bytes:
        return b"%d-%d" % (self._seed, number)

    def draw(self, chance: random.Random, count: int) -> list[tuple[int, bytes, bytes]]:
        """Return kind, key and value of the next operations, all on one key if more than one."""
        with self._lock:
            place = chance.randrange(KEYS)
            if self._used[place] >= LIFE:
                self._keys[place], self._used[place] = self._fresh(self._made), 0
                self._made += 1
            self._used[place] += count
            self.operations += count
            key, drawn = self._keys[place], []
            for _ in range(count):
                kind = chance.choice(DRAW)
                self._values += 1
                value = b"%d" % self._values if kind in (CREATE, UPDATE) else b""
                drawn.append((kind, key, value))
            return drawn

    def wait(self, more: int, within_s: float = 30.0) -> bool:
        """Wait until so many more operations are known; return whether that was in time."""
        until, end_s = self.known + more, time.perf_counter() + within_s
        while self.known < until and time.perf_counter() < end_s:
            time.sleep(0.01)
        return self.known >= until

    def add(self, key: bytes, events: Sequence[Event]) -> None:
        """Add the operations of one message, which were applied in this order."""
        with self._lock:
            mine = self.events[key]
            self.known += sum(event.known for event in events)
            for number, event in enumerate(events):
                after = len(mine) - 1 if number else -1
                mine.append(event._replace(after=after))

    def by_key(self) -> list[list[Event]]:
        """Return the history of each key in the order in which its operations were sent."""
        return [_in_order(events) for events in self.events.values()]


def _in_order(events: Sequence[Event]) -> list[Event]:
    """Return the history in order of sending, without reads of which nothing was learned."""
    follows = [event.after for event in events]
    kept = [n for n, each in enumerate(events) if each.known or each.kind != RETRIEVE]
    kept.sort(key=lambda number: events[number].sent_s)
    place = {old: new for new, old in enumerate(kept)}
    return [events[old]._replace(after=_kept_before(old, follows, place)) for old in kept]


def _kept_before(number: int, follows: Sequence[int], place: dict[int, int]) -> int:
    before = follows[number]
    while before >= 0 and before not in place:
        before = follows[before]
    return place.get(before, -1)


class Clients:
    """Threads that call a server until they are stopped, and write down what they saw."""

    def __init__(self, address: str, history: History, threads: int, batches: int) -> None:
        self._history = history
        self._stop = threading.Event()
        self._channels = [
            grpc.insecure_channel(address, options=AGAIN_SOON) for _ in range(threads + batches)
        ]
        self._threads = [
            threading.Thread(target=self._work, args=(number, BATCH if number < batches else 1))
            for number in range(threads + batches)
        ]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for channel in self._channels:
            channel.close()

    def _work(self, number: int, batch: int) -> None:
        chance = random.Random(f"{self._history._seed} {number}")
        stub = KeyValueServiceStub(self._channels[number])
        while not self._stop.is_set():
            drawn = self._history.draw(chance, batch)
            sent_s = time.perf_counter()
            answers = _batch(stub, drawn) if batch > 1 else [_unary(stub, *drawn[0])]
            done_s = time.perf_counter()
            self._history.add(
                drawn[0][1],
                [
                    Event(kind, value or read, status, sent_s, done_s)
                    if status in KNOWN
                    else Event(kind, value, status, sent_s, math.inf)
                    for (kind, _, value), (status, read) in zip(drawn, answers, strict=True)
                ],
            )
            if answers[0][0] not in KNOWN:
                self._until_it_answers(stub)

    def _until_it_answers(self, stub: Any) -> None:
        """Wait for a server that is gone: each call to it would be one more of unknown effect."""
        while not self._stop.is_set():
            try:
                stub.Delete(pb.DeleteRequest(key=b"probe"), timeout=0.5, wait_for_ready=True)
                return
            except grpc.RpcError:
                pass


def _unary(stub: Any, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
    try:
        if kind == CREATE:
            stub.Create(pb.CreateRequest(key=key, value=value), timeout=DEADLINE_S)
        elif kind == RETRIEVE:
            reply = stub.Retrieve(pb.RetrieveRequest(key=key), timeout=DEADLINE_S)
            return OK, bytes(reply.value)
        elif kind == UPDATE:
            stub.Update(pb.UpdateRequest(key=key, value=value), timeout=DEADLINE_S)
        else:
            stub.Delete(pb.DeleteRequest(key=key), timeout=DEADLINE_S)
    except grpc.RpcError as error:
        return int(error.code().value[0]), b""
    return OK, b""


def _batch(stub: Any, drawn: Sequence[tuple[int, bytes, bytes]]) -> list[tuple[int, bytes]]:
    request = pb.PipelineRequest(
        id=1,
        kinds=bytes(kind for kind, _, _ in drawn),
        keys=[key for _, key, _ in drawn],
        values=[value for kind, _, value in drawn if kind in (CREATE, UPDATE)],
    )
    try:
        reply = next(stub.Pipeline(iter([request]), timeout=DEADLINE_S))
    except (grpc.RpcError, StopIteration):
        return [(grpc.StatusCode.UNAVAILABLE.value[0], b"")] * len(drawn)
    values = iter(reply.values)
    return [
        (status, next(values) if kind == RETRIEVE and status == OK else b"")
        for (kind, _, _), status in zip(drawn, reply.statuses, strict=True)
    ]
