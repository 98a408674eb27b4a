"""Runs of lesson 14 on an etcd cluster: a race, and a killed leader.

Each function starts what it needs, and ends it. Raises EtcdNotInstalled where there is no etcd. Ask
`is_installed` before: it says how to install one.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
import pandas as pd

from kvstore.client.channel import OPTIONS
from kvstore.course import progress
from kvstore.protocol import RETRIEVE
from kvstore.server import EtcdNotInstalled, etcd_cluster, serving
from kvstore.server.etcd_nodes import found_etcd
from kvstore.v1 import etcd_pb2, kvstore_pb2
from kvstore.v1.etcd_pb2_grpc import KVStub
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

DEADLINE_S: Final = 10.0


@dataclass(frozen=True)
class Race:
    """Clients at different nodes that all try to create the same keys at the same time."""

    clients: int
    keys: int
    told_created: int
    """How many calls returned True."""
    kept: int
    """Keys that one client was told to have created, and that have this client's value."""

    def table(self) -> pd.DataFrame:
        """Return the counts, of the replies and of the keys."""
        counts = {
            "keys": self.keys,
            "calls": self.clients * self.keys,
            "calls that returned True": self.told_created,
            "keys with one creator, and its value": self.kept,
        }
        return pd.DataFrame({"count": counts})


def race(create: Callable[[Any, bytes, bytes], bool], *, clients: int, keys: int) -> Race:
    """Let all clients call `create(stub, key, value)` at once, for one key after the other.

    The clients are spread over the three nodes. Raises what `create` raises.
    """
    with etcd_cluster() as cluster, ExitStack() as opened:
        addresses = [node.address for node in cluster.nodes]
        stubs = [
            KVStub(opened.enter_context(_channel(addresses[each % len(addresses)])))
            for each in range(clients)
        ]
        for stub in stubs:  # each connection is ready, and its node knows the leader
            stub.Range(etcd_pb2.RangeRequest(key=b"ready"), timeout=DEADLINE_S)
        successes = kept = 0
        with ThreadPoolExecutor(clients) as threads:
            together = threading.Barrier(clients)
            for number in range(keys):
                key = b"raced %d" % number

                def one(client: int, key: bytes = key) -> bool:
                    together.wait(DEADLINE_S)
                    return bool(create(stubs[client], key, b"client %d" % client))

                created = list(threads.map(one, range(clients)))
                read = stubs[0].Range(etcd_pb2.RangeRequest(key=key), timeout=DEADLINE_S)
                successes += sum(created)
                if sum(created) == 1 and len(read.kvs) == 1:
                    kept += read.kvs[0].value == b"client %d" % created.index(True)
        return Race(clients, keys, successes, kept)


@dataclass(frozen=True)
class Failover:
    """Creates at a constant rate through our server on etcd, while leaders are killed."""

    election_timeout_s: float
    heartbeat_s: float
    rate_per_s: float
    deadline_s: float
    kills_s: tuple[float, ...]
    """When each leader was killed, in seconds since the first create."""
    acknowledged_s: tuple[float, ...]
    """When each create that ended OK was answered, in order."""
    missing: int
    """Acknowledged creates that were not found afterwards; all were read."""
    unknown: Mapping[str, int]
    """Creates without an answer, by status."""
    unknown_found: int
    """Those of them that were executed all the same."""

    def gaps_s(self) -> tuple[float, ...]:
        """Return the longest time between two acknowledged creates around each kill."""
        ends = [*self.kills_s[1:], float("inf")]
        return tuple(
            max(
                (
                    later - earlier
                    for earlier, later in zip(
                        self.acknowledged_s, self.acknowledged_s[1:], strict=False
                    )
                    if kill_s < later <= end_s
                ),
                default=float("inf"),
            )
            for kill_s, end_s in zip(self.kills_s, ends, strict=True)
        )

    def mean_gap_s(self) -> float:
        """Return the mean of the gaps."""
        gaps_s = self.gaps_s()
        return sum(gaps_s) / len(gaps_s)


class _Writer:
    """Creates keys at a constant rate in a thread, and notes how each create ended."""

    def __init__(self, stub: Any, rate_per_s: float, deadline_s: float) -> None:
        self._stub, self._rate, self._deadline_s = stub, rate_per_s, deadline_s
        self._stopped = threading.Event()
        self._ended = threading.Condition()
        self._in_flight = 0
        self.began_s = time.perf_counter()
        self.acknowledged: dict[bytes, float] = {}
        self.unknown: dict[bytes, str] = {}
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more, and wait until every create has ended."""
        self._stopped.set()
        self._thread.join()
        with self._ended:
            self._ended.wait_for(lambda: not self._in_flight)

    def now_s(self) -> float:
        """Return the seconds since the first create."""
        return time.perf_counter() - self.began_s

    def _write(self) -> None:
        number = 0
        while not self._stopped.wait(max(0.0, number / self._rate - self.now_s())):
            key = b"write %d" % number
            with self._ended:
                self._in_flight += 1
            call = self._stub.Create.future(
                kvstore_pb2.CreateRequest(key=key, value=key), timeout=self._deadline_s
            )
            call.add_done_callback(lambda call, key=key: self._note(key, call.code()))
            number += 1

    def _note(self, key: bytes, code: grpc.StatusCode) -> None:
        with self._ended:
            if code is grpc.StatusCode.OK:
                self.acknowledged[key] = self.now_s()
            else:
                self.unknown[key] = code.name
            self._in_flight -= 1
            self._ended.notify_all()


def failover(
    *,
    kills: int,
    closes: str,
    election_timeout_s: float = 1.0,
    rate_per_s: float = 100.0,
    deadline_s: float = 0.3,
) -> Failover:
    """Kill the leader `kills` times under load, and read every acknowledged create afterwards.

    A killed node is started again. No prediction is accepted for the question `closes` from now on.
    """
    progress.close(closes)
    with (
        etcd_cluster(election_timeout_s=election_timeout_s) as cluster,
        serving(store=cluster.store, use_asyncio=True) as server,
        _channel(server.address) as channel,
    ):
        stub = KeyValueServiceStub(channel)
        writer = _Writer(stub, rate_per_s, deadline_s)
        kills_s = []
        try:
            for number in range(1, kills + 1):
                print(f"kill {number} of {kills}", end="\r", flush=True)
                time.sleep(0.5)  # the load has been steady for a while
                leader = cluster.leader()
                kills_s.append(writer.now_s())
                leader.kill()
                _await_answers(writer, kills_s[-1])
                leader.start()
                cluster.wait_until_healthy()
        finally:
            writer.stop()
        there = entries_present(stub, [*writer.acknowledged, *writer.unknown])
    return Failover(
        election_timeout_s,
        cluster.heartbeat_s,
        rate_per_s,
        deadline_s,
        tuple(kills_s),
        tuple(sorted(writer.acknowledged.values())),
        sum(there.get(key) != key for key in writer.acknowledged),
        dict(Counter(writer.unknown.values())),
        sum(key in there for key in writer.unknown),
    )


def _await_answers(writer: _Writer, since_s: float) -> None:
    """Return when creates that were sent after the kill are answered again, or after 30 s."""
    end_s = time.perf_counter() + 30.0
    while time.perf_counter() < end_s:
        time.sleep(0.05)
        recent = list(writer.acknowledged.values())[-5:]
        if recent and min(recent) > since_s + 0.5 and writer.now_s() - max(recent) < 0.2:
            return


def entries_present(stub: Any, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Read all of these keys in batches; return those that are there, with their values."""
    there: dict[bytes, bytes] = {}
    for first in range(0, len(keys), 100):
        batch = keys[first : first + 100]
        request = kvstore_pb2.PipelineRequest(kinds=bytes([RETRIEVE]) * len(batch), keys=batch)
        (reply,) = stub.Pipeline(iter([request]), timeout=6 * DEADLINE_S)
        values = iter(reply.values)
        for key, status in zip(batch, reply.statuses, strict=True):
            if status == grpc.StatusCode.OK.value[0]:
                there[key] = next(values)
            elif status != grpc.StatusCode.NOT_FOUND.value[0]:
                raise RuntimeError(f"{key!r} could not be read: status {status}")
    return there


@contextmanager
def _channel(address: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        yield channel


REFERENCE_GAP: Final = (
    "Elsewhere twelve leaders were killed: no write was acknowledged for 1.1 s to 2.7 s, 1.5 s on"
    " average."
)


def is_installed() -> bool:
    """Return whether runs with etcd can be made here; if not, say how to install it."""
    try:
        found_etcd()
    except EtcdNotInstalled as missing:
        print(f"Rounds 2 and 3 make no run here: {missing}.")
        return False
    return True
