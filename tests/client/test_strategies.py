"""strategies.py: every strategy through the same tests; a copied one runs over gRPC's channels."""

import asyncio
import inspect
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from fakes import FakeOperations, FakeStub
from tables import for_each

from kvstore.client import strategies
from kvstore.client.messages import StreamRequest, batch_of, create
from kvstore.client.overload import Adaptive, Backoff, Retrying
from kvstore.client.strategies import STRATEGIES, blocking, futures, supports, turns
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

adaptive, retrying = Adaptive(), Retrying(Backoff(attempts=1))
every_strategy = for_each("strategy", [*STRATEGIES, adaptive, retrying])


def is_asynchronous(strategy: Any) -> bool:
    return any(map(inspect.iscoroutinefunction, (strategy, type(strategy).__call__)))


def run(strategy: Any, stub: Any, operations: Any, in_flight: int, **options: Any) -> None:
    """Run the strategy as a client does: on an event loop if it is an asynchronous one."""
    if is_asynchronous(strategy):
        asyncio.run(strategy(stub, operations, in_flight, **options))
    else:
        strategy(stub, operations, in_flight, **options)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as threads:
        yield threads


@every_strategy
@for_each(("count", "in_flight"), [(0, 2), (3, 50), (40, 4)])
def test_every_operation_is_sent_once_and_ended_within_the_limit(strategy, count, in_flight, pool):
    """Some are refused: that ends a call, and neither the strategy nor the others."""
    refused = () if supports(strategy).streams else (1, 7)
    limits = {blocking: 1, adaptive: 1, futures: count}  # the adaptive one begins with 1
    reached = min(count, limits.get(strategy, in_flight))
    stub = FakeStub(pool, until_open=reached, refused=refused)
    run(strategy, stub, FakeOperations(count, is_asynchronous(strategy)), in_flight)

    assert list(range(count)) == sorted(stub.answered)
    assert 0 == stub.open
    if strategy is adaptive:
        assert stub.most_open <= in_flight
    else:
        assert reached == stub.most_open


@every_strategy
def test_an_error_is_raised_where_the_strategy_was_called(strategy, pool):
    """Not lost in a thread, nor waited for in vain by the others."""
    stub = FakeStub(pool, fail_at=5)
    with pytest.raises((ValueError, ExceptionGroup)) as raised:
        run(strategy, stub, FakeOperations(40, is_asynchronous(strategy)), 4)

    error: BaseException = raised.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert "this one cannot be sent" == str(error)


def test_a_turn_begins_when_the_last_one_has_ended_and_its_pause_is_over(pool):
    stub, began_s = FakeStub(pool), time.perf_counter()
    turns(stub, FakeOperations(6, False), 2, pause_s=0.05)

    assert time.perf_counter() - began_s >= 3 * 0.05
    assert [{0, 1}, {2, 3}, {4, 5}] == [set(stub.answered[i : i + 2]) for i in (0, 2, 4)]


@for_each("strategy", STRATEGIES)
def test_a_strategy_has_the_shape_that_it_declares_and_fits_into_a_lesson(strategy):
    parameters = list(inspect.signature(strategy).parameters)

    assert ["stub", "operations", "in_flight", *supports(strategy).options] == parameters
    assert strategy.__doc__
    assert len(inspect.getsource(strategy).splitlines()) <= 25


def test_no_strategy_is_missing_from_the_list():
    public = {
        function
        for name, function in inspect.getmembers(strategies, inspect.isfunction)
        if function.__module__ == strategies.__name__
        and not name.startswith("_")  # Python 3.14 keeps __annotate__ there
        and function is not supports
    }

    assert set(STRATEGIES) == public


IMPORTS = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
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


@for_each("strategy", STRATEGIES)
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
