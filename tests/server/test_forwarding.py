"""A server in front of another: it passes on calls, refusals, deadlines, and the other's end."""

import os
import signal
import time

import grpc
import pytest
from running import HANG_S, status_of
from stacks import calling

from kvstore.client import load, strategies, workload
from kvstore.measure import audit
from kvstore.server import serving
from kvstore.v1 import kvstore_pb2 as pb

STACKS = {"threads": False, "asyncio": True}
BEHIND = {"read_delay_s": 0.02, "write_delay_s": 0.0, "locking": "per_key", "use_asyncio": True}
READS = workload.reads(value_bytes_mean=100)


@pytest.fixture(scope="module")
def behind():
    with serving(**BEHIND, station_times=True) as server:
        yield server


@pytest.fixture(scope="module")
def front(behind, stack):
    """A front on each stack; tests share it."""
    aio = STACKS[stack]
    with serving(back_end=behind.address, station_times=True, use_asyncio=aio) as front:
        yield front
        assert front.alive(), front.child.error_text()


@pytest.fixture
def ask(front):
    with calling(front.address) as stub:
        yield stub


def refused(method, request, **how):
    with pytest.raises(grpc.RpcError) as error:
        method(request, **{"timeout": HANG_S, **how})
    return error.value.code(), error.value.details()


@pytest.mark.slow
def test_what_the_front_stores_is_stored_behind_it(ask, front, behind, keys):
    key = next(keys)
    before = status_of(front.address).operations
    ask.Create(pb.CreateRequest(key=key, value=b"one"))
    with calling(behind.address) as there:
        assert b"one" == there.Retrieve(pb.RetrieveRequest(key=key)).value
        there.Update(pb.UpdateRequest(key=key, value=b"two"))

    assert b"two" == ask.Retrieve(pb.RetrieveRequest(key=key)).value
    ask.Delete(pb.DeleteRequest(key=key))
    counted = status_of(front.address).operations
    for name in ("create/OK", "retrieve/OK", "delete/OK"):
        assert 1 == counted[name] - before[name]


@pytest.mark.slow
def test_the_callers_time_is_all_the_back_end_gets(own_server):
    """The only place behind is free again with the caller's deadline, not after 50 s of disk."""
    with serving(**{**BEHIND, "read_delay_s": 50}, max_concurrent_rpcs=1) as slow:
        front = own_server(back_end=slow.address)
        with calling(front.address) as stub:
            code, _ = refused(stub.Retrieve, pb.RetrieveRequest(key=b"k"), timeout=0.3)
            end_s = time.perf_counter() + HANG_S
            while (left := in_words(stub)) == "RESOURCE_EXHAUSTED" and time.perf_counter() < end_s:
                time.sleep(0.02)

    assert grpc.StatusCode.DEADLINE_EXCEEDED == code
    assert "OK" == left


def in_words(stub):
    """How a create ends that waits for no disk."""
    try:
        stub.Create(pb.CreateRequest(key=b"k"), timeout=HANG_S)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


@pytest.mark.slow
def test_a_back_end_that_is_gone_is_named_on_every_path(own_server):
    with serving(**BEHIND) as doomed:
        front = own_server(back_end=doomed.address)
        before = load.run(strategies.tasks, front, READS, in_flight=4, calls=20)
        os.kill(doomed.pid, signal.SIGKILL)
        doomed.child.ended(HANG_S)
        creates = workload.Workload(mix={"create": 1}, value_bytes_mean=100)
        after = load.run(strategies.tasks, front, creates, in_flight=4, calls=20)
        with calling(front.address) as stub:
            code, words = refused(stub.Retrieve, pb.RetrieveRequest(key=b"k"))

    assert {"OK": 20} == before.outcomes()
    assert {"UNAVAILABLE": 20} == after.outcomes()
    assert grpc.StatusCode.UNAVAILABLE == code
    assert f"the back end at {doomed.address} cannot be reached, is it running? (" in words
    assert front.alive(), front.child.error_text()
    assert "" == front.child.error_text()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [strategies.bounded, strategies.tasks])
def test_the_stations_of_a_front_sum_to_its_residence_time(strategy, front):
    """Its wait for the back end stands where the disk's time is."""
    run = load.run(strategy, front, READS, in_flight=4, calls=24)
    calls = run.calls
    at_stations_s = calls[["pool_s", "lock_s", "disk_s", "rest_s"]].sum(axis=1)

    assert {"OK": 24} == run.outcomes()
    assert {"retrieve/OK": 24} == run.server.operations
    assert (at_stations_s < calls["residence_s"]).all()
    assert audit(run).holds
    assert calls["disk_s"].min() > 0.5 * BEHIND["read_delay_s"]
