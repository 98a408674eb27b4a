"""The stream of the contract, spoken by hand: ids, order of finishing, batches, bad columns."""

import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import grpc
import pytest

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
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

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


def test_one_operation_of_each_kind(stream, keys):
    key = next(keys)
    heard = []
    for number, (kind, *values) in enumerate(
        [(CREATE, b"v"), (RETRIEVE,), (UPDATE, b"w"), (RETRIEVE,), (DELETE,), (RETRIEVE,)]
    ):
        stream.say(number, [kind], [key], *values)
        reply = stream.hear()
        heard.append((reply.id, reply.statuses[0], list(reply.values)))

    assert [
        (0, OK, []), (1, OK, [b"v"]), (2, OK, []), (3, OK, [b"w"]), (4, OK, []), (5, NOT_FOUND, []),
    ] == heard  # fmt: skip


def test_the_operations_of_a_batch_are_done_in_their_order(stream, keys):
    """Later ones see what earlier ones did; each has a status of its own."""
    key, other = next(keys), next(keys)
    stream.say(
        7,
        [CREATE, RETRIEVE, CREATE, UPDATE, RETRIEVE, DELETE, RETRIEVE, UPDATE],
        [key, key, key, key, key, key, key, other],
        b"1", b"2", b"3", b"4",
    )  # fmt: skip
    reply = stream.hear()

    assert bytes([OK, OK, ALREADY_EXISTS, OK, OK, OK, NOT_FOUND, NOT_FOUND]) == reply.statuses
    assert [b"1", b"3"] == list(reply.values)
    assert "the key is known already: update replaces its value" == reply.detail


@pytest.mark.parametrize("bad", [(99, b"key"), (0, b"key"), (RETRIEVE, b"")])
def test_one_bad_operation_fails_alone(bad, stream, keys):
    key, (kind, bad_key) = next(keys), bad
    stream.say(1, [CREATE, kind, RETRIEVE], [key, bad_key, key], b"v")
    reply = stream.hear()

    assert bytes([OK, INVALID_ARGUMENT, OK]) == reply.statuses
    assert [b"v"] == list(reply.values)


@pytest.mark.parametrize(
    ("says", "kinds", "extra_keys", "values"),
    [
        ("2 kinds but 3 keys", [CREATE, CREATE], 1, [b"1", b"2"]),
        ("2 creates and updates but 1 values", [CREATE, UPDATE], 0, [b"1"]),
        ("1 creates and updates but 2 values", [CREATE, DELETE], 0, [b"1", b"2"]),
        ("kinds is empty", [], 2, [b"1", b"2"]),
    ],
)
def test_malformed_columns_are_refused_whole_and_nothing_is_applied(
    says, kinds, extra_keys, values, stream, keys
):
    wanted = [next(keys) for _ in range(len(kinds) + extra_keys)]
    stream.say(3, kinds, wanted, *values)
    refused = stream.hear()
    stream.say(4, [RETRIEVE] * len(wanted), wanted)
    after = stream.hear()

    assert {INVALID_ARGUMENT} == set(refused.statuses)
    assert refused.detail.startswith(says)
    assert {NOT_FOUND} == set(after.statuses)


def test_a_stream_outlives_its_refusals_and_ends_when_the_caller_does(stream, keys):
    stream.say(1, [], [])
    stream.say(2, [DELETE], [next(keys)])
    replies = stream.end()

    assert {1: INVALID_ARGUMENT, 2: OK} == {reply.id: reply.statuses[0] for reply in replies}


def test_an_id_of_64_bits_comes_back_whole(stream, keys):
    stream.say(2**64 - 1, [DELETE], [next(keys)])

    assert 2**64 - 1 == stream.hear().id


@pytest.mark.parametrize("requests", [0, 1, 100])
def test_leaving_a_stream_waits_for_every_reply(requests, stub, keys):
    conversation = Conversation(stub)
    for number in range(requests):
        conversation.say(number, [DELETE], [next(keys)])
    replies = conversation.end()

    assert list(range(requests)) == sorted(reply.id for reply in replies)


@pytest.mark.slow
def test_a_fast_read_overtakes_a_slow_write(own_server, keys):
    """Answers come in the order of finishing. The write takes half a second, the reads none."""
    server = own_server(read_delay_s=0.001, write_delay_s=0.5)
    with grpc.insecure_channel(server.address) as channel:
        stream = Conversation(kvstore_pb2_grpc.KeyValueServiceStub(channel))
        stream.say(1, [CREATE], [next(keys)], b"v")
        stream.say(2, [RETRIEVE], [b"other"])
        stream.say(3, [RETRIEVE], [b"another"])
        order = [stream.hear().id for _ in range(3)]
        stream.end()

    assert {2, 3} == set(order[:2])
    assert 1 == order[2]


@pytest.mark.slow
def test_behind_one_lock_the_read_waits_for_the_write(own_server, keys):
    """The read is sent when the write has the lock: head-of-line blocking."""
    server = own_server(read_delay_s=0.001, write_delay_s=0.5, locking="global")
    with grpc.insecure_channel(server.address) as channel:
        stream = Conversation(kvstore_pb2_grpc.KeyValueServiceStub(channel))
        stream.say(1, [DELETE], [next(keys)])  # the stream is open when it is answered
        stream.hear()
        stream.say(2, [CREATE], [next(keys)], b"v")
        time.sleep(0.1)
        stream.say(3, [RETRIEVE], [b"other"])
        order = [stream.hear().id for _ in range(2)]
        stream.end()

    assert [2, 3] == order


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


def test_a_caller_who_hangs_up_leaves_the_server_well(stub, keys):
    for _ in range(5):
        call = stub.Pipeline(iter([pb.PipelineRequest(id=1, kinds=b"\x04", keys=[b"k"])]))
        call.cancel()

    assert pb.DeleteResponse() == stub.Delete(pb.DeleteRequest(key=next(keys)), timeout=HANG_S)


@pytest.mark.slow
def test_more_streams_than_threads_do_not_wait_for_one_another(own_server, stack, keys):
    """A stream keeps a thread while it is open; its operations must find another."""
    server = own_server(**({} if stack == "asyncio" else {"threads": 2}))
    with grpc.insecure_channel(server.address) as channel:
        stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        streams = [Conversation(stub) for _ in range(2)]
        for stream in streams:
            stream.say(1, [DELETE], [next(keys)])

        assert [1, 1] == [stream.hear().id for stream in streams]
        for stream in streams:
            stream.end()
