"""client.py and stream.py: each way of calling keeps one record of each call."""

import asyncio
import sys
import threading
from collections.abc import Iterator

import grpc
import pytest

from kvstore.client.batch import Batch
from kvstore.client.client import Answer, Client
from kvstore.client.requests import MessageTooLarge
from kvstore.client.stream import Stream, StreamBroken
from kvstore.client.workload import Operations, Workload, create, delete, retrieve, update
from kvstore.codes import BATCH, CREATE, DELETE, NO_ANSWER, NOT_FOUND, OK, RETRIEVE
from kvstore.v1 import kvstore_pb2 as pb


@pytest.fixture
def client(quick_server) -> Iterator[Client]:
    with grpc.insecure_channel(quick_server.address) as channel:
        yield Client(channel, quick_server.address, tells_times=True)


def called(client: Client, operation) -> Answer:
    return client.call(operation)


def awaited(client: Client, operation) -> Answer:
    answers = []

    async def work() -> None:
        answers.append(await client.acall(operation))

    client.run_async(work)
    return answers[0]


@pytest.mark.parametrize("way", [called, awaited])
def test_an_answer_is_a_status_and_what_was_read(way, client, keys):
    key = next(keys)

    assert Answer("NOT_FOUND") == way(client, retrieve(key))
    assert Answer("OK") == way(client, create(key, b"v"))
    assert Answer("ALREADY_EXISTS") == way(client, create(key, b"w"))
    assert Answer("OK", b"v") == way(client, retrieve(key))
    assert Answer("INVALID_ARGUMENT") == way(client, delete(b""))


def test_a_record_tells_kind_status_and_bytes(client, keys):
    key = next(keys)
    client.call(create(key, b"12345"))
    client.call(retrieve(key))
    client.call(update(next(keys), b"1"))
    records = client.recorder.array()

    assert [CREATE, RETRIEVE] == records["kind"][:2].tolist()
    assert [OK, OK, NOT_FOUND] == records["status"].tolist()
    assert [len(key) + 5, len(key)] == records["request_bytes"][:2].tolist()
    assert [0, 5, 0] == records["reply_bytes"].tolist()
    assert (records["done_s"] > records["sent_s"]).all()
    assert (records["disk_s"] > 0).all()


def test_a_call_is_counted_when_it_is_sent_and_ends_when_it_is_recorded(client, keys):
    replied = threading.Event()
    client.start(delete(next(keys)), on_reply=replied.set)
    sent = client.issued
    assert replied.wait(10)

    assert (1, 1, 0) == (sent, len(client.recorder), client.in_flight)


def test_waiting_until_idle_waits_for_every_answer(client, keys):
    for _ in range(50):
        client.start(create(next(keys), b"v"))
    client.wait_until_idle()

    assert (50, 50) == (client.issued, len(client.recorder))
    client.wait_until_idle()  # and does not wait for more


def test_an_error_in_a_callback_is_raised_where_the_caller_waits(client, keys):
    """gRPC would write it to the log and go on."""

    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    client.created = breaks  # type: ignore[method-assign]
    client.start(create(next(keys), b"v"))

    with pytest.raises(ZeroDivisionError):
        client.wait_until_idle()


@pytest.mark.parametrize("way", [called, awaited, Client.start])
def test_a_call_too_large_is_not_sent_and_not_counted(way, client, keys):
    with pytest.raises(MessageTooLarge, match="over gRPC's limit"):
        way(client, create(next(keys), bytes(5_000_000)))

    assert (0, 0) == (client.issued, len(client.recorder))


@pytest.mark.parametrize("way", [called, Client.start])
def test_a_call_on_a_closed_channel_has_an_end_too(way, client, keys):
    client.cancel()

    with pytest.raises(ValueError, match=r"[Cc]hannel"):
        way(client, delete(next(keys)))
    assert (1, 1) == (client.issued, len(client.recorder))


def test_threads_that_send_at_once_are_counted_each(client):
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    senders = [
        threading.Thread(target=lambda: [client.sending() for _ in range(2_000)]) for _ in range(8)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    sys.setswitchinterval(usual_s)

    assert 16_000 == client.issued


@pytest.mark.parametrize("way", [called, awaited])
def test_a_create_that_succeeds_makes_its_key_known(way, quick_server, keys):
    operations = Operations(Workload())
    with grpc.insecure_channel(quick_server.address) as channel:
        client = Client(channel, quick_server.address, operations=operations)
        key = next(keys)
        way(client, create(key, b"v"))
        way(client, create(key, b"v"))  # refused
        way(client, retrieve(key))

    assert 1 == len(operations.known)


def test_a_call_that_is_due_later_waits_and_is_late_by_nothing(client, keys):
    due = delete(next(keys))._replace(due_s=client.now_s() + 0.05)
    client.call(due)
    record = client.recorder.array()[0]

    assert record["due_s"] == due.due_s
    assert record["sent_s"] >= due.due_s


@pytest.mark.slow
def test_a_deadline_ends_each_kind_of_call(own_server, keys):
    server = own_server(write_delay_s=5)
    with grpc.insecure_channel(server.address) as channel:
        client = Client(channel, server.address, deadline_s=0.1)
        called_status = client.call(create(next(keys), b"v")).status
        awaited_status = awaited(client, create(next(keys), b"v")).status
        client.start(create(next(keys), b"v"))
        client.wait_until_idle()

    assert "DEADLINE_EXCEEDED" == called_status == awaited_status
    assert {4} == set(client.recorder.array()["status"].tolist())


# ---- the stream ----------------------------------------------------------------------------


def streamed(client: Client, *batches) -> int:
    """Sends each batch as one request; how many replies were told."""
    replies = []

    async def work() -> None:
        async with client.stream(on_reply=lambda: replies.append(1)) as stream:
            for batch in batches:
                await stream.send(batch)

    client.run_async(work)
    return len(replies)


def test_leaving_a_stream_waits_for_every_reply(client, keys):
    assert 20 == streamed(client, *([delete(next(keys))] for _ in range(20)))
    assert (20, 20) == (client.issued, len(client.recorder))


def test_a_request_of_several_operations_is_one_record(client, keys):
    key = next(keys)
    streamed(client, [create(key, b"123"), retrieve(key), delete(key), retrieve(key)])
    record = client.recorder.array()[0]

    assert (BATCH, NOT_FOUND, 4, 3) == (
        record["kind"], record["status"], record["operations"], record["ok_operations"]
    )  # fmt: skip
    assert (4 * len(key) + 3, 3) == (record["request_bytes"], record["reply_bytes"])
    assert record["disk_s"] > 0


def test_a_request_of_one_operation_keeps_its_kind(client, keys):
    streamed(client, [delete(next(keys))])

    assert DELETE == client.recorder.array()[0]["kind"]


class ServerOfNonsense:
    """A stub whose replies are what the test says, whatever was asked."""

    def __init__(self, *replies: pb.PipelineResponse) -> None:
        self._replies = iter(replies)

    def Pipeline(self, metadata: object = None) -> "ServerOfNonsense":
        return self

    async def write(self, request: pb.PipelineRequest) -> None:
        await asyncio.sleep(0)

    async def done_writing(self) -> None:
        pass

    def cancel(self) -> None:
        pass

    async def read(self) -> object:
        await asyncio.sleep(0.01)
        return next(self._replies, grpc.aio.EOF)


@pytest.mark.parametrize(
    ("says", "replies"),
    [
        ("the server closed it", []),
        ("a reply made no sense: KeyError", [pb.PipelineResponse(id=99, statuses=b"\x00")]),
        ("0 statuses for 1 operations", [pb.PipelineResponse(id=1)]),
        ("2 statuses for 1 operations", [pb.PipelineResponse(id=1, statuses=b"\x00\x00")]),
    ],
)
def test_a_stream_that_breaks_accounts_for_all_that_is_open(says, replies, client, keys):
    told = []

    async def work() -> None:
        nonsense = ServerOfNonsense(*replies)
        async with Stream(client, nonsense.Pipeline, lambda: told.append(1)) as stream:
            for _ in range(3):
                await stream.send([delete(next(keys))])

    with pytest.raises(StreamBroken, match=says):
        client.run_async(work)

    assert 3 == client.issued == len(client.recorder) == len(told)
    assert [NO_ANSWER] * 3 == client.recorder.array()["status"].tolist()


def test_a_retrieve_that_reads_what_was_not_written_breaks_the_stream(client):
    """Where it is known what a key holds, an answer that says otherwise is no answer."""
    batch = Batch(bytes([RETRIEVE]), [b"k"], [], written=[b"right"])

    async def work() -> None:
        nonsense = ServerOfNonsense(pb.PipelineResponse(id=1, statuses=b"\x00", values=[b"wrong"]))
        async with Stream(client, nonsense.Pipeline, lambda: None) as stream:
            await stream.send(batch)

    with pytest.raises(StreamBroken, match="read b'wrong', but b'right' was written"):
        client.run_async(work)

    assert [NO_ANSWER] == client.recorder.array()["status"].tolist()


def test_an_error_of_the_senders_own_is_not_hidden_by_the_stream(client, keys):
    async def work() -> None:
        async with client.stream(on_reply=lambda: None) as stream:
            await stream.send([delete(next(keys))])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.run_async(work)

    assert (1, 1) == (client.issued, len(client.recorder))
