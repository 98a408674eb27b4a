"""stream.py: a request that was sent has an end, whichever way its stream is left."""

import asyncio

import grpc
import pytest

from kvstore.client.client import Client
from kvstore.client.stream import Stream, StreamBroken
from kvstore.client.workload import retrieve
from kvstore.codes import NO_ANSWER


class Call:
    """A stream of gRPC's that never answers; it ends when it is cancelled, or at once."""

    def __init__(self, over: bool) -> None:
        self._ended = asyncio.Event()
        self._over = over

    async def read(self):
        if not self._over:
            await self._ended.wait()
            raise asyncio.CancelledError
        return grpc.aio.EOF

    async def write(self, request) -> None:
        if self._over:
            await asyncio.sleep(0.01)
            raise asyncio.InvalidStateError

    async def done_writing(self) -> None:
        await self._ended.wait()

    def cancel(self) -> None:
        self._ended.set()


@pytest.fixture
def client():
    with grpc.insecure_channel("127.0.0.1:1") as nobody:  # it connects with the first call
        yield Client(nobody, "127.0.0.1:1")


def opened(client: Client, *, over: bool) -> Stream:
    return Stream(client, lambda metadata: Call(over), lambda: None)


async def send_one(stream: Stream) -> None:
    async with stream:
        await stream.send([retrieve(b"key")])


def test_a_task_that_is_cancelled_while_it_leaves_accounts_for_what_waits(client):
    async def leave() -> None:
        task = asyncio.create_task(send_one(opened(client, over=False)))
        await asyncio.sleep(0.01)  # it says by now that it sends no more
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert [NO_ANSWER] == list(client.recorder.array()["status"])

    asyncio.run(leave())
    assert 1 == client.issued


def test_a_request_to_a_stream_that_the_server_has_closed_has_an_end(client):
    with pytest.raises(StreamBroken, match=r"the server closed it.*1 requests unanswered"):
        asyncio.run(send_one(opened(client, over=True)))

    assert [NO_ANSWER] == list(client.recorder.array()["status"])
    assert 1 == client.issued
