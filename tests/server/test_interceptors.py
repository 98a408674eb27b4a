"""admission.py: what comes along with a call is read before the call is answered."""

import asyncio
from collections import namedtuple

import grpc
import pytest
from tables import for_each

from kvstore.server import ServerSettings
from kvstore.server.admission import AsyncReadHeaders, ReadHeaders, as_text, interceptors
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

Details = namedtuple("Details", ["method", "invocation_metadata"])

DETAILS = Details("/kvstore.v1.KeyValueService/Create", (("tenant", "blue"), ("seal-bin", b"\1")))
TEXT = "/kvstore.v1.KeyValueService/Create\n    tenant: 'blue'\n    seal-bin: b'\\x01'"


def test_metadata_is_written_out_a_line_for_each_pair():
    assert TEXT == as_text(*DETAILS)
    assert "/x" == as_text("/x", ())


def test_the_work_is_done_as_often_as_set_and_the_call_goes_on(monkeypatch):
    texts = []
    monkeypatch.setattr(
        "kvstore.server.admission.as_text", lambda *call: texts.append(as_text(*call))
    )

    async def handler(details):
        return "handler"

    assert "handler" == ReadHeaders(2).intercept_service(lambda details: "handler", DETAILS)
    assert "handler" == asyncio.run(AsyncReadHeaders(3).intercept_service(handler, DETAILS))
    assert 5 * [TEXT] == texts


@for_each("use_asyncio", [False, True])
def test_each_stack_has_its_own_where_there_is_work(use_asyncio):
    assert [] == interceptors(ServerSettings(use_asyncio=use_asyncio))
    [made] = interceptors(ServerSettings(metadata_work=3, use_asyncio=use_asyncio))

    assert use_asyncio == isinstance(made, grpc.aio.ServerInterceptor)


@pytest.mark.slow
def test_a_server_with_work_on_metadata_answers_as_any_other(own_server):
    server = own_server(metadata_work=2)
    with grpc.insecure_channel(server.address) as channel:
        stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        stub.Create(pb.CreateRequest(key=b"k", value=b"v"), metadata=(("tenant", "blue"),))

        assert b"v" == stub.Retrieve(pb.RetrieveRequest(key=b"k")).value
