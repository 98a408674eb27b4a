"""deadlines.py: what becomes of a call whose caller will not wait, on real servers."""

import time
from types import SimpleNamespace

import grpc
import pytest

from kvstore.server import serving
from kvstore.server.deadlines import too_late
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc, server_status_pb2, server_status_pb2_grpc

DISK_S = 0.2
SETTINGS = {"threads": 1, "read_delay_s": DISK_S, "locking": "per_key"}


@pytest.mark.parametrize(
    ("left_s", "expected"), [(0.0, True), (0.19, True), (0.21, False), (None, False)]
)
def test_a_call_is_late_when_less_is_left_than_it_needs(left_s, expected):
    context = SimpleNamespace(time_remaining=lambda: left_s)

    assert expected == too_late(context, DISK_S)


def done_by(needed_s: float, deadlines_s: list[float | None]) -> tuple[list[str], dict[str, int]]:
    """How calls that are sent at once to one thread end, and what the server says it did."""
    with (
        serving(**SETTINGS, time_needed_s=needed_s) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        grpc.channel_ready_future(channel).result(10)
        stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        calls = []
        for deadline_s in deadlines_s:
            calls.append(stub.Retrieve.future(pb.RetrieveRequest(key=b"k"), timeout=deadline_s))
            time.sleep(0.02)  # so that they stand in the queue in this order
        ended = [call.code().name for call in calls]
        status = server_status_pb2_grpc.ServerStatusServiceStub(channel).GetServerStatus(
            server_status_pb2.GetServerStatusRequest()
        )
        return ended, dict(status.operations)


@pytest.mark.slow
def test_grpc_passes_over_a_call_whose_deadline_has_gone_by():
    """Nobody asked it to, and lesson 08 says so: the second is never begun."""
    ended, done = done_by(0.0, [None, 0.05, None])

    assert ["NOT_FOUND", "DEADLINE_EXCEEDED", "NOT_FOUND"] == ended
    assert {"retrieve/NOT_FOUND": 2} == done


@pytest.mark.slow
@pytest.mark.parametrize("needed_s", [0.0, DISK_S])
def test_a_call_with_too_little_time_left_is_work_for_nobody(needed_s):
    """The second gets its thread with about half of its disk time left."""
    ended, done = done_by(needed_s, [None, 1.5 * DISK_S, None])

    assert ["NOT_FOUND", "DEADLINE_EXCEEDED", "NOT_FOUND"] == ended
    assert (2 if needed_s else 3) == done["retrieve/NOT_FOUND"]
    assert (1 if needed_s else 0) == done.get("retrieve/DEADLINE_EXCEEDED", 0)


@pytest.mark.slow
def test_without_a_deadline_nothing_is_dropped(own_server):
    server = own_server(time_needed_s=1.0, read_delay_s=0.01)
    with grpc.insecure_channel(server.address) as channel:
        retrieve = kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve
        for deadline_s, code in [(None, "NOT_FOUND"), (5, "NOT_FOUND")]:
            with pytest.raises(grpc.RpcError) as refused:
                retrieve(pb.RetrieveRequest(key=b"k"), timeout=deadline_s)
            assert code == refused.value.code().name


@pytest.mark.slow
def test_a_call_whose_caller_goes_is_finished_by_a_thread_and_given_up_by_a_loop(own_server, stack):
    """So after a deadline nobody knows: lesson 08 says it, and this is both ways of it."""
    server = own_server(write_delay_s=DISK_S)
    with grpc.insecure_channel(server.address) as channel:
        grpc.channel_ready_future(channel).result(10)
        stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        gone = stub.Create.future(pb.CreateRequest(key=b"k", value=b"v"), timeout=DISK_S / 2)
        assert "DEADLINE_EXCEEDED" == gone.code().name
        time.sleep(2 * DISK_S)
        found = stub.Retrieve.future(pb.RetrieveRequest(key=b"k")).code().name

    assert ("OK" if stack == "threads" else "NOT_FOUND") == found
