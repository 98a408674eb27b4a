"""What must hold of my store and my clients: `pytest my_code`."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from my_code import kvstore_pb2 as pb
from my_code.clients import add_one, bounded, key_of
from my_code.kvstore_pb2_grpc import KeyValueServiceStub
from my_code.store import Store, serve


@pytest.fixture
def stub():
    server, port = serve(Store())
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield KeyValueServiceStub(channel)
    server.stop(0)


def test_of_many_creates_of_one_key_one_is_ok(stub):
    creates = [stub.Create.future(pb.CreateRequest(key=b"cup", value=b"tea")) for _ in range(20)]
    assert [call.code() for call in creates].count(grpc.StatusCode.OK) == 1


arrived = []


class Counting(Store):
    """My store, which notes the calls that it gets."""

    def Create(self, request, context):
        arrived.append(request.key)
        return super().Create(request, context)


def test_a_client_sends_each_request_once():
    server, port = serve(Counting())
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        requests = [pb.CreateRequest(key=b"cup %d" % n) for n in range(20)]
        bounded(KeyValueServiceStub(channel), iter(requests), 5)
    server.stop(0)
    assert sorted(arrived) == sorted(each.key for each in requests)


def test_no_add_is_lost(stub):
    stub.Create(pb.CreateRequest(key=key_of(b"counter", 0), value=b"0"))
    with ThreadPoolExecutor(4) as pool:
        newest = max(pool.map(lambda _: add_one(stub, b"counter", 0), range(4)))
    stored = stub.Retrieve(pb.RetrieveRequest(key=key_of(b"counter", newest))).value
    assert int(stored) == 4
