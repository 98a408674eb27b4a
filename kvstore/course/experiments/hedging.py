"""Reads that go to a second server when the first one takes too long, with grpc.aio."""

import asyncio
import functools
import itertools
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import grpc
import numpy as np
import numpy.typing as npt

from kvstore.client.channel import OPTIONS, target_of
from kvstore.v1.kvstore_pb2 import CreateRequest, RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

Read = Callable[[Any, Any, Any], Awaitable[Any]]
"""A coroutine function of two stubs and a request; it returns the reply."""

DEADLINE_S: Final = 20.0
"""The longest wait for a reply; a read without one counts as slow."""

LEAVE_S: Final = 5.0
"""Seconds for the calls to end after an interrupt."""


async def hedged(first: Any, second: Any, request: Any, after_s: float) -> Any:
    """Call the first server; if `after_s` seconds bring no reply, call the second one, too."""
    calls = {asyncio.ensure_future(first.Retrieve(request))}
    done, waiting = await asyncio.wait(calls, timeout=after_s)
    if not done:
        waiting.add(asyncio.ensure_future(second.Retrieve(request)))
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for call in waiting:
        call.cancel()
    return done.pop().result()


async def single(first: Any, second: Any, request: Any) -> Any:
    """Call the first server only."""
    return await first.Retrieve(request)


@dataclass(frozen=True)
class Reads:
    """The reads of one run, in the order of their due times."""

    took_s: npt.NDArray[np.float64]
    """Seconds from the due time to the reply; infinite without a reply."""
    calls: int
    """Calls that were sent for them."""
    servers: int
    """Replicas, each of which is the first one of as many reads."""
    started_at: str = ""
    """The local time of the first read, as in a run."""

    def slow_share(self, longer_than_s: float) -> float:
        """Return the share of reads that took longer than this."""
        return float(np.mean(self.took_s > longer_than_s))

    @property
    def hedged_share(self) -> float:
        """Return the share of reads that were sent to a second server."""
        return self.calls / len(self.took_s) - 1 if len(self.took_s) else 0.0


def reads(
    servers: Sequence[object], read: Read, due_times: Iterable[float], *, duration_s: float
) -> Reads:
    """Make a read at each due time, first at one server, then at the next one in a circle.

    `read(first, second, request)` gets the stubs of the server whose turn it is and of the one
    after it. Due times are seconds from the start, those from `duration_s` on are left out.
    """
    due_s = list(itertools.takewhile(lambda at_s: at_s < duration_s, due_times))
    addresses = [target_of(server).address for server in servers]
    made: Future[Reads] = Future()
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def all_reads() -> Reads:
        task = asyncio.current_task()
        assert task is not None
        started.set_result((asyncio.get_running_loop(), task))
        return await _reads(addresses, read, due_s)

    def work() -> None:
        try:
            made.set_result(asyncio.run(all_reads()))
        except BaseException as error:
            made.set_exception(error)

    thread = threading.Thread(target=work, name="reads", daemon=True)  # the notebook has a loop
    thread.start()
    try:
        return made.result()
    except KeyboardInterrupt:
        loop, task = started.result()
        loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join(LEAVE_S)


async def _reads(addresses: Sequence[str], read: Read, due_s: Sequence[float]) -> Reads:
    key = secrets.token_bytes(8)
    took_s = np.full(len(due_s), np.inf)
    counter = itertools.count()
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        stubs = []
        for address in addresses:
            channel = await stack.enter_async_context(
                grpc.aio.insecure_channel(address, options=OPTIONS)
            )
            stub = KeyValueServiceStub(channel)
            await stub.Create(CreateRequest(key=key, value=b"value"), timeout=DEADLINE_S)
            stubs.append(_Counted(stub, counter))
        request, began_s = RetrieveRequest(key=key), time.perf_counter()
        started_at = datetime.now().astimezone().isoformat(timespec="milliseconds")

        async def one(number: int) -> None:
            first, second = (stubs[(number + place) % len(stubs)] for place in (0, 1))
            try:
                await read(first, second, request)
            except grpc.RpcError:
                return
            took_s[number] = time.perf_counter() - began_s - due_s[number]

        running = []
        for number, at_s in enumerate(due_s):
            await asyncio.sleep(max(0.0, began_s + at_s - time.perf_counter()))
            running.append(group.create_task(one(number)))
        await asyncio.gather(*running)
    return Reads(took_s, next(counter), len(stubs), started_at)


class _Counted:
    """A stub of one method that counts its calls."""

    def __init__(self, stub: Any, counter: "itertools.count[int]") -> None:
        self._stub, self._counter = stub, counter

    def Retrieve(self, request: Any, **named: Any) -> Any:
        next(self._counter)
        return self._stub.Retrieve(request, **{"timeout": DEADLINE_S} | named)


def hedging(after_s: float) -> Read:
    """Return `hedged` with its delay set, for `reads`."""
    return functools.partial(hedged, after_s=after_s)
