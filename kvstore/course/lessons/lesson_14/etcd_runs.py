"""Runs of lesson 14 on an etcd cluster: puts, a race, two kinds of read, and a killed leader.

Each function starts what it needs, and ends it. Raises EtcdNotInstalled where there is no etcd. Ask
`is_installed` before: it says how to install one, and shows what a reference machine measured.
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
import psutil

from kvstore.client.channel import OPTIONS
from kvstore.course import progress, rendering
from kvstore.course.views.style import rounded
from kvstore.protocol import RETRIEVE
from kvstore.server import EtcdNotInstalled, etcd_cluster, serving
from kvstore.server.etcd_nodes import EtcdCluster, EtcdNode, found_etcd
from kvstore.v1 import etcd_pb2, kvstore_pb2
from kvstore.v1.etcd_pb2_grpc import KVStub
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

DEADLINE_S: Final = 10.0
VALUE: Final = bytes(64)


# ---- puts ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PutRun:
    """Puts of 64 bytes to the leader, for one number in flight."""

    in_flight: int
    puts_per_s: float
    residence_s: float
    fsync_s: float
    """Mean of an fsync of the leader's log, by etcd's own count."""
    puts_per_fsync: float
    cpu_s: float
    """CPU time of a put: the client and all nodes."""


@dataclass(frozen=True)
class Puts:
    """One run for each number in flight."""

    runs: tuple[PutRun, ...]

    def table(self) -> pd.DataFrame:
        """Return one row for each run."""
        rows = [
            {
                "in flight": run.in_flight,
                "measured (puts/s)": round(run.puts_per_s),
                "puts per fsync": round(run.puts_per_fsync, 1),
                "fsync (ms)": round(1e3 * run.fsync_s, 2),
                "residence (ms)": round(1e3 * run.residence_s, 2),
                "CPU time (µs)": round(1e6 * run.cpu_s),
            }
            for run in self.runs
        ]
        return rounded(pd.DataFrame(rows).set_index("in flight"))


def puts(in_flight: Sequence[int], *, duration_s: float) -> Puts:
    """Send puts to the leader of three nodes, for each number in flight."""
    with etcd_cluster() as cluster, _channel(cluster.leader().address) as channel:
        stub = KVStub(channel)
        _put_for(stub, 4, min(0.3, duration_s))
        return Puts(tuple(_put_run(cluster, stub, n, duration_s) for n in in_flight))


def _put_run(cluster: EtcdCluster, stub: KVStub, in_flight: int, duration_s: float) -> PutRun:
    leader = cluster.leader()
    before, cpu_s = leader.fsyncs(), _cpu_s(cluster.nodes)
    count, window_s = _put_for(stub, in_flight, duration_s)
    after = leader.fsyncs()
    cpu_s = _cpu_s(cluster.nodes) - cpu_s
    commits = max(1, after.times - before.times)
    return PutRun(
        in_flight,
        count / window_s,
        in_flight * window_s / count,
        (after.seconds - before.seconds) / commits,
        count / commits,
        cpu_s / count,
    )


def _cpu_s(nodes: Sequence[EtcdNode]) -> float:
    processes = [psutil.Process(), *(psutil.Process(node.pid) for node in nodes)]
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))


def _put_for(stub: KVStub, in_flight: int, duration_s: float) -> tuple[int, float]:
    """Keep so many puts in flight; return how many ended OK, and the seconds until the last."""
    free, codes = threading.Semaphore(in_flight), Counter[grpc.StatusCode]()
    began_s = time.perf_counter()

    def ended(call: Any) -> None:
        codes[call.code()] += 1
        free.release()

    number = 0
    while time.perf_counter() - began_s < duration_s:
        free.acquire()
        request = etcd_pb2.PutRequest(key=b"%d" % (number % 1000), value=VALUE)
        stub.Put.future(request, timeout=DEADLINE_S).add_done_callback(ended)
        number += 1
    for _ in range(in_flight):
        free.acquire()
    if set(codes) != {grpc.StatusCode.OK}:
        raise RuntimeError(f"etcd answered {dict(codes)}: is this machine overloaded?")
    return number, time.perf_counter() - began_s


# ---- a race ----------------------------------------------------------------------------------


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
        told = kept = 0
        with ThreadPoolExecutor(clients) as threads:
            together = threading.Barrier(clients)
            for number in range(keys):
                key = b"raced %d" % number

                def one(client: int, key: bytes = key) -> bool:
                    together.wait(DEADLINE_S)
                    return bool(create(stubs[client], key, b"client %d" % client))

                created = list(threads.map(one, range(clients)))
                read = stubs[0].Range(etcd_pb2.RangeRequest(key=key), timeout=DEADLINE_S)
                told += sum(created)
                if sum(created) == 1 and len(read.kvs) == 1:
                    kept += read.kvs[0].value == b"client %d" % created.index(True)
        return Race(clients, keys, told, kept)


# ---- reads ---------------------------------------------------------------------------------


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
        there = found(stub, [*writer.acknowledged, *writer.unknown])
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


def found(stub: Any, keys: Sequence[bytes]) -> dict[bytes, bytes]:
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


# ---- a machine without etcd ------------------------------------------------------------------


REFERENCE: Final = Puts(
    (
        PutRun(1, 1004, 0.00100, 0.00030, 1.0, 0.00146),
        PutRun(4, 2033, 0.00197, 0.00030, 1.3, 0.00078),
        PutRun(8, 2754, 0.00291, 0.00035, 1.9, 0.00058),
        PutRun(32, 5602, 0.00571, 0.00039, 4.5, 0.00030),
    )
)
"""What `puts` measured on the reference machine."""
REFERENCE_MACHINE: Final = (
    "etcd 3.4.23, Debian 12, 2 virtual cores, nothing beside it, November 2026"
)
REFERENCE_GAP: Final = (
    "Elsewhere twelve leaders were killed: no write was acknowledged for 1.1 s to 2.7 s, 1.5 s on"
    " average."
)


def is_installed() -> bool:
    """Return whether runs with etcd can be made here.

    If not, say how to install it, and show what the reference machine measured.
    """
    try:
        found_etcd()
    except EtcdNotInstalled as missing:
        print(f"Rounds 2 and 3 make no run here: {missing}.\n\nElsewhere: {REFERENCE_MACHINE}.")
        table = REFERENCE.table()
        rendering.show({"text/plain": table.to_string(), "text/html": table.to_html()})
        return False
    return True
