"""Messages at gRPC's limit of 4 MB, on both stacks: what fits passes, what does not is named."""

import threading
from collections.abc import Iterator

import grpc
import pytest
from stacks import calling

from kvstore.client import load, workload
from kvstore.client.errors import RunFailed
from kvstore.client.strategies import pipelined
from kvstore.measure import audit
from kvstore.protocol import CREATE
from kvstore.v1 import kvstore_pb2 as pb

HANG_S = 15.0
MEGABYTE = 1_000_000

pytestmark = pytest.mark.slow


def test_a_foreign_client_that_sends_too_much_is_refused_and_no_other_call_suffers(own_server):
    """What it had sent before is answered; then its stream ends, and only its stream."""
    server = own_server(read_delay_s=0.0, write_delay_s=0.0)
    answered = threading.Event()

    def requests() -> Iterator[pb.PipelineRequest]:
        yield pb.PipelineRequest(id=1, kinds=bytes([CREATE]), keys=[b"a"], values=[b"v"])
        answered.wait(HANG_S)
        yield pb.PipelineRequest(id=2, kinds=bytes([CREATE]), keys=[b"b"], values=[bytes(5 << 20)])

    with calling(server.address) as stub:
        replies = stub.Pipeline(requests(), timeout=HANG_S)
        first = next(replies)
        answered.set()
        with pytest.raises(grpc.RpcError) as ended:
            next(replies)
        after = stub.Retrieve(pb.RetrieveRequest(key=b"a"), timeout=HANG_S)

    assert grpc.StatusCode.RESOURCE_EXHAUSTED is ended.value.code()
    assert (1, b"v") == (first.id, after.value)


def test_a_run_whose_replies_are_too_large_ends_with_every_operation_accounted_for(own_server):
    server = own_server(read_delay_s=0.0, write_delay_s=0.0)
    large = workload.reads(keys=8, value_bytes_mean=MEGABYTE, sizes="fixed")
    run = load.run(pipelined, server, large, in_flight=2, calls=60, batch=6)

    assert {"RESOURCE_EXHAUSTED": 10} == run.outcomes()
    assert 40 == run.operations_ok
    assert {"retrieve/OK": 40, "retrieve/RESOURCE_EXHAUSTED": 20} == run.server.operations
    assert audit(run).holds


def test_a_run_whose_requests_are_too_large_says_so_and_a_smaller_batch_passes(own_server):
    server = own_server(read_delay_s=0.0, write_delay_s=0.0)
    large = workload.crud(
        mix={"create": 1}, value_bytes_mean=MEGABYTE, key_bytes_mean=8, sizes="fixed"
    )
    with pytest.raises(RunFailed, match="send fewer operations in each") as failed:
        load.run(pipelined, server, large, in_flight=2, calls=60, batch=6)
    passed = load.run(pipelined, server, large, in_flight=2, calls=12, batch=4)

    assert audit(failed.value.run).holds
    assert {"OK": 3} == passed.outcomes()
