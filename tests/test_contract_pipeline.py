"""The stream of the contract, spoken by hand: ids, order of finishing, batches."""

import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from stacks import calling

from kvstore.client import load, workload
from kvstore.client.strategies import pipelined
from kvstore.protocol import (
    ALREADY_EXISTS,
    CREATE,
    DELETE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    RETRIEVE,
    UPDATE,
)
from kvstore.server import LOCKINGS
from kvstore.v1 import kvstore_pb2 as pb

HANG_S = 15.0


class Conversation:
    """One open stream: `say` sends, `hear` waits for the next reply."""

    def __init__(self, stub: Any) -> None:
        self._said: SimpleQueue[pb.PipelineRequest | None] = SimpleQueue()
        self._replies = stub.Pipeline(iter(self._said.get, None), timeout=HANG_S)

    def say(self, number: int, kinds: list[int], keys: list[bytes], *values: bytes) -> None:
        self._said.put(pb.PipelineRequest(id=number, kinds=bytes(kinds), keys=keys, values=values))

    def hear(self) -> pb.PipelineResponse:
        reply: pb.PipelineResponse = next(self._replies)
        return reply

    def end(self) -> list[pb.PipelineResponse]:
        """Say no more; what is still to be heard."""
        self._said.put(None)
        return list(self._replies)


@pytest.fixture
def stream(stub) -> Iterator[Conversation]:
    conversation = Conversation(stub)
    yield conversation
    conversation.end()


@pytest.mark.parametrize(
    ("says", "kinds", "extra_keys", "values"),
    [
        ("2 kinds but 3 keys", [CREATE, CREATE], 1, [b"1", b"2"]),
        ("2 creates and updates but 1 values", [CREATE, UPDATE], 0, [b"1"]),
        ("kinds is empty", [], 2, [b"1", b"2"]),
    ],
)
def test_malformed_columns_are_refused_whole_and_nothing_is_applied(
    says, kinds, extra_keys, values, stream, keys
):
    wanted = [next(keys) for _ in range(len(kinds) + extra_keys)]
    stream.say(3, kinds, wanted, *values)
    refused = stream.hear()
    stream.say(2**64 - 1, [RETRIEVE] * len(wanted), wanted)
    after = stream.hear()  # the stream goes on

    assert {INVALID_ARGUMENT} == set(refused.statuses)
    assert refused.detail.startswith(says)
    assert {NOT_FOUND} == set(after.statuses)
    assert 2**64 - 1 == after.id


@pytest.mark.parametrize("requests", [0, 1, 100])
def test_leaving_a_stream_waits_for_every_reply(requests, stub, keys):
    conversation = Conversation(stub)
    for number in range(requests):
        conversation.say(number, [DELETE], [next(keys)])
    replies = conversation.end()

    assert list(range(requests)) == sorted(reply.id for reply in replies)


@pytest.mark.slow
@pytest.mark.parametrize(("locking", "expected"), [("per_key", [3, 2]), ("global", [2, 3])])
def test_a_read_overtakes_a_write_unless_one_lock_holds_it_back(
    locking, expected, own_server, keys
):
    """Answers come in the order of finishing. The read is sent when the write has the lock."""
    server = own_server(read_delay_s=0.001, write_delay_s=0.5, locking=locking)
    with calling(server.address) as stub:
        stream = Conversation(stub)
        stream.say(1, [DELETE], [next(keys)])  # the stream is open when it is answered
        stream.hear()
        stream.say(2, [CREATE], [next(keys)], b"v")
        time.sleep(0.1)
        stream.say(3, [RETRIEVE], [b"other"])
        order = [stream.hear().id for _ in range(2)]
        stream.end()

    assert expected == order


@pytest.mark.slow
def test_our_client_matches_replies_that_come_out_of_order(own_server):
    """A read that overtakes is stamped with its own time, not with its neighbour's."""
    server = own_server(read_delay_s=0.001, write_delay_s=1.0)
    both = workload.Workload(mix={"retrieve": 1, "update": 1}, preload=4, value_bytes_mean=10)
    calls = load.run(pipelined, server, both, in_flight=8, calls=40).calls
    took_s = calls.groupby("operation", observed=True)["residence_s"]

    assert took_s.max()["retrieve"] < took_s.min()["update"]
    assert took_s.min()["update"] > 0.95
    assert {"OK"} == set(calls["status"])


@pytest.mark.slow
def test_more_streams_than_threads_do_not_wait_for_one_another(own_server, stack, keys):
    """A stream keeps a thread while it is open; its operations must find another."""
    server = own_server(**({} if stack == "asyncio" else {"threads": 2}))
    with calling(server.address) as stub:
        streams = [Conversation(stub) for _ in range(2)]
        for stream in streams:
            stream.say(1, [DELETE], [next(keys)])

        assert [1, 1] == [stream.hear().id for stream in streams]
        for stream in streams:
            stream.end()


every_locking = pytest.mark.parametrize("locking", LOCKINGS)


@pytest.fixture
def requested(own_server) -> Any:
    """Sends one batch to a server of these settings: `asked(kinds, keys, *values, locking=...)`.

    A test that asks with the same settings again asks the same server.
    """
    servers: dict[Any, Any] = {}

    def ask(
        kinds: list[int], keys: list[bytes], *values: bytes, **settings: Any
    ) -> pb.PipelineResponse:
        key = tuple(settings.items())
        if key not in servers:
            servers[key] = own_server(station_times=True, **settings)
        with calling(servers[key].address) as stub:
            request = pb.PipelineRequest(id=5, kinds=bytes(kinds), keys=keys, values=values)
            (reply,) = stub.Pipeline(iter([request]), timeout=HANG_S)
        return reply

    return ask


@pytest.mark.slow
@every_locking
def test_each_operation_has_a_status_of_its_own_and_the_order_is_kept(locking, requested):
    reply = requested(
        [CREATE, RETRIEVE, CREATE, UPDATE, 99, RETRIEVE, DELETE, RETRIEVE, UPDATE, RETRIEVE],
        [b"k", b"k", b"k", b"k", b"k", b"k", b"k", b"k", b"other", b""],
        b"1",
        b"2",
        b"3",
        b"4",
        locking=locking,
    )

    assert [
        OK,
        OK,
        ALREADY_EXISTS,
        OK,
        INVALID_ARGUMENT,
        OK,
        OK,
        NOT_FOUND,
        NOT_FOUND,
        INVALID_ARGUMENT,
    ] == list(reply.statuses)
    assert [b"1", b"3"] == list(reply.values)
    assert (5, "the key is known already: update replaces its value") == (reply.id, reply.detail)
