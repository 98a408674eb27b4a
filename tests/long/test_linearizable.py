"""Histories of concurrent clients are linearizable, also if the server is killed meanwhile.

Porcupine, a checker in Go, judges them: each key has a history of its own (Herlihy and Wing, ACM
TOPLAS 12, 1990, theorem 1). An operation without an answer may take effect at any later time.
"""

import contextlib
import itertools
import json
import random
import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import grpc
import pytest
from relay import relaying

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
from kvstore.server import EtcdNotInstalled, etcd_cluster, serving
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

JUDGE = Path(__file__).with_name("porcupine")
OPERATIONS, KILLS = 10_000, 10
OPERATIONS_OF_A_KEY = 32
"""Then a fresh key takes its place: the time of a judgement grows fast with a history."""
WINDOW, LARGEST_BATCH = 4, 3
KINDS = (CREATE,) * 5 + (RETRIEVE,) * 8 + (UPDATE,) * 4 + (DELETE,) * 3
NO_ANSWER = (-1, b"")
RECONNECT_SOON = [OWN_CONNECTION, ("grpc.max_reconnect_backoff_ms", 50)]
NO_DELAYS = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}


class Operation(NamedTuple):
    """An operation of a request."""

    kind: int
    key: bytes
    value: bytes


class History:
    """The operations of all clients, key by key, with what each client saw of them."""

    def __init__(self, keys: int = 8) -> None:
        self.by_key: dict[bytes, list[dict[str, Any]]] = defaultdict(list)
        self._names, self._values = itertools.count(), itertools.count(1)
        self._keys = [b"%d" % next(self._names) for _ in range(keys)]
        self._drawn = [0] * keys
        self._answered = 0
        self._changed = threading.Condition()

    def draw(self, generator: random.Random, count: int) -> list[Operation]:
        """Return operations on distinct keys; no value is written twice."""
        with self._changed:
            operations = []
            for place in generator.sample(range(len(self._keys)), count):
                if self._drawn[place] == OPERATIONS_OF_A_KEY:
                    self._keys[place], self._drawn[place] = b"%d" % next(self._names), 0
                self._drawn[place] += 1
                kind = generator.choice(KINDS)
                value = b"%d" % next(self._values) if kind in (CREATE, UPDATE) else b""
                operations.append(Operation(kind, self._keys[place], value))
            return operations

    def add(self, operations: Sequence[Operation], answers: Sequence[Any], sent_s: float) -> None:
        """Add the operations of a request that has just been answered, or never will be."""
        done_s = time.perf_counter()
        with self._changed:
            for (kind, key, value), (status, read) in zip(operations, answers, strict=True):
                is_known = status in (OK, NOT_FOUND, ALREADY_EXISTS)
                if is_known or kind != RETRIEVE:
                    self.by_key[key].append(
                        {
                            "kind": kind,
                            "value": (value or read).decode(),
                            "status": status if is_known else -1,
                            "call": int(sent_s * 1e9),
                            "return": int(done_s * 1e9) if is_known else 1 << 62,
                        }
                    )
                self._answered += is_known
            self._changed.notify_all()

    def wait(self, more: int) -> None:
        """Wait until this many more operations were answered. Raises `TimeoutError`."""
        with self._changed:
            goal = self._answered + more
            if not self._changed.wait_for(lambda: self._answered >= goal, timeout=180):
                raise TimeoutError(f"{goal - self._answered} of {more} operations have no answer")


@contextmanager
def clients(address: str, history: History) -> Iterator[None]:
    """Call the server from four threads with unary calls and from two with streams."""
    stopped = threading.Event()

    def run(request: Callable[..., bool], seed: int) -> None:
        generator = random.Random(seed)
        with grpc.insecure_channel(address, options=RECONNECT_SOON) as channel:
            stub = KeyValueServiceStub(channel)
            while not stopped.is_set():
                if not request(stub, history, generator, stopped):
                    with contextlib.suppress(grpc.RpcError):  # wait for a server that is gone
                        stub.Delete(pb.DeleteRequest(key=b"-"), timeout=1, wait_for_ready=True)

    requests = [unary_call] * 4 + [stream] * 2
    threads = [threading.Thread(target=run, args=(each, n)) for n, each in enumerate(requests)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def unary_call(stub: Any, history: History, generator: random.Random, _: threading.Event) -> bool:
    """Make one unary call; return whether its effect is known."""
    ((kind, key, value),) = operations = history.draw(generator, 1)
    sent_s, answer = time.perf_counter(), (OK, b"")
    try:
        if kind == CREATE:
            stub.Create(pb.CreateRequest(key=key, value=value), timeout=5)
        elif kind == RETRIEVE:
            answer = OK, stub.Retrieve(pb.RetrieveRequest(key=key), timeout=5).value
        elif kind == UPDATE:
            stub.Update(pb.UpdateRequest(key=key, value=value), timeout=5)
        else:
            stub.Delete(pb.DeleteRequest(key=key), timeout=5)
    except grpc.RpcError as error:
        answer = error.code().value[0], b""
    history.add(operations, [answer], sent_s)
    return answer[0] in (OK, NOT_FOUND, ALREADY_EXISTS)


def stream(stub: Any, history: History, generator: random.Random, stopped: threading.Event) -> bool:
    """Keep `WINDOW` batches in flight on one stream; return whether all were answered."""
    requests: SimpleQueue[pb.PipelineRequest | None] = SimpleQueue()
    waiting: dict[int, tuple[list[Operation], float]] = {}
    numbers = iter(range(100))

    def send() -> None:
        if stopped.is_set() or (number := next(numbers, None)) is None:
            requests.put(None)
            return
        operations = history.draw(generator, generator.randint(1, LARGEST_BATCH))
        waiting[number] = operations, time.perf_counter()
        requests.put(
            pb.PipelineRequest(
                id=number,
                kinds=bytes(each.kind for each in operations),
                keys=[each.key for each in operations],
                values=[each.value for each in operations if each.kind in (CREATE, UPDATE)],
            )
        )

    for _ in range(WINDOW):
        send()
    try:
        for reply in stub.Pipeline(iter(requests.get, None), timeout=60):
            operations, sent_s = waiting.pop(reply.id)
            values = iter(reply.values)
            answers = [
                (status, next(values) if each.kind == RETRIEVE and status == OK else b"")
                for each, status in zip(operations, reply.statuses, strict=True)
            ]
            assert next(values, None) is None, f"more values than reads: {reply}"
            history.add(operations, answers, sent_s)
            send()
    except grpc.RpcError:
        pass
    requests.put(None)
    for operations, sent_s in waiting.values():
        history.add(operations, [NO_ANSWER] * len(operations), sent_s)
    return not waiting


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[Any]], list[str]]:
    """Build porcupine; return the function that says Ok, Illegal or Unknown of each history."""
    if shutil.which("go") is None:
        pytest.skip("porcupine needs Go")
    program = tmp_path_factory.mktemp("porcupine") / "judge"
    build = subprocess.run(
        ["go", "build", "-o", program, "."], cwd=JUDGE, capture_output=True, text=True
    )
    if build.returncode:
        pytest.skip(f"porcupine could not be built: {build.stderr.strip()[-200:]}")

    def judge(histories: Sequence[Any]) -> list[str]:
        lines = "\n".join(map(json.dumps, histories))
        return subprocess.run(
            [program], input=lines, capture_output=True, text=True, timeout=400, check=True
        ).stdout.split()

    return judge


@pytest.fixture
def check(verdicts, record_property) -> Callable[[History, int], None]:
    """Judge a history of at least this many operations."""

    def judge(history: History, operations: int) -> None:
        histories = list(history.by_key.values())
        count = sum(map(len, histories))
        record_property("judged", f"{len(histories)} histories with {count} operations")
        assert count >= operations
        for events, verdict in zip(histories, verdicts(histories), strict=True):
            assert verdict == "Ok", events

    return judge


def event(kind: int, value: str, status: int, call: int, done: int) -> dict[str, Any]:
    return {"kind": kind, "value": value, "status": status, "call": call, "return": done}


def test_the_judge_knows_the_contract(verdicts):
    created = event(CREATE, "a", OK, 0, 1)
    may_be_created = event(CREATE, "a", -1, 0, 1 << 62)
    nothing = event(RETRIEVE, "", NOT_FOUND, 4, 5)

    assert verdicts(
        [
            [created, event(CREATE, "b", ALREADY_EXISTS, 2, 3), event(RETRIEVE, "a", OK, 4, 5)],
            [created, event(UPDATE, "b", OK, 2, 3), event(RETRIEVE, "a", OK, 4, 5)],
            [created, nothing],
            [created, event(DELETE, "", OK, 2, 3), nothing],
            [may_be_created, nothing],
            [may_be_created, event(RETRIEVE, "a", OK, 2, 3), nothing],
        ]
    ) == ["Ok", "Illegal", "Illegal", "Ok", "Ok", "Illegal"]


@pytest.mark.parametrize(
    ("locking", "use_asyncio"), [("global", False), ("per_key", False), ("per_key_held", True)]
)
def test_the_store_in_memory(locking, use_asyncio, check):
    history = History()
    settings = {**NO_DELAYS, "locking": locking}
    with serving(**settings, use_asyncio=use_asyncio) as server, clients(server.address, history):
        history.wait(OPERATIONS)

    check(history, OPERATIONS)


def test_sqlite_while_the_server_is_killed(check, tmp_path):
    """A relay keeps the address: while no server listens, another program may take a port."""
    history = History()
    store = f"sqlite:{tmp_path}/data"
    with contextlib.ExitStack() as stack:
        relay = None
        for _ in range(KILLS):
            with serving(store=store, use_asyncio=True, group_commit=True, **NO_DELAYS) as server:
                if relay is None:
                    relay = stack.enter_context(relaying(server.address))
                    stack.enter_context(clients(relay.address, history))
                relay.server = server.address
                history.wait(150)
                server.kill()

    check(history, 150 * KILLS)


def test_etcd_while_leaders_are_killed(check):
    history = History()
    try:
        with (
            etcd_cluster(3) as cluster,
            serving(store=cluster.store, use_asyncio=True) as server,
            clients(server.address, history),
        ):
            for _ in range(KILLS):
                history.wait(150)
                leader = cluster.leader()
                leader.kill()
                history.wait(50)
                leader.start()
                cluster.wait_until_healthy()
    except EtcdNotInstalled as missing:
        pytest.skip(f"etcd: {missing}")

    check(history, 200 * KILLS)
