"""A server at a distance: the proxy delivers later, in order, and without a loss."""

import time

import grpc
import pytest
from stacks import calling

from kvstore.client import load, strategies, workload
from kvstore.server import at_distance, serving
from kvstore.v1.kvstore_pb2 import CreateRequest, RetrieveRequest

QUICK = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}
ROUND_TRIP_S = 0.2


@pytest.mark.slow
def test_a_call_takes_a_round_trip_longer_and_no_call_is_lost():
    with serving(**QUICK) as server, at_distance(server, round_trip_s=ROUND_TRIP_S) as far:
        near = load.run(strategies.bounded, server, workload.crud(seed=1), in_flight=20, calls=200)
        run = load.run(strategies.bounded, far, workload.crud(seed=1), in_flight=20, calls=200)

    assert run.latency_s(0.0) >= ROUND_TRIP_S > near.latency_s(0.0)
    assert run.issued == run.server.answered == 200
    # Calls in flight share the wire: they do not wait for each other's round trips.
    assert run.window_s < 200 * ROUND_TRIP_S / 2


@pytest.mark.slow
def test_large_messages_arrive_whole_and_in_order():
    values = [bytes([number]) * 300_000 for number in range(20)]
    with (
        serving(**QUICK) as server,
        at_distance(server, round_trip_s=0.02) as far,
        calling(far.address) as stub,
    ):
        for number, value in enumerate(values):
            stub.Create(CreateRequest(key=b"%d" % number, value=value))
        calls = [stub.Retrieve.future(RetrieveRequest(key=b"%d" % n)) for n in range(20)]

        assert [call.result().value for call in calls] == values


@pytest.mark.slow
def test_a_server_that_ends_ends_the_connection_of_the_client():
    with (
        serving(**QUICK) as server,
        at_distance(server, round_trip_s=0.02) as far,
        calling(far.address) as stub,
    ):
        stub.Create(CreateRequest(key=b"key", value=b"value"))
        server.kill()
        began_s = time.perf_counter()
        with pytest.raises(grpc.RpcError) as raised:
            stub.Retrieve(RetrieveRequest(key=b"key"), timeout=20)

    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert time.perf_counter() - began_s < 20


@pytest.mark.parametrize("round_trip_s", [-0.1, float("inf"), float("nan")])
def test_a_round_trip_is_a_time(round_trip_s):
    with (
        pytest.raises(ValueError, match="round_trip_s must be 0 or more"),
        at_distance(None, round_trip_s=round_trip_s),
    ):
        pass
