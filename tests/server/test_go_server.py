"""launch.py: the server in Go keeps the contract, as far as it has the settings for it."""

import pytest
from stacks import calling

from kvstore.client import load, workload
from kvstore.client.strategies import bounded, pipelined
from kvstore.measure import audit
from kvstore.protocol import CREATE, DELETE, INVALID_ARGUMENT, NOT_FOUND, OK, RETRIEVE, UPDATE
from kvstore.server.launch import ServerDidNotStart, go_is_installed, serving_go
from kvstore.v1 import kvstore_pb2 as pb

SMALL = workload.crud(value_bytes_mean=100)
QUICK = {"read_delay_s": 0.001, "write_delay_s": 0.002, "locking": "per_key"}

needs_go = pytest.mark.skipif(not go_is_installed(), reason="no go on this machine")
long = pytest.mark.long  # where the server was never built, a build takes a minute of both cores


@pytest.fixture(scope="module")
def server():
    try:
        with serving_go(**QUICK, station_times=True) as server:
            yield server
    except ServerDidNotStart as error:
        if "could not be built" in str(error):
            pytest.skip(f"grpc-go could not be had: {error!s:.200}")
        raise


@needs_go
@long
@pytest.mark.timeout(700)  # the first build downloads grpc-go
@pytest.mark.parametrize("strategy", [bounded, pipelined])
def test_calls_and_a_stream_get_answers_that_the_server_counts_too(strategy, server):
    before = load.run(pipelined, server, SMALL, calls=1).server.operations
    run = load.run(strategy, server, SMALL, in_flight=4, calls=40)

    assert audit(run).holds
    assert ("complete", 40) == (run.outcome, run.server.answered)
    assert {"OK", "NOT_FOUND", "ALREADY_EXISTS"} >= set(run.outcomes())
    assert 1 == sum(before.values())
    assert (run.records["disk_s"] > 0.0005).all()


@needs_go
@long
@pytest.mark.timeout(700)
def test_a_batch_is_answered_operation_by_operation(server, keys):
    key, unknown = next(keys), next(keys)  # the runs of the test above draw keys of one byte, too
    requests = [
        pb.PipelineRequest(
            id=7,
            kinds=bytes([CREATE, RETRIEVE, RETRIEVE, UPDATE, RETRIEVE, DELETE, RETRIEVE]),
            keys=[key, key, unknown, key, key, key, key],
            values=[b"one", b"two"],
        ),
        pb.PipelineRequest(id=8, kinds=bytes([CREATE]), keys=[key]),
        pb.PipelineRequest(id=9, kinds=bytes([RETRIEVE, 9]), keys=[b"", key]),
    ]
    with calling(server.address) as stub:
        of = {reply.id: reply for reply in stub.Pipeline(iter(requests))}

    assert [OK, OK, NOT_FOUND, OK, OK, OK, NOT_FOUND] == list(of[7].statuses)
    assert [b"one", b"two"] == list(of[7].values)
    assert "create it first" in of[7].detail
    assert of[7].station_times.disk_s > 0.003
    assert [INVALID_ARGUMENT] == list(of[8].statuses)
    assert "1 creates and updates but 0 values: one value for each of them" == of[8].detail
    assert [INVALID_ARGUMENT, INVALID_ARGUMENT] == list(of[9].statuses)


def test_a_setting_that_it_does_not_have_is_refused():
    for wrong in ({"threads": 4}, {"locking": "per_key_held"}):
        with pytest.raises(ValueError, match="the server in Go has"), serving_go(**wrong):
            pass


def test_without_go_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ServerDidNotStart, match="apt-get install golang-go"), serving_go():
        pass
