"""stream.py, and what it is for: a client that does not read costs the server little."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import psutil
import pytest
from running import HANG_S, status_of
from stacks import calling

from kvstore.protocol import CREATE, RETRIEVE, UPDATE
from kvstore.server import Server, ServerSettings
from kvstore.server.admission import MeasuredPool
from kvstore.server.counts import Counts
from kvstore.server.service import AsyncKeyValueService, KeyValueService
from kvstore.server.store import Store
from kvstore.server.stream import STREAM_BYTES
from kvstore.v1 import kvstore_pb2 as pb

MIB = 1024 * 1024
MOST_BYTES = 64 * MIB
"""What a client that never reads may cost a server."""
VALUE = bytes(range(256)) * (MIB // 256)
READ = pb.PipelineRequest(kinds=bytes([RETRIEVE]), keys=[b"k"])


@contextmanager
def unread(server: Server, requests: Iterable[pb.PipelineRequest]) -> Iterator[tuple[Any, int]]:
    """Send requests and read no reply; yield the call, and by how many bytes the server grew.

    The call stays open. The server has then stood for a second without a further answer.
    """
    process, open_until = psutil.Process(server.pid), threading.Event()
    sent = 0

    def sending() -> Iterator[pb.PipelineRequest]:
        nonlocal sent
        for request in requests:
            yield request
            sent += 1
        open_until.wait()

    def progress() -> Any:
        return sent, dict(status_of(server.address).operations)

    with calling(server.address) as stub:
        stub.Create(pb.CreateRequest(key=b"k", value=VALUE), wait_for_ready=True)
        before_bytes = process.memory_info().rss
        call = stub.Pipeline(sending())
        most_bytes, seen, since_s = 0, None, time.perf_counter()
        while time.perf_counter() - since_s < 1.0:
            time.sleep(0.05)
            most_bytes = max(most_bytes, process.memory_info().rss)
            if (now := progress()) != seen:
                seen, since_s = now, time.perf_counter()
        try:
            yield call, most_bytes - before_bytes
        finally:
            call.cancel()
            open_until.set()
    give_up_s = time.perf_counter() + HANG_S
    while process.memory_info().rss - before_bytes > MOST_BYTES:
        assert time.perf_counter() < give_up_s, "the client has gone, and its memory stays"
        time.sleep(0.05)


def reads_of_replaced_values() -> Iterator[pb.PipelineRequest]:
    """The store keeps only the latest value, so all others are held by the stream alone."""
    for number in range(200):
        yield pb.PipelineRequest(
            kinds=bytes([UPDATE, RETRIEVE]), keys=[b"k", b"k"], values=[bytes([number]) * MIB]
        )


@pytest.mark.slow
@pytest.mark.parametrize("on_disk", [False, True])
def test_replies_that_are_not_read_take_little_memory(on_disk, own_server, tmp_path):
    """Without a disk, the server on asyncio answers in another way."""
    store = {"store": f"sqlite:{tmp_path}", "use_asyncio": True} if on_disk else {}
    with unread(own_server(**store), reads_of_replaced_values()) as (_, grown_bytes):
        assert grown_bytes < MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_client_that_reads_late_still_gets_every_reply(on_disk, own_server, tmp_path):
    """More than the window holds: the server goes on when there is room again."""
    numbered = [
        pb.PipelineRequest(id=n, kinds=READ.kinds, keys=READ.keys)
        for n in range(3 * STREAM_BYTES // MIB)
    ]
    store = {"store": f"sqlite:{tmp_path}", "use_asyncio": True} if on_disk else {}
    with unread(own_server(**store), numbered) as (call, _):
        replies = list(itertools.islice(call, len(numbered)))

    assert {reply.id for reply in replies} == {request.id for request in numbered}
    assert {VALUE} == {value for reply in replies for value in reply.values}


class _Broken(Store):
    """A store with a mistake in it."""

    def apply(self, kind: int, key: bytes, value: bytes) -> tuple[int, bytes]:
        raise ZeroDivisionError


class TestABrokenStore:
    """Its error ends the stream: a reply that is missing would make the caller wait for ever."""

    settings = ServerSettings(read_delay_s=0.001, locking="per_key")
    request = pb.PipelineRequest(kinds=bytes([CREATE]), keys=[b"k"], values=[b"v"])

    def test_on_threads(self):
        service = KeyValueService(self.settings, Counts(), MeasuredPool(1, "pool"))
        service._store = _Broken()

        with pytest.raises(ZeroDivisionError):
            list(service.Pipeline(iter([self.request]), None))

    def test_on_asyncio(self):
        class Context:
            """A caller who sends one request."""

            def __init__(self, *requests: Any) -> None:
                self._requests = iter(requests)

            async def read(self) -> Any:
                return next(self._requests, grpc.aio.EOF)

        async def called() -> None:
            service = AsyncKeyValueService(self.settings, Counts())
            service._store = _Broken()
            await asyncio.wait_for(service.Pipeline(None, Context(self.request)), HANG_S)

        with pytest.raises(ZeroDivisionError):
            asyncio.run(called())
