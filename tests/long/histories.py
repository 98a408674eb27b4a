"""Concurrent clients of the contract, and the history of what they saw.

Some clients make unary calls, others keep several requests in flight on one stream. A request has
one or several operations, on any of the keys in use. They are applied in their order, and those of
other clients may come in between: for each key, a request is a chain of operations that were open
at the same time.
"""

import itertools
import math
import random
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

import grpc
from long.checker import Event

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

DEADLINE_S, STREAM_S = 5.0, 60.0
LIFE = 32
"""Operations on a key before a fresh one takes its place: a search grows with the history."""
LARGEST_BATCH, WINDOW = 4, 4
"""Operations in a request at most, and requests in flight on one stream."""
REQUESTS_ON_A_STREAM = 200
KNOWN = (OK, NOT_FOUND, ALREADY_EXISTS)
UNKNOWN = (-1, b"")
DRAW = (CREATE,) * 5 + (RETRIEVE,) * 8 + (UPDATE,) * 4 + (DELETE,) * 3
AGAIN_SOON = [
    OWN_CONNECTION,
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 50),
]


class Operation(NamedTuple):
    """One operation of a request."""

    kind: int
    key: bytes
    value: bytes


Answer = tuple[int, bytes]
"""The status of an operation, and the value that it read."""


class History:
    """The events of every key, and what no history can explain."""

    def __init__(self, seed: int, keys: int = 4) -> None:
        self.misfits: list[str] = []
        """Replies that do not fit their request, whatever the server has done."""
        self.seed = seed
        self._events: dict[bytes, list[Event]] = defaultdict(list)
        self._known = 0
        self._changed = threading.Condition()
        self._names = (b"%d-%d" % (seed, number) for number in itertools.count())
        self._keys = [next(self._names) for _ in range(keys)]
        self._used = [0] * keys
        self._values = itertools.count(1)

    def draw(self, chance: random.Random, count: int) -> list[Operation]:
        """Return the operations of the next request; every value is written once."""
        with self._changed:
            drawn = []
            for _ in range(count):
                place = chance.randrange(len(self._keys))
                if self._used[place] >= LIFE:
                    self._keys[place], self._used[place] = next(self._names), 0
                self._used[place] += 1
                kind = chance.choice(DRAW)
                value = b"%d" % next(self._values) if kind in (CREATE, UPDATE) else b""
                drawn.append(Operation(kind, self._keys[place], value))
            return drawn

    def add(self, drawn: Sequence[Operation], answers: Sequence[Answer], sent_s: float) -> None:
        """Add the operations of a request that has just been answered, or will never be."""
        done_s = time.perf_counter()
        with self._changed:
            before: dict[bytes, int] = {}
            for (kind, key, value), (status, read) in zip(drawn, answers, strict=True):
                mine = self._events[key]
                known = status in KNOWN
                mine.append(
                    Event(
                        kind, value or read, status, sent_s,
                        done_s if known else math.inf, before.get(key, -1) if known else -1,
                    )
                )  # fmt: skip
                if known:  # the others may be done later than those after them, or never
                    before[key] = len(mine) - 1
                    self._known += 1
            self._changed.notify_all()

    def wait(self, more: int, within_s: float) -> None:
        """Wait until so many more operations are known. Raises `TimeoutError`."""
        with self._changed:
            until = self._known + more
            if not self._changed.wait_for(lambda: self._known >= until, within_s):
                missing = until - self._known
                raise TimeoutError(f"{missing} of {more} operations are missing in {within_s:g} s")

    def by_key(self) -> list[list[Event]]:
        """Return the history of each key in the order in which its operations were sent."""
        return [_in_order(events) for events in self._events.values()]


def _in_order(events: Sequence[Event]) -> list[Event]:
    """Return the history in order of sending, without reads of which nothing was learned."""
    kept = [n for n, each in enumerate(events) if each.known or each.kind != RETRIEVE]
    kept.sort(key=lambda number: events[number].sent_s)
    place = {old: new for new, old in enumerate(kept)}
    return [events[old]._replace(after=place.get(events[old].after, -1)) for old in kept]


class Clients:
    """Threads that call a server until they are stopped, and write down what they saw."""

    def __init__(self, address: str, history: History, unary: int = 4, streams: int = 2) -> None:
        self._history = history
        self._stop = threading.Event()
        work = [self._calls] * unary + [self._streams] * streams
        self._channels = [grpc.insecure_channel(address, options=AGAIN_SOON) for _ in work]
        self._threads = [
            threading.Thread(
                target=each,
                args=(KeyValueServiceStub(channel), random.Random(f"{history.seed} {number}")),
            )
            for number, (each, channel) in enumerate(zip(work, self._channels, strict=True))
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

    def _calls(self, stub: Any, chance: random.Random) -> None:
        while not self._stop.is_set():
            drawn = self._history.draw(chance, 1)
            sent_s = time.perf_counter()
            answer = _unary(stub, *drawn[0])
            self._history.add(drawn, [answer], sent_s)
            if answer[0] not in KNOWN:
                self._until_it_answers(stub)

    def _streams(self, stub: Any, chance: random.Random) -> None:
        while not self._stop.is_set():
            if not self._one_stream(stub, chance):
                self._until_it_answers(stub)

    def _one_stream(self, stub: Any, chance: random.Random) -> bool:
        """Keep `WINDOW` requests in flight; return whether all of them were answered."""
        requests: SimpleQueue[pb.PipelineRequest | None] = SimpleQueue()
        waiting: dict[int, tuple[list[Operation], float]] = {}

        def send(number: int) -> None:
            drawn = self._history.draw(chance, chance.randint(1, LARGEST_BATCH))
            waiting[number] = drawn, time.perf_counter()
            requests.put(_request(number, drawn))

        for number in range(WINDOW):
            send(number)
        sent, is_open = WINDOW, True
        call = stub.Pipeline(iter(requests.get, None), timeout=STREAM_S)
        try:
            for reply in call:
                if reply.id not in waiting:
                    self._history.misfits.append(f"a reply to no open request: {reply!r:.200}")
                    break
                drawn, sent_s = waiting.pop(reply.id)
                if (answers := _answers(drawn, reply)) is None:
                    self._history.misfits.append(f"{drawn} was answered {reply!r:.200}")
                    answers = [UNKNOWN] * len(drawn)
                self._history.add(drawn, answers, sent_s)
                if is_open and not self._stop.is_set() and sent < REQUESTS_ON_A_STREAM:
                    send(sent)
                    sent += 1
                elif is_open:
                    requests.put(None)  # the client ends its half; the last replies follow
                    is_open = False
        except grpc.RpcError:
            pass
        call.cancel()
        requests.put(None)
        for drawn, sent_s in waiting.values():
            self._history.add(drawn, [UNKNOWN] * len(drawn), sent_s)
        return not waiting

    def _until_it_answers(self, stub: Any) -> None:
        """Wait for a server that is gone: each call to it would be one more of unknown effect."""
        while not self._stop.is_set():
            try:
                stub.Delete(pb.DeleteRequest(key=b"probe"), timeout=0.5, wait_for_ready=True)
                return
            except grpc.RpcError:
                pass


def _unary(stub: Any, kind: int, key: bytes, value: bytes) -> Answer:
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


def _request(number: int, drawn: Sequence[Operation]) -> pb.PipelineRequest:
    return pb.PipelineRequest(
        id=number,
        kinds=bytes(each.kind for each in drawn),
        keys=[each.key for each in drawn],
        values=[each.value for each in drawn if each.kind in (CREATE, UPDATE)],
    )


def _answers(drawn: Sequence[Operation], reply: pb.PipelineResponse) -> list[Answer] | None:
    """Return the answer to each operation; None if the reply does not fit the request.

    A retrieve that is OK has one value, and nothing else has one.
    """
    if len(reply.statuses) != len(drawn):
        return None
    reads = [
        each.kind == RETRIEVE and status == OK
        for each, status in zip(drawn, reply.statuses, strict=True)
    ]
    if sum(reads) != len(reply.values):
        return None
    values = iter(reply.values)
    return [
        (status, next(values) if read else b"")
        for status, read in zip(reply.statuses, reads, strict=True)
    ]
