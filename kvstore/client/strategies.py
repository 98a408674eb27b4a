"""The strategies: ways of having calls in flight. Read them; they are the course.

All have one shape. They send what the schedule hands out, and return when all of it
is answered. They never count, never look at a clock and never handle a failure: the
client records every call, whatever its end.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue

from kvstore.client.batch import Batch
from kvstore.client.client import Client
from kvstore.client.joining import users, users_async
from kvstore.client.schedule import Schedule

Strategy = Callable[..., None]
"""`strategy(client, schedule, in_flight)`; some have settings of their own besides."""


def blocking(client: Client, schedule: Schedule, in_flight: int = 1) -> None:
    """Wait for each answer before sending the next call."""
    for operation in schedule:
        client.call(operation)


def threads(
    client: Client, schedule: Schedule, in_flight: int, *, joins: Sequence[float] = ()
) -> None:
    """Run `blocking` in each of `in_flight` threads, which may join one by one."""
    with ThreadPoolExecutor(in_flight) as pool:
        joining = users(client, schedule, in_flight, joins)
        callers = [pool.submit(blocking, client, schedule) for _ in joining]
    for caller in callers:
        caller.result()  # raises here what went wrong there


def futures(client: Client, schedule: Schedule, in_flight: int = 0) -> None:
    """Send without waiting; nothing limits how many calls are in flight."""
    for operation in schedule:
        client.start(operation)
    client.wait_until_idle()


def bounded(client: Client, schedule: Schedule, in_flight: int) -> None:
    """Send without waiting, but no more than `in_flight` at once: a semaphore holds the rest."""
    free = threading.Semaphore(in_flight - 1)  # the first call needs no leave
    for operation in schedule:
        client.start(operation, on_reply=free.release)
        free.acquire()  # only then is the next operation chosen
    client.wait_until_idle()


def chained(client: Client, schedule: Schedule, in_flight: int) -> None:
    """Send `in_flight` calls; from then on each answer sends the next, and no sender has to wake.

    The limit is that of `bounded`, without the hand-over to a thread that waits for a place.
    """
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def send() -> None:
        error = None
        try:
            for operation in islice(schedule, 1):
                client.start(operation, on_reply=send)
                return
        except BaseException as raised:  # in gRPC's thread, where nobody would hear of it
            error = raised
        ended.put(error)

    for _ in range(in_flight):
        send()
    for _ in range(in_flight):
        if error := ended.get():
            raise error
    client.wait_until_idle()


def turns(client: Client, schedule: Schedule, in_flight: int, *, pause_s: float = 0.0) -> None:
    """Send `in_flight` calls at once, wait until all of them are answered, pause, begin again."""
    left = True
    while left:
        left = False
        for operation in islice(schedule, in_flight):
            client.start(operation)
            left = True
        client.wait_until_idle()
        time.sleep(pause_s if left else 0.0)


def tasks(
    client: Client, schedule: Schedule, in_flight: int, *, joins: Sequence[float] = ()
) -> None:
    """Run `in_flight` asyncio tasks, each waiting for its own answers; they may join one by one."""

    async def one_task() -> None:
        for operation in schedule:
            await client.acall(operation)

    async def all_tasks() -> None:
        async with asyncio.TaskGroup() as group:
            async for _ in users_async(client, schedule, in_flight, joins):
                group.create_task(one_task())

    client.run_async(all_tasks)


def pipelined(
    client: Client, schedule: Schedule, in_flight: int, *, batch: int = 1, streams: int = 1
) -> None:
    """Keep a window of requests open on one stream; replies are matched by id, in any order.

    `in_flight` requests of `batch` operations each are shared out over `streams` streams.
    """

    async def one_stream(window: int) -> None:
        free = asyncio.Semaphore(window - 1)
        async with client.stream(on_reply=free.release) as stream:
            for operations in in_batches(schedule, batch, stream.shard):
                await stream.send(operations)
                await free.acquire()

    async def all_streams() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(streams):
                window = in_flight // streams + (number < in_flight % streams)
                group.create_task(one_stream(window))

    client.run_async(all_streams)


def in_batches(schedule: Schedule, size: int, shard: int = 0) -> Iterator[Batch]:
    """The schedule's operations for a server, `size` at a time; the last batch may be shorter."""
    while operations := schedule.take(size, shard):
        yield operations


STRATEGIES: tuple[Strategy, ...] = (
    blocking, threads, futures, bounded, chained, turns, tasks, pipelined,
)  # fmt: skip
"""All of them, for tests and comparisons."""
