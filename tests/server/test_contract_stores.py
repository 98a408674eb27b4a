"""The contract on every store: the tests of the store in memory, with the data elsewhere.

The tests are those of the other files; this one gives them other servers.
"""

# ruff: noqa: F401  the imported tests are collected here, with the fixtures of this file

import itertools
import random
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from stacks import QUICK
from test_contract import test_batches_and_streams_lose_nothing
from test_contract import test_every_call_is_sent_once_and_ends_once as check_calls
from test_contract import test_reads_ask_for_keys_that_were_created_before as check_reads
from test_contract_pipeline import (
    stream,
    test_leaving_a_stream_waits_for_every_reply,
    test_malformed_columns_are_refused_whole_and_nothing_is_applied,
)
from test_serve import (
    test_a_key_lives_from_create_to_delete,
    test_a_refusal_is_a_status_with_its_reason,
    test_of_many_creates_of_one_key_at_once_one_succeeds,
)

from kvstore.client.strategies import bounded, tasks
from kvstore.protocol import CREATE, DELETE, RETRIEVE, UPDATE
from kvstore.server import EtcdNotInstalled, Server, etcd_cluster, serving
from kvstore.server.store import Store
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

pytestmark = pytest.mark.slow
HANG_S = 15.0


@pytest.fixture(scope="module")
def etcd() -> Iterator[str]:
    """The setting for a cluster of three; its leader stays, however busy this machine is."""
    try:
        with etcd_cluster(election_timeout_s=10.0) as cluster:
            yield cluster.store
    except EtcdNotInstalled as missing:
        pytest.skip(str(missing))


@pytest.fixture(
    scope="module",
    params=[
        # store, group_commit
        ("sqlite", True),
        ("etcd", False),
    ],
    ids=lambda way: way[0],
)
def quick_server(request, tmp_path_factory) -> Iterator[Server]:
    store, group_commit = request.param
    where = (
        request.getfixturevalue("etcd")
        if store == "etcd"
        else f"sqlite:{tmp_path_factory.mktemp('entries')}"
    )
    made = {"use_asyncio": True, "group_commit": group_commit, "station_times": True}
    with serving(**QUICK, **made, store=where) as server:
        yield server
        assert server.alive(), server.child.error_text()


@pytest.mark.parametrize("strategy", [bounded, tasks])
def test_calls_end_once_and_reads_ask_for_keys_that_are_there(strategy, quick_server):
    check_calls(strategy, 80, 5, quick_server)
    check_reads(strategy, quick_server)


def test_whatever_a_batch_has_it_does_what_the_store_in_memory_does(stub, keys):
    """Several operations on one key, unknown kinds, empty keys, and single operations as well."""
    rng, memory = random.Random(13), Store()
    many = [next(keys) for _ in range(270)]
    known = [b"", *many[:5], many[0] + bytes(range(256))]
    numbers = itertools.count()
    for length in [*range(1, 30), 300]:
        wanted = [rng.choice(known) if length < 300 else many[n % 270] for n in range(length)]
        kinds = bytes(rng.choice((CREATE, RETRIEVE, UPDATE, DELETE, 99)) for _ in wanted)
        carried = kinds.count(CREATE) + kinds.count(UPDATE)
        values = [b"%d" % next(numbers) for _ in range(carried)]
        request = pb.PipelineRequest(kinds=kinds, keys=wanted, values=values)
        (reply,) = stub.Pipeline(iter([request]), timeout=HANG_S)

        assert memory.apply_columns(kinds, wanted, values) == (reply.statuses, list(reply.values))
        if not wanted[0]:
            continue
        status, value = memory.apply(RETRIEVE, wanted[0], b"")
        try:
            found = 0, stub.Retrieve(pb.RetrieveRequest(key=wanted[0]), timeout=HANG_S).value
        except grpc.RpcError as error:
            found = error.code().value[0], b""
        assert (status, value) == found
