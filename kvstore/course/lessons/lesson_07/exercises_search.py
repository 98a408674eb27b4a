"""Further lesson 07: a grpc.aio servicer whose searches need a thread and a connection each."""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import grpc

from kvstore.course.exercises import (
    NOT_ATTEMPTED,
    Exercise,
    StubReached,
    Verdict,
    not_yet,
    passed,
)
from kvstore.course.exercises.puppet import HELD_S, PATIENCE_S, wait_until
from kvstore.course.exercises.server_trials import ServerFailed
from kvstore.course.lessons.lesson_07.exercises_server import started
from kvstore.v1.kvstore_pb2 import RetrieveRequest, RetrieveResponse
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    add_KeyValueServiceServicer_to_server,
)

CONNECTIONS: Final = (3, 1, 5)
"""So many connections there are, in turn."""
CALLS: Final = 12
DEADLINE_S: Final = 5.0
BROKEN: Final = b"broken"
"""A search for these words raises an error."""


class Search(KeyValueServiceServicer):
    """Searches in threads of its own, one for each connection."""

    def __init__(self, search: Callable[[Any, bytes], bytes], connections: Sequence[Any]) -> None:
        self.search = search
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for connection in connections:
            self.free.put(connection)
        self.threads = ThreadPoolExecutor(len(connections))

    def in_a_thread(self, words: bytes) -> bytes:
        """Search with a connection that no other thread uses meanwhile."""
        connection = self.free.get()
        try:
            return self.search(connection, words)
        finally:
            self.free.put(connection)

    async def Retrieve(self, request: Any, context: Any) -> Any:
        """Return what the search has found."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self.threads, self.in_a_thread, request.key)
        return RetrieveResponse(value=found)


class _HeldSearch:
    """A search that waits for the trial, and sees how it is called."""

    def __init__(self, loop_thread: int) -> None:
        self._loop_thread = loop_thread
        self._changed = threading.Condition()
        self._held = False
        self._used: list[Any] = []
        self.shared = self.on_the_loop = False
        self.seen: set[int] = set()

    def __call__(self, connection: Any, words: bytes) -> bytes:
        if threading.get_ident() == self._loop_thread:
            self.on_the_loop = True
            return words.upper()
        with self._changed:
            self.shared |= connection in self._used
            self.seen.add(connection)
            self._used.append(connection)
            self._changed.wait_for(lambda: not self._held, HELD_S)
            self._used.remove(connection)
        if words == BROKEN:
            raise RuntimeError("the search failed, on purpose")
        return words.upper()

    @property
    def running(self) -> int:
        return len(self._used)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let every search wait until the end of the block."""
        self._held = True
        try:
            yield
        finally:
            with self._changed:
                self._held = False
                self._changed.notify_all()


class _Trial:
    def __init__(self, search: _HeldSearch, stub: Any, connections: int) -> None:
        self.search, self.stub, self.connections = search, stub, connections

    def begin(self, words: bytes, deadline_s: float = DEADLINE_S) -> Any:
        return self.stub.Retrieve.future(RetrieveRequest(key=words), deadline_s)

    def most_at_once(self) -> tuple[int, list[Any]]:
        """Send `CALLS` calls, hold their searches; return how many ran at once, and the calls."""
        with self.search.held():
            calls = [self.begin(b"word %d" % number) for number in range(CALLS)]
            wait_until(
                lambda: self.search.running > self.connections or self.search.on_the_loop, 0.3
            )
            wait_until(lambda: self.search.running >= self.connections or self.search.on_the_loop)
            most = self.search.running
        return most, calls


def _ended(call: Any) -> bytes | grpc.StatusCode | None:
    """Return the value, or the status. Raises `ServerFailed` where no reply was returned."""
    error = call.exception()
    if error is None:
        return bytes(call.result().value)
    if "erialize" in str(error.details()):
        raise ServerFailed(
            "your method returned something else than a reply message: put what was found into"
            " `kvstore_pb2.RetrieveResponse(value=...)`."
        )
    code: grpc.StatusCode = error.code()
    return code


@contextmanager
def _trial_of(answer: Callable[..., Any], connections: int) -> Iterator[_Trial]:
    """Start a server with the learner's servicer; all ends with the block."""
    made = []

    async def begin(_: object) -> tuple[Any, int]:
        made.append(_HeldSearch(threading.get_ident()))
        servicer = answer(made[0], list(range(connections)))
        if servicer is NOT_ATTEMPTED:
            raise StubReached
        server = grpc.aio.server()
        add_KeyValueServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    with started(begin) as (_, stub):
        yield _Trial(made[0], stub, connections)


def _first_reply(answer: Callable[..., Any]) -> None:
    """Raise `StubReached` if the method is still to be written."""

    async def reply() -> Any:
        servicer = answer(lambda connection, words: words, [0])
        if not isinstance(servicer, KeyValueServiceServicer):
            return servicer
        return await servicer.Retrieve(RetrieveRequest(key=b"word"), None)

    if asyncio.run(reply()) is NOT_ATTEMPTED:
        raise StubReached


def _judge_search(answer: Any) -> Verdict:
    _first_reply(answer)
    try:
        for connections in CONNECTIONS:
            with _trial_of(answer, connections) as trial:
                for step in (_at_once, _after_errors, _after_a_deadline):
                    if problem := step(trial):
                        return not_yet(problem)
    except ServerFailed as failed:
        return not_yet(str(failed))
    return passed(
        f"{CALLS} callers, and always as many searches at once as connections, and the event"
        " loop was free meanwhile. Errors and callers that gave up cost no connection."
    )


def _at_once(trial: _Trial) -> str:
    most, calls = trial.most_at_once()
    found = [_ended(call) for call in calls]
    search = trial.search
    if search.on_the_loop:
        return (
            "the search ran in the thread of the event loop, so no other call could be served"
            " meanwhile: let a thread search, and `await` its result."
        )
    if search.shared:
        return "two searches used one connection at the same time: each needs one of its own."
    if found != [b"WORD %d" % number for number in range(CALLS)]:
        return f"every caller must get what its own search found, got {found[:3]!r} and more."
    if most < trial.connections:
        return (
            f"{CALLS} calls, {trial.connections} connections, and never more than {most} at work at"
            " once: a connection that no search uses must serve the next caller."
        )
    return ""


def _after_errors(trial: _Trial) -> str:
    """A search that fails gives its connection back."""
    for _ in range(trial.connections):
        _ended(trial.begin(BROKEN, PATIENCE_S))
    most, calls = trial.most_at_once()
    if most < trial.connections or any(isinstance(_ended(call), grpc.StatusCode) for call in calls):
        return (
            f"after searches that raised an error, {most} of {trial.connections} connections are"
            " left: give each one back in a `finally`."
        )
    return ""


def _after_a_deadline(trial: _Trial) -> str:
    """After a deadline, gRPC cancels the coroutine; the search goes on in its thread."""
    with trial.search.held():
        late = [trial.begin(b"late", 0.2) for _ in range(trial.connections)]
        ended = [_ended(call) for call in late]
        later = [trial.begin(b"later") for _ in range(trial.connections)]
        wait_until(lambda: trial.search.shared or trial.search.running > trial.connections, 0.3)
    for call in later:
        _ended(call)
    if grpc.StatusCode.DEADLINE_EXCEEDED not in ended:
        return f"a caller with a deadline of 0.2 s got {ended[0]!r} after a longer search."
    if trial.search.shared:
        return (
            "a caller gave up, and its connection was given to the next one while its search still"
            " ran. gRPC cancels your coroutine, but nothing stops the thread. So take the"
            " connection and give it back *in the thread*."
        )
    return ""


SEARCH = Exercise(
    id="07.search",
    title="As many searches as connections",
    hints=(
        "In `__init__`, put the connections into a `queue.SimpleQueue()`: `get()` waits for a free"
        " one, and `put()` gives it back.",
        "Write a plain method `in_a_thread(self, words)`: `get()`, then `self.search(...)` in a"
        " `try`, and `put()` in its `finally`.",
        "`await asyncio.to_thread(self.in_a_thread, request.key)` runs it in a thread. Return"
        " `kvstore_pb2.RetrieveResponse(value=...)` with what it found.",
    ),
    reference=Search,
    judge=_judge_search,
    timeout_s=60.0,
)
