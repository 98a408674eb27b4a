"""A server that keeps its data on disk: what it answered is there again, whatever ended it."""

import os
import signal
import threading

import grpc
import pytest

from kvstore.client import load, workload
from kvstore.client.strategies import pipelined, tasks
from kvstore.measure import audit
from kvstore.server import ServerDidNotStart, ServerSettings, serving, serving_sharded
from kvstore.server.durable import DurableStore
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

HANG_S = 15.0
DURABLE = {"read_delay_s": 0.0, "write_delay_s": 0.0, "locking": "per_key"}


@pytest.mark.slow
def test_what_was_answered_before_a_kill_is_there_after_it(tmp_path, stack):
    """Killed with 16 creates in flight: none that was answered OK is missing or different."""
    settings = {
        **DURABLE, "data_dir": str(tmp_path), "use_asyncio": stack == "asyncio",
        "group_commit": True,
    }  # fmt: skip
    acknowledged: dict[bytes, bytes] = {}
    enough = threading.Event()

    def create(stub: kvstore_pb2_grpc.KeyValueServiceStub, caller: int) -> None:
        for number in range(1_000_000):
            key, value = b"%d of %d" % (number, caller), b"%d" % (number * caller)
            try:
                stub.Create(pb.CreateRequest(key=key, value=value), timeout=HANG_S)
            except grpc.RpcError:
                return  # killed: this one is unknown
            acknowledged[key] = value
            if len(acknowledged) >= 200:
                enough.set()

    with serving(**settings) as server, grpc.insecure_channel(server.address) as channel:
        stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        callers = [threading.Thread(target=create, args=(stub, n)) for n in range(16)]
        for caller in callers:
            caller.start()
        seen = enough.wait(HANG_S)
        os.kill(server.pid, signal.SIGKILL)
        for caller in callers:
            caller.join(HANG_S)
    with serving(**settings) as again, grpc.insecure_channel(again.address) as channel:
        (reply,) = kvstore_pb2_grpc.KeyValueServiceStub(channel).Pipeline(
            iter([pb.PipelineRequest(kinds=b"\2" * len(acknowledged), keys=list(acknowledged))]),
            timeout=HANG_S,
        )

    assert seen
    assert {0} == set(reply.statuses)
    assert list(acknowledged.values()) == list(reply.values)


@pytest.mark.slow
@pytest.mark.parametrize("group_commit", [False, True], ids=["each", "group"])
def test_a_run_loses_nothing_and_who_opens_the_folder_next_finds_it_all(
    group_commit, tmp_path, stack
):
    settings = {
        **DURABLE, "data_dir": str(tmp_path), "group_commit": group_commit, "station_times": True,
        "use_asyncio": stack == "asyncio",
    }  # fmt: skip
    small = workload.crud(mix={"create": 2, "update": 1, "retrieve": 1}, value_bytes_mean=30)
    with serving(**settings) as server:
        runs = [
            load.run(tasks, server, small, in_flight=8, calls=80),
            load.run(pipelined, server, small, in_flight=4, calls=80, batch=8, streams=2),
        ]
        with (
            pytest.raises(ServerDidNotStart, match="another server keeps its data in"),
            serving(**settings),
        ):
            pass
    next_one = DurableStore(ServerSettings(data_dir=str(tmp_path)))
    next_one.close()

    for run in runs:
        assert 80 == run.records["operations"].sum() == sum(run.server["operations"].values())
        assert run.operations_ok == sum(
            count for name, count in run.server["operations"].items() if name.endswith("/OK")
        )
        assert audit(run).holds
    calls = runs[0].calls
    assert (calls[calls["operation"] == "create"]["disk_s"] > 0).all()
    assert sum(run.server["operations"]["create/OK"] for run in runs) == len(next_one)


@pytest.mark.slow
def test_shards_have_folders_of_their_own(tmp_path):
    creates = workload.crud(mix={"create": 1}, sizes="fixed", value_bytes_mean=30)
    with serving_sharded(2, **DURABLE, data_dir=str(tmp_path)) as servers:
        run = load.run(tasks, servers, creates, in_flight=4, calls=20)

    assert {"OK": 20} == run.outcomes()
    assert {"shard-0-of-2", "shard-1-of-2"} == {folder.name for folder in tmp_path.iterdir()}
