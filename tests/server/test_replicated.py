"""A front with replicas: an order that all keep, a quorum, and servers that are frozen or gone."""

import asyncio
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest
from running import HANG_S
from tables import for_each

from kvstore.client import load, strategies, workload
from kvstore.measure import audit
from kvstore.protocol import CREATE, INVALID_ARGUMENT, OK, UNAVAILABLE
from kvstore.server import ServerSettings, replicated, serving_replicated
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

REPLICA = {"read_delay_s": 0.0, "write_delay_s": 0.001, "locking": "per_key"}
CREATES = workload.crud(mix={"create": 1}, sizes="fixed", value_bytes_mean=30)
ADDRESSES = "127.0.0.1:9,127.0.0.1:10,127.0.0.1:11"


@pytest.fixture
def requested():
    """A stub for a server: `asked(server)`."""
    with ExitStack() as channels:
        yield lambda server: kvstore_pb2_grpc.KeyValueServiceStub(
            channels.enter_context(grpc.insecure_channel(server.address))
        )


@pytest.fixture(scope="module")
def three():
    """Pools of threads: nothing in a replica keeps calls in the order in which they were sent."""
    with serving_replicated(3 * [REPLICA], write_quorum=2, station_times=True) as servers:
        yield servers
        assert "" == servers.front.child.error_text()


@pytest.mark.slow
@for_each("strategy", [strategies.tasks, strategies.pipelined])
def test_every_call_ends_once_on_the_front(strategy, three):
    run = load.run(strategy, three.front, workload.crud(value_bytes_mean=30), in_flight=6, calls=60)

    assert 60 == sum(run.server["operations"].values())
    assert set(run.outcomes()) <= {"OK", "NOT_FOUND", "ALREADY_EXISTS"}
    assert audit(run).holds


@pytest.mark.slow
def test_all_replicas_get_the_writes_of_a_key_in_one_order(three, requested, keys):
    front, key = requested(three.front), next(keys)
    front.Create(pb.CreateRequest(key=key), timeout=HANG_S)
    with ThreadPoolExecutor(8) as callers:
        updates = [
            callers.submit(front.Update, pb.UpdateRequest(key=key, value=b"%d" % n), timeout=HANG_S)
            for n in range(80)
        ]
    for update in updates:
        update.result()
    ask = pb.RetrieveRequest(key=key)
    last = {front.Retrieve(ask, timeout=HANG_S).value for _ in range(3)}
    end_s = time.perf_counter() + HANG_S
    while time.perf_counter() < end_s:  # the slowest of them may lag behind for a moment
        kept = {requested(server).Retrieve(ask, timeout=HANG_S).value for server in three.replicas}
        if kept == last:
            break

    assert 1 == len(last)
    assert last == kept


@pytest.mark.slow
def test_what_no_replica_needs_to_be_asked_is_refused(three, requested):
    request = pb.PipelineRequest(kinds=b"\x63\1", keys=[b"k", b""], values=[b"v"])
    (reply,) = requested(three.front).Pipeline(iter([request]), timeout=HANG_S)

    assert bytes([INVALID_ARGUMENT]) * 2 == reply.statuses


@pytest.mark.slow
def test_a_majority_goes_on_without_the_third_and_not_without_two(requested, keys):
    first, second = next(keys), next(keys)
    with serving_replicated(3 * [REPLICA], write_quorum=2) as servers:
        front, slow = requested(servers.front), servers.replicas[2]
        os.kill(slow.pid, signal.SIGSTOP)
        front.Create(pb.CreateRequest(key=first, value=b"1"), timeout=HANG_S)
        seen = {
            front.Retrieve(pb.RetrieveRequest(key=first), timeout=HANG_S).value for _ in range(6)
        }
        os.kill(slow.pid, signal.SIGCONT)
        caught_up = waited_for(requested(slow), first)
        servers.kill(2)
        without_one = load.run(strategies.tasks, servers.front, CREATES, in_flight=4, calls=40)
        front.Create(pb.CreateRequest(key=second, value=b"2"), timeout=HANG_S)
        servers.kill(1)
        without_two = load.run(strategies.tasks, servers.front, CREATES, in_flight=4, calls=40)
        with pytest.raises(grpc.RpcError) as refused:
            front.Delete(pb.DeleteRequest(key=second), timeout=HANG_S)
        still = [
            front.Retrieve(pb.RetrieveRequest(key=key), timeout=HANG_S).value
            for key in (first, second)
        ]
        report = servers.front.child.error_text()

    assert {b"1"} == seen  # the one that lags is not asked
    assert b"1" == caught_up
    assert {"OK": 40} == without_one.outcomes()
    assert {"UNAVAILABLE": 40} == without_two.outcomes()
    assert "too few replicas have answered" in refused.value.details()
    assert [b"1", b"2"] == still
    assert 2 == report.count("missed a write and gets no more calls")


def waited_for(stub, key):
    """The value, once the replica has it."""
    end_s = time.perf_counter() + HANG_S
    while time.perf_counter() < end_s:
        try:
            return stub.Retrieve(pb.RetrieveRequest(key=key), timeout=HANG_S).value
        except grpc.RpcError:
            time.sleep(0.02)
    return None


@pytest.mark.slow
def test_where_all_must_answer_one_that_is_killed_stops_the_writes():
    """In mid-run: what was sent is answered OK or refused by name, and nothing is lost."""
    with serving_replicated(3 * [REPLICA], write_quorum=3) as servers:
        killer = threading.Timer(0.2, servers.kill, [0])
        killer.start()
        run = load.run(strategies.tasks, servers.front, CREATES, in_flight=4, duration_s=0.5)
        killer.join()

    assert set(run.outcomes()) <= {"OK", "UNAVAILABLE"}
    assert run.issued == sum(run.outcomes().values())
    assert OK != run.records["status"][-1]
    assert audit(run).holds


def test_a_replica_that_stands_still_does_not_fill_the_memory(monkeypatch, caplog):
    """A socket that accepts connections and never answers."""
    monkeypatch.setattr(replicated, "MOST_BEHIND", 3)

    async def writes(address: str) -> tuple[int, bool, int]:
        replica = replicated.Replica(address)
        waiting = [asyncio.create_task(replica.write(CREATE, b"%d" % n, b"")) for n in range(3)]
        await asyncio.sleep(0)
        status = await replica.write(CREATE, b"3", b"")
        report = status, replica.lost, sum(not task.done() for task in waiting)
        await replica.close()
        await asyncio.gather(*waiting, return_exceptions=True)
        return report

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        report = asyncio.run(writes(f"127.0.0.1:{silent.getsockname()[1]}"))

    assert (UNAVAILABLE, True, 3) == report
    assert "gets no more calls: it is 3 writes behind" in caplog.text


@for_each(
    ("says", "settings"),
    [
        ("2 back ends need write_quorum: how many", {"back_end": ADDRESSES[:24]}),
        ("back_end must be host:port", {"back_end": "127.0.0.1:9,", "write_quorum": 1}),
        ("write_quorum needs back_end", {"write_quorum": 1}),
        ("write_quorum must be .* from 1 to 3, got 4", {"back_end": ADDRESSES, "write_quorum": 4}),
        ("write_quorum must be .* got 0", {"back_end": ADDRESSES, "write_quorum": 0}),
        ("write_quorum needs use_asyncio=True", {"back_end": ADDRESSES, "write_quorum": 2}),
    ],
)
def test_settings_that_make_no_sense_are_refused(says, settings):
    with pytest.raises(ValueError, match=says):
        ServerSettings(**settings)


@for_each("count", [0, 17])
def test_as_many_replicas_as_were_never_meant_are_refused(count):
    with (
        pytest.raises(ValueError, match=f"replicas must be from 1 to 16, got {count}"),
        serving_replicated(count * [REPLICA], write_quorum=1),
    ):
        pass
