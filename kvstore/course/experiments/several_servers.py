"""One channel to several servers; requests that wait for the slowest of them; hedged reads."""

import asyncio
import functools
import itertools
import secrets
import select
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from queue import SimpleQueue
from typing import Any, Final

import grpc
import numpy as np
import numpy.typing as npt

from kvstore.client.channel import OPTIONS, connected, target_of
from kvstore.client.client import run_of
from kvstore.client.measured_channel_aio import status_of
from kvstore.measure import Outcome, Run
from kvstore.measure.recorder import Recorder, sample_rows
from kvstore.protocol import KINDS, RETRIEVE
from kvstore.server import Server, serving
from kvstore.subprocesses import shielded
from kvstore.v1.kvstore_pb2 import CreateRequest, RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

DEADLINE_S: Final = 10.0
"""The longest wait for a reply; a request without one counts as slow."""

STALL_PERIOD_S, PERIOD_STEP = 0.5, 0.31
"""Seconds between two stalls of the first server; the period grows by this share per server."""


@dataclass(frozen=True)
class FanOut:
    """The time of each server for each request, in seconds from the due time."""

    answer_s: npt.NDArray[np.float64]
    """One row for each request, one column for each server; infinite without a reply."""

    @property
    def requests(self) -> int:
        """Return the number of requests."""
        return len(self.answer_s)

    def residence_s(self, servers: int) -> npt.NDArray[np.float64]:
        """Return the seconds until all of `servers` servers had answered.

        Any choice of servers is as good, so each request counts once for every group of neighbours
        in a circle: 1 and 2, 2 and 3, ..., the last and 1.
        """
        count = self.answer_s.shape[1]
        if not 1 <= servers <= count:
            raise ValueError(f"servers must be from 1 to {count}, got {servers}")
        starts = range(count if servers < count else 1)
        circles = [[(start + n) % count for n in range(servers)] for start in starts]
        return np.concatenate([self.answer_s[:, each].max(axis=1) for each in circles])

    def slow_share(self, servers: int, longer_than_s: float) -> float:
        """Return the share of requests to `servers` servers that took longer than this."""
        return float(np.mean(self.residence_s(servers) > longer_than_s))


@contextmanager
def stalling(
    servers: int, *, slow_share: float, slow_s: float, disk_s: float
) -> Iterator[list[Server]]:
    """Yield servers whose disks stall periodically, each with its own period.

    A share `slow_share` of the replies takes longer than `slow_s` seconds: those that begin early
    enough in a stall. The others take `disk_s`.
    """
    quick = {"use_asyncio": True, "locking": "per_key", "write_delay_s": 0, "read_delay_s": disk_s}
    with ExitStack() as running:
        yield [
            running.enter_context(
                serving(
                    **quick,
                    stall_s=slow_share * every_s + slow_s - disk_s,
                    stall_every_s=every_s,
                )
            )
            for every_s in (
                STALL_PERIOD_S * (1 + PERIOD_STEP * number) for number in range(servers)
            )
        ]


def fan_out(servers: Sequence[object], due_times: Iterable[float], *, duration_s: float) -> FanOut:
    """Send a request to every server at each due time, without waiting for earlier replies.

    Due times are seconds from the start; those from `duration_s` on are left out. Raise
    `ServerNotReached` and `WrongServer` as every client does.
    """
    key = secrets.token_bytes(8)
    copy_key(servers, key)
    due_s = list(itertools.takewhile(lambda at_s: at_s < duration_s, due_times))
    answer_s = np.full((len(due_s), len(servers)), np.inf)
    ended = threading.Semaphore(0)
    with ExitStack() as open_channels:
        stubs = []
        for server in servers:
            channel, _ = open_channels.enter_context(connected(target_of(server)))
            stubs.append(KeyValueServiceStub(channel))
        began_s = time.perf_counter()
        for number, due in enumerate(due_s):
            time.sleep(max(0.0, began_s + due - time.perf_counter()))
            for place, stub in enumerate(stubs):
                call = stub.Retrieve.future(RetrieveRequest(key=key), timeout=DEADLINE_S)

                def done(call: grpc.Future, number: int = number, place: int = place) -> None:
                    if not call.cancelled() and call.exception() is None:
                        passed_s = time.perf_counter() - began_s
                        answer_s[number, place] = passed_s - due_s[number]
                    ended.release()

                call.add_done_callback(done)
        for _ in range(answer_s.size):
            ended.acquire(timeout=2 * DEADLINE_S)
    return FanOut(answer_s)


@dataclass(frozen=True)
class Spread:
    """Calls over one channel, as the servers counted them."""

    answered: tuple[int, ...]
    """Calls that each server answered."""
    window_s: float
    """Seconds from the first call to the end of the last one."""

    @property
    def answered_per_s(self) -> float:
        """Return the throughput of all servers together, in calls/s."""
        return sum(self.answered) / self.window_s


def copy_key(servers: Sequence[object], key: bytes) -> None:
    """Create the same key on every server, so that each can answer every read of it."""
    for server in servers:
        with connected(target_of(server)) as (channel, _):
            stub = KeyValueServiceStub(channel)
            stub.Create(CreateRequest(key=key, value=b"value"), timeout=DEADLINE_S)


def spread_over(
    servers: Sequence[object], *channels: grpc.Channel, in_flight: int, duration_s: float
) -> Spread:
    """Read one key over the channels, with `in_flight` calls, and see who answered.

    The channels have equal shares of these calls, and stay open. Every server has a copy of the
    key. Raise `RuntimeError` if a call fails, and `ServerNotReached` as every client does.
    """
    key = secrets.token_bytes(8)
    copy_key(servers, key)
    request = RetrieveRequest(key=key)
    methods = [KeyValueServiceStub(channel).Retrieve for channel in channels]
    for retrieve in methods:
        for _ in range(4 * len(servers)):  # connections are established one after the other
            retrieve(request, timeout=DEADLINE_S, wait_for_ready=True)
            time.sleep(0.01)
    before = _retrieved(servers)
    free: SimpleQueue[Any] = SimpleQueue()
    for retrieve in itertools.islice(itertools.cycle(methods), in_flight):
        free.put(retrieve)
    failed = threading.Event()

    def done(retrieve: Any, call: grpc.Future) -> None:
        if call.cancelled() or call.exception() is not None:
            failed.set()
        free.put(retrieve)

    began_s = time.perf_counter()
    while time.perf_counter() < began_s + duration_s and not failed.is_set():
        retrieve = free.get()
        call = retrieve.future(request, timeout=DEADLINE_S)
        call.add_done_callback(functools.partial(done, retrieve))
    for _ in range(in_flight):
        free.get()
    window_s = time.perf_counter() - began_s
    if failed.is_set():
        raise RuntimeError("a call over a channel failed: does each of the servers still run?")
    after = _retrieved(servers)
    return Spread(tuple(b - a for a, b in zip(before, after, strict=True)), window_s)


def _retrieved(servers: Sequence[object]) -> list[int]:
    """Return how many reads each server has answered OK, by its own count."""
    counts = []
    for server in servers:
        with connected(target_of(server)) as (_, status):
            counts.append(status.operations.get("retrieve/OK", 0))
    return counts


HOST = "127.0.0.1"


def has_shared_ports() -> bool:
    """Return whether several servers can share one port here, as on Linux (SO_REUSEPORT).

    Other systems refuse, or give all connections to the latest server.
    """
    return sys.platform.startswith("linux") and hasattr(socket, "SO_REUSEPORT")


def servers_by_connection(servers: int, connections: int) -> list[int]:
    """Return the server that accepted each connection, of `servers` servers on one port.

    Raise `OSError` if the system does not share ports: see `has_shared_ports`.
    """
    with ExitStack() as open_sockets:
        listening: list[socket.socket] = []
        port = 0
        for _ in range(servers):
            each = open_sockets.enter_context(socket.socket())
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind((HOST, port))
            each.listen()
            port = each.getsockname()[1]
            listening.append(each)
        return [_server_of_next_connection(listening, port) for _ in range(connections)]


def _server_of_next_connection(listening: list[socket.socket], port: int) -> int:
    with socket.create_connection((HOST, port), timeout=5):
        (chosen, *_), _, _ = select.select(listening, [], [], 5)
        chosen.accept()[0].close()
        return listening.index(chosen)


# ---- hedging ------------------------------------------------------------------------------------
# Reads that go to a second server when the first one takes too long, with grpc.aio.


Read = Callable[[Any, Any, Any], Awaitable[Any]]
"""A coroutine function of two stubs and a request; it returns the reply."""

HEDGED_DEADLINE_S: Final = 20.0
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
    sent: Run | None = None
    """These calls as a run, with the number of the server as connection, for a replay."""
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
    try:
        with shielded():  # an interrupt in the start would leave the reads running
            thread.start()
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
    recorder = Recorder(KINDS)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        stubs = []
        for address in addresses:
            channel = await stack.enter_async_context(
                grpc.aio.insecure_channel(address, options=OPTIONS)
            )
            stub = KeyValueServiceStub(channel)
            await stub.Create(CreateRequest(key=key, value=b"value"), timeout=HEDGED_DEADLINE_S)
            stubs.append(stub)
        request, began_s = RetrieveRequest(key=key), time.perf_counter()
        recorder.start_clock(began_s)
        started_at = datetime.now().astimezone().isoformat(timespec="milliseconds")

        async def one(number: int) -> None:
            places = (number % len(stubs), (number + 1) % len(stubs))
            first, second = (_Recorded(stubs[at], recorder, due_s[number], at) for at in places)
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
    sent = run_of(
        recorder,
        (),
        strategy="reads",
        in_flight=0,
        settings={"hedged": True},
        server={"identity": ",".join(addresses)},
        started_at=started_at,
        outcome=Outcome.COMPLETE,
        sample_rows=sample_rows([]),
    )
    return Reads(took_s, recorder.issued, len(stubs), sent, started_at)


class _Recorded:
    """A stub of one method that records its calls: due with their read, at one server."""

    def __init__(self, stub: Any, recorder: Recorder, due_s: float, server: int) -> None:
        self._stub, self._recorder, self._due_s, self._server = stub, recorder, due_s, server

    def Retrieve(self, request: Any, **named: Any) -> Any:
        sent_s = self._recorder.sending_from_loop()
        call = self._stub.Retrieve(request, **{"timeout": HEDGED_DEADLINE_S} | named)

        def ended(call: Any) -> None:
            self._recorder.record(
                self._due_s, sent_s, self._recorder.now_s(), RETRIEVE, status_of(call), 0, 0,
                connection=self._server,
            )  # fmt: skip

        call.add_done_callback(ended)
        return call
