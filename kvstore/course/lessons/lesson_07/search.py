"""A back end that works: a full-text search in SQLite (FTS5), and a client that measures it (07).

The documents are made from a seed: words drawn with the frequencies of Zipf's law. A search reads
all documents with one of two frequent words, and ranks them (BM25). SQLite searches without
Python's interpreter lock (GIL). `search_in_python` counts the same words, and keeps the lock.
"""

import asyncio
import heapq
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import pandas as pd

from kvstore.client.channel import OPTIONS
from kvstore.course.views.style import rounded
from kvstore.measure import cores
from kvstore.subprocesses import private_folder, shielded
from kvstore.v1.kvstore_pb2 import RetrieveRequest, RetrieveResponse
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    KeyValueServiceStub,
    add_KeyValueServiceServicer_to_server,
)

WORDS: Final = 100
"""Words in a document."""
VOCABULARY: Final = 5_000
BEST: Final = 10
"""A search returns the numbers of so many documents."""
DEADLINE_S: Final = 60.0


class Library:
    """A file of SQLite with an index of its documents, and their texts for a search in Python."""

    def __init__(self, path: Path, texts: Sequence[str], running: ExitStack) -> None:
        self.texts = texts
        self._path, self._running = path, running

    def connections(self, count: int) -> list[sqlite3.Connection]:
        """Open connections that only read; any thread may use one, but one at a time."""
        uri = f"{self._path.as_uri()}?mode=ro"
        return [
            self._running.enter_context(
                closing(sqlite3.connect(uri, uri=True, check_same_thread=False))
            )
            for _ in range(count)
        ]


@contextmanager
def library(documents: int, *, seed: int = 7) -> Iterator[Library]:
    """Make documents from a seed and index them, for the block; delete the file at its end."""
    words = random.Random(seed).choices(
        [f"w{number}" for number in range(VOCABULARY)],
        cum_weights=list(accumulate(1 / (number + 10) for number in range(VOCABULARY))),
        k=documents * WORDS,
    )
    texts = tuple(" ".join(words[first : first + WORDS]) for first in range(0, len(words), WORDS))
    with ExitStack() as running:
        path = running.enter_context(private_folder("search-")) / "library.sqlite"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE VIRTUAL TABLE documents USING fts5(text)")
            connection.executemany("INSERT INTO documents VALUES (?)", ((each,) for each in texts))
        yield Library(path, texts, running)


def some_searches(count: int, *, seed: int = 7) -> list[bytes]:
    """Return searches, each for two of the frequent words."""
    draw = random.Random(seed)
    return [b" ".join(b"w%d" % draw.randrange(5, 60) for _ in range(2)) for _ in range(count)]


def search(connection: sqlite3.Connection, words: bytes) -> bytes:
    """Return the numbers of the best documents with at least one of the words, best first."""
    found = connection.execute(
        "SELECT rowid FROM documents WHERE documents MATCH ? ORDER BY rank LIMIT ?",
        (" OR ".join(words.decode().split()), BEST),
    )
    return b" ".join(b"%d" % number for (number,) in found)


def search_in_python(texts: Sequence[str], words: bytes) -> bytes:
    """Return the numbers of the documents in which the words stand most often, in pure Python."""
    wanted = [f" {word} " for word in words.decode().split()]
    score = [sum(map(text.count, wanted)) for text in texts]
    best = heapq.nlargest(BEST, range(len(texts)), key=score.__getitem__)
    return b" ".join(b"%d" % (number + 1) for number in best)


# ---- two servers ---------------------------------------------------------------------------------


class InThreads(KeyValueServiceServicer):
    """Searches in the thread of the call, with a connection that is free."""

    def __init__(self, search: Callable[[Any, bytes], bytes], connections: Sequence[Any]) -> None:
        self.search = search
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for connection in connections:
            self.free.put(connection)

    def Retrieve(self, request: Any, context: Any) -> Any:
        """Return what the search has found; wait until a connection is free."""
        connection = self.free.get()
        try:
            return RetrieveResponse(value=self.search(connection, request.key))
        finally:
            self.free.put(connection)


class OnTheLoop(KeyValueServiceServicer):
    """Searches in a coroutine, and so in the thread of the event loop."""

    def __init__(self, search: Callable[[Any, bytes], bytes], connection: Any) -> None:
        self.search, self.connection = search, connection

    async def Retrieve(self, request: Any, context: Any) -> Any:
        """Return what the search has found."""
        found = self.search(self.connection, request.key)
        return RetrieveResponse(value=found)


# ---- what the parts cost ---------------------------------------------------------------------


class Parts(NamedTuple):
    """CPU times that were measured alone, and the cores of this machine."""

    search_s: float
    """Of a search in SQLite."""
    python_s: float
    """Of the same search in Python, which only counts the words."""
    call_s: float
    """Of a call without a search: client and server."""
    cores: int


def parts(library: Library, searches: Sequence[bytes]) -> Parts:
    """Measure a search of each kind, one after the other in this thread, and an empty call."""
    with served_by_threads(Nothing(), 4) as address:
        empty = measured(address, searches, in_flight=4, duration_s=0.2)
    return Parts(
        _cpu_of(search, library.connections(1)[0], searches),
        _cpu_of(search_in_python, library.texts, searches),
        empty.cpu_s / empty.answered,
        cores(),
    )


def _cpu_of(
    function: Callable[[Any, bytes], bytes], place: Any, searches: Sequence[bytes]
) -> float:
    """Return the mean CPU seconds of a search."""
    function(place, searches[0])  # the first one reads the file
    began_s = time.thread_time()
    for words in searches:
        function(place, words)
    return (time.thread_time() - began_s) / len(searches)


# ---- a server in this process, and its client ----------------------------------------------------


@dataclass(frozen=True)
class Searches:
    """Searches that were answered in a closed loop."""

    in_flight: int
    answered: int
    window_s: float
    cpu_s: float
    """CPU seconds of the whole process: server, SQLite and client."""

    @property
    def answered_per_s(self) -> float:
        """Return the throughput in calls/s."""
        return self.answered / self.window_s

    @property
    def cores_busy(self) -> float:
        """Return the mean number of cores that the process kept busy."""
        return self.cpu_s / self.window_s


class Nothing(KeyValueServiceServicer):
    """Answers each call at once: what a call costs without a search."""

    def Retrieve(self, request: Any, context: Any) -> Any:
        """Return an empty reply."""
        return RetrieveResponse()


@contextmanager
def served_by_threads(servicer: KeyValueServiceServicer, threads: int) -> Iterator[str]:
    """Run a server with a pool of threads for the block; yield its address."""
    with ThreadPoolExecutor(threads) as pool:
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        add_KeyValueServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        try:
            server.start()
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(0).wait()


@contextmanager
def served_on_a_loop(servicer: KeyValueServiceServicer) -> Iterator[str]:
    """Run a server whose methods are coroutines, with an event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="event loop of the search")

    async def start() -> tuple[Any, int]:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_KeyValueServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    try:
        with shielded():
            thread.start()
        server, port = asyncio.run_coroutine_threadsafe(start(), loop).result()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(0), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def measured(
    address: str, searches: Sequence[bytes], *, in_flight: int, duration_s: float
) -> Searches:
    """Keep `in_flight` searches in flight for `duration_s`, in turn; raise if one fails."""
    free, failed = threading.Semaphore(in_flight), threading.Event()

    def done(call: grpc.Future) -> None:
        if call.cancelled() or call.exception() is not None:
            failed.set()
        free.release()

    sent = 0
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        retrieve = KeyValueServiceStub(channel).Retrieve
        retrieve(RetrieveRequest(key=searches[0]), timeout=DEADLINE_S, wait_for_ready=True)
        began_s, cpu_s = time.perf_counter(), time.process_time()
        while time.perf_counter() < began_s + duration_s and not failed.is_set():
            free.acquire()
            request = RetrieveRequest(key=searches[sent % len(searches)])
            retrieve.future(request, timeout=DEADLINE_S).add_done_callback(done)
            sent += 1
        for _ in range(in_flight):
            free.acquire()
        window_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    if failed.is_set():
        raise RuntimeError("a search failed: the method Retrieve of its server raised an error")
    return Searches(in_flight, sent, window_s, cpu_s)


def table(runs: Mapping[str, Searches]) -> pd.DataFrame:
    """Return one row for each run: throughput, residence time, cores busy, CPU time of a call."""
    rows = {
        name: {
            "measured (calls/s)": run.answered_per_s,
            "residence, N/X (ms)": round(1e3 * run.in_flight / run.answered_per_s, 1),
            "cores busy": round(run.cores_busy, 2),
            "CPU time of a call (ms)": round(1e3 * run.cpu_s / run.answered, 2),
        }
        for name, run in runs.items()
    }
    return rounded(pd.DataFrame.from_dict(rows, orient="index"))
