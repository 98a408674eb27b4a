"""strategies.py: a copied strategy runs over gRPC's plain channels.

The contract tests hold every strategy: each call once, the limit, the errors.
"""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from kvstore.client import strategies
from kvstore.client.messages import StreamRequest, batch_of, create
from kvstore.client.strategies import STRATEGIES, blocking, supports
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

IMPORTS = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
import grpc
"""


class Both(Iterator[Any]):
    """Items for `for` and `async for`, as a schedule has them."""

    def __init__(self, items: list[Any]) -> None:
        self._items = iter(items)

    def __next__(self) -> Any:
        return next(self._items)

    async def __aiter__(self) -> Any:
        for item in self._items:
            yield item


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_copied_strategy_runs_over_a_plain_channel(strategy, quick_server, keys):
    """What a lesson shows, pasted into an empty file."""
    pasted: dict[str, Any] = {}
    uses = inspect.getsource(blocking) if strategy is strategies.threads else ""
    exec(IMPORTS + uses + inspect.getsource(strategy), pasted)
    copied = pasted[strategy.__name__]
    created = [create(next(keys), b"value") for _ in range(12)]
    operations: list[Any] = list(created)
    if supports(strategy).streams:
        operations = [
            StreamRequest(number, batch_of([each])) for number, each in enumerate(created, 1)
        ]

    async def on_a_loop() -> None:
        async with grpc.aio.insecure_channel(quick_server.address) as channel:
            await copied(KeyValueServiceStub(channel), Both(operations), 4)

    with grpc.insecure_channel(quick_server.address) as channel:
        stub = KeyValueServiceStub(channel)
        if inspect.iscoroutinefunction(copied):
            asyncio.run(on_a_loop())
        else:
            copied(stub, Both(operations), 4)
        values = {stub.Retrieve(pb.RetrieveRequest(key=each.key)).value for each in created}

    assert {b"value"} == values
