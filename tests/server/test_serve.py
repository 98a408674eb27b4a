"""server/__main__.py and the services: health, reflection, limits, and a client of another make."""

import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from running import HANG_S
from stacks import calling

from kvstore import protocol
from kvstore.v1 import kvstore_pb2 as pb

SERVICES = ["kvstore.v1.KeyValueService", "kvstore.v1.ServerStatusService"]
NOT_FOUND, ALREADY_EXISTS = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ALREADY_EXISTS
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EMPTY = "every operation needs a known kind and a key of at least one byte"


@pytest.fixture
def channel(quick_server):
    with grpc.insecure_channel(quick_server.address) as channel:
        yield channel


def test_a_key_lives_from_create_to_delete(stub, keys):
    """A create that is refused leaves the value as it was; a delete of an unknown key succeeds."""
    key = next(keys)
    stub.Create(pb.CreateRequest(key=key, value=b"first"))
    with pytest.raises(grpc.RpcError):
        stub.Create(pb.CreateRequest(key=key, value=b"other"))
    first = stub.Retrieve(pb.RetrieveRequest(key=key)).value
    stub.Update(pb.UpdateRequest(key=key, value=b"second"))
    second = stub.Retrieve(pb.RetrieveRequest(key=key)).value
    stub.Delete(pb.DeleteRequest(key=key))

    assert (b"first", b"second") == (first, second)
    with pytest.raises(grpc.RpcError) as refused:
        stub.Retrieve(pb.RetrieveRequest(key=key))
    assert NOT_FOUND is refused.value.code()
    assert pb.DeleteResponse() == stub.Delete(pb.DeleteRequest(key=key))


@pytest.mark.parametrize(
    ("code", "says", "method", "key"),
    [
        (ALREADY_EXISTS, "the key is known already: update replaces its value", "Create", "known"),
        (NOT_FOUND, "the key is not known: create it first", "Retrieve", "new"),
        (NOT_FOUND, "the key is not known: create it first", "Update", "new"),
        *[(INVALID, EMPTY, method, "") for method in ("Create", "Retrieve", "Update", "Delete")],
    ],
)
def test_a_refusal_is_a_status_with_its_reason(code, says, method, key, stub, keys):
    key_bytes = next(keys) if key else b""
    if key == "known":
        stub.Create(pb.CreateRequest(key=key_bytes))

    with pytest.raises(grpc.RpcError) as refused:
        getattr(stub, method)(getattr(pb, f"{method}Request")(key=key_bytes))

    assert (code, says) == (refused.value.code(), refused.value.details())
    assert protocol.from_metadata(refused.value.trailing_metadata()).disk_s >= 0


def test_of_many_creates_of_one_key_at_once_one_succeeds(stub, keys):
    key = next(keys)
    calls = [stub.Create.future(pb.CreateRequest(key=key, value=b"%d" % n)) for n in range(50)]
    codes = [call.code() for call in calls]
    winner = codes.index(grpc.StatusCode.OK)

    assert [grpc.StatusCode.OK] + [ALREADY_EXISTS] * 49 == sorted(codes, key=lambda c: c.value[0])
    assert b"%d" % winner == stub.Retrieve(pb.RetrieveRequest(key=key)).value


def test_health_says_serving_of_the_services_that_there_are(channel):
    health = health_pb2_grpc.HealthStub(channel)
    answers = [
        health.Check(health_pb2.HealthCheckRequest(service=service), timeout=HANG_S).status
        for service in ("", *SERVICES)
    ]

    assert 3 * [health_pb2.HealthCheckResponse.SERVING] == answers
    with pytest.raises(grpc.RpcError) as refused:
        health.Check(health_pb2.HealthCheckRequest(service="other"))
    assert NOT_FOUND is refused.value.code()


def test_reflection_finds_a_service_and_a_method_by_its_name(channel):
    """ghz asks for the method; protobuf's own pool in Python would know of none."""

    def file_of(symbol: str) -> str:
        # A database of its own each time: it would answer from what it has learned.
        return str(ProtoReflectionDescriptorDatabase(channel).FindFileContainingSymbol(symbol).name)

    described = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert {*SERVICES, "grpc.health.v1.Health"} <= {*described}
    for known in (SERVICES[0], f"{SERVICES[0]}.Delete"):
        assert "kvstore/v1/kvstore.proto" == file_of(known)
    for unknown in (f"{SERVICES[0]}.Remove", "kvstore.v1.NoService.Delete", "Delete", ""):
        with pytest.raises(KeyError):
            file_of(unknown)


@pytest.mark.slow
def test_calls_beyond_the_limit_are_refused_at_once(own_server):
    """Two are on the disk for half a second; the others are refused at once."""
    server = own_server(write_delay_s=0.5, max_concurrent_rpcs=2)
    with calling(server.address) as stub:
        ended: list[grpc.StatusCode] = []
        all_ended = threading.Event()

        def note(call: grpc.Future) -> None:
            ended.append(call.code())
            if len(ended) == 6:
                all_ended.set()

        for number in range(6):
            request = pb.CreateRequest(key=b"%d" % number)  # all wait for the connection
            stub.Create.future(request, wait_for_ready=True).add_done_callback(note)
        assert all_ended.wait(HANG_S)

    refused = [grpc.StatusCode.RESOURCE_EXHAUSTED] * 4
    assert [*refused, grpc.StatusCode.OK, grpc.StatusCode.OK] == ended


@pytest.mark.slow
def test_with_too_few_threads_calls_say_that_they_waited_in_the_pool(own_server, stack):
    if stack == "asyncio":
        server = own_server(write_delay_s=0.3, station_times=True)
    else:
        server = own_server(write_delay_s=0.3, threads=1, station_times=True)
    with calling(server.address) as stub:
        calls = [stub.Create.future(pb.CreateRequest(key=b"%d" % n)) for n in range(4)]
        most_s = max(protocol.from_metadata(call.trailing_metadata()).pool_s for call in calls)
        requests = [
            pb.PipelineRequest(kinds=bytes([protocol.DELETE]), keys=[b"%d" % n]) for n in range(4)
        ]
        replies = stub.Pipeline(iter(requests), timeout=HANG_S)
        most_on_stream_s = max(reply.station_times.pool_s for reply in replies)

    assert (stack == "threads") == (most_s > 0.1)
    assert (stack == "threads") == (most_on_stream_s > 0.1)
