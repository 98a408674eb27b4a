"""stream.py: the task that takes replies may outlive the block, and still ends in order."""

import asyncio
from types import SimpleNamespace

import grpc
import pytest

from kvstore.client.stream import Stream


class EndedUnderWriting:
    """A call of which the writing side learns first that the server has gone."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.reads = 0

    async def done_writing(self) -> None:
        raise asyncio.InvalidStateError("the call has ended")

    async def read(self) -> object:
        self.reads += 1
        if self.reads == 1:
            await self.told.wait()
            reply = SimpleNamespace(id=99)  # nobody asked for it
            return reply
        return grpc.aio.EOF

    def cancel(self) -> None:
        self.told.set()


def test_replies_are_taken_to_the_end_after_the_block_was_left():
    async def leave() -> BaseException | None:
        call = EndedUnderWriting()
        client = SimpleNamespace(metadata=None, deadline_s=5.0, now_s=lambda: 0.0)
        stream = Stream(client, lambda metadata: call, lambda: None)
        with pytest.raises(asyncio.InvalidStateError):
            async with stream:
                await asyncio.sleep(0)  # the receiver waits for a reply
        call.told.set()
        await asyncio.wait([stream._receiver], timeout=5)
        return stream._receiver.exception()

    assert asyncio.run(leave()) is None
