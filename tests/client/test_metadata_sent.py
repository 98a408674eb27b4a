"""Metadata goes along with every call, whatever the verb; a server without our code sees it."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tables import for_each

from kvstore.client import load, strategies, workload
from kvstore.v1 import kvstore_pb2_grpc

SENT = {"tenant": "blue", "trace-id": "7"}


class Spy(grpc.ServerInterceptor):
    """Keeps the metadata of every call and knows no method."""

    def __init__(self):
        self.seen = []

    def intercept_service(self, continuation, handler_call_details):
        self.seen.append((handler_call_details.method, handler_call_details.invocation_metadata))
        return continuation(handler_call_details)


@pytest.fixture
def spied():
    """A spy and the address it listens on; it answers UNIMPLEMENTED to all."""
    spy = Spy()
    server = grpc.server(ThreadPoolExecutor(2), interceptors=[spy])
    kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server(
        kvstore_pb2_grpc.KeyValueServiceServicer(), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield spy, f"127.0.0.1:{port}"
    server.stop(None).wait()


@for_each(
    "strategy",
    [strategies.blocking, strategies.bounded, strategies.tasks],
)
def test_every_verb_sends_it(strategy, spied):
    spy, address = spied
    spy.seen.clear()
    run = load.run(strategy, address, workload.crud(), in_flight=2, calls=3, metadata=SENT)
    report = [dict(metadata) for method, metadata in spy.seen if "KeyValue" in method]

    assert {"UNIMPLEMENTED": 3} == run.outcomes()
    assert [SENT] * 3 == [{name: each.get(name) for name in SENT} for each in report]
    assert SENT.keys() == run.settings["metadata"].keys()  # a value may be a password
    assert not {*SENT.values()} & {*run.settings["metadata"].values()}
