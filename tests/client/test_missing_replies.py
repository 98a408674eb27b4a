"""A call that ends as OK without a reply, or with one that cannot be read, has not succeeded."""

import asyncio
import inspect

import grpc
import pytest
from long.answers import MANY, STREAM, UNPARSABLE, answering

from kvstore.client import measured_channel
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

READ = pb.RetrieveRequest(key=b"any")


def waits(channel):
    try:
        KeyValueServiceStub(channel).Retrieve(READ)
    except grpc.RpcError:
        pass  # gRPC raises for a reply that it cannot parse


def sends(channel):
    KeyValueServiceStub(channel).Retrieve.future(READ).exception()


async def awaits(channel):
    await KeyValueServiceStub(channel).Retrieve(READ)


@pytest.mark.parametrize(
    ("work", "replies"),
    [(work, replies) for work in (waits, sends, awaits) for replies in ((), (UNPARSABLE,))],
)
def test_it_is_recorded_as_internal(work, replies):
    async def on_a_loop():
        async with channels as channel:
            await work(channel)

    with answering(MANY(lambda request, context: iter(replies)), STREAM(lambda *_: iter(()))) as at:
        channels = measured_channel(at)
        if inspect.iscoroutinefunction(work):
            asyncio.run(on_a_loop())
        else:
            with channels as channel:
                work(channel)

    assert {"INTERNAL": 1} == channels.run().outcomes()
