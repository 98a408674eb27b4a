"""Further lesson 07: the search, its servers, its exercise, and the conditions of its claims."""

import asyncio
import queue
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_07 import questions as facts
from kvstore.course.lessons.lesson_07 import search
from kvstore.course.lessons.lesson_07.exercises_search import SEARCH, Search
from kvstore.course.lessons.lesson_07.search import Parts, Searches
from kvstore.course.questions import registered
from kvstore.v1.kvstore_pb2 import RetrieveResponse
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceServicer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def books():
    with search.library(300) as made:
        yield made


def test_the_documents_come_from_the_seed_and_are_deleted_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with search.library(5) as one, search.library(5) as same, search.library(5, seed=8) as other:
        assert one.texts == same.texts != other.texts
        assert len(list(tmp_path.iterdir())) == 3
        kept = one.connections(2)
    assert list(tmp_path.iterdir()) == []
    for each in kept:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            each.execute("SELECT 1")


def test_a_search_finds_the_documents_that_have_its_words(books):
    found = search.search(books.connections(1)[0], b"w5 w9").split()
    counted = search.search_in_python(books.texts, b"w5 w9").split()

    assert len(found) == len(counted) == search.BEST
    for number in {*found, *counted}:
        assert {"w5", "w9"} & set(books.texts[int(number) - 1].split())
    most = max(range(300), key=lambda n: sum(map(books.texts[n].count, (" w5 ", " w9 "))))
    assert int(counted[0]) == most + 1


def test_a_connection_only_reads(books):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        books.connections(1)[0].execute("DELETE FROM documents")


def test_without_full_text_search_the_message_says_what_to_do(monkeypatch):
    class WithoutFts5(sqlite3.Connection):
        def execute(self, statement, *more):
            return super().execute(statement.replace("fts5", "fts5_of_another_build"), *more)

    monkeypatch.setattr(
        search.sqlite3, "connect", lambda *a, **b: WithoutFts5(*a, **b), raising=True
    )
    with pytest.raises(search.FullTextMissing, match=r"built without FTS5 .* leave this lesson"):
        search.check_full_text()


@pytest.mark.parametrize("connections", [1, 3])
def test_threads_search_on_as_many_connections_as_there_are(books, connections):
    def search_long_enough_to_overlap(place, words):
        time.sleep(0.01)
        return search.search(place, words)

    counted = search.Counted(search_long_enough_to_overlap)
    servicer = search.InThreads(counted, books.connections(connections))
    with search.served_by_threads(servicer, threads=8) as address:
        run = search.measured(address, search.some_searches(9), in_flight=8, duration_s=0.3)

    assert run.answered > 8
    assert counted.most_at_once <= connections
    assert connections == 1 or counted.most_at_once > 1


def test_a_coroutine_that_searches_keeps_the_loop_for_itself(books):
    counted = search.Counted(search.search)
    with search.served_on_a_loop(search.OnTheLoop(counted, *books.connections(1))) as address:
        run = search.measured(address, search.some_searches(9), in_flight=8, duration_s=0.2)

    assert counted.most_at_once == 1
    assert run.answered >= 8


def test_a_search_that_fails_ends_the_measurement(books):
    servicer = search.InThreads(lambda connection, words: 1 / 0, [None])
    with (
        search.served_by_threads(servicer, threads=1) as address,
        pytest.raises(Exception, match="division by zero"),
    ):
        search.measured(address, [b"w1"], in_flight=1, duration_s=0.1)


# ---- predictions and claims ----------------------------------------------------------------------

PARTS = Parts(search_s=0.005, python_s=0.010, call_s=0.001, cores=3)


def test_the_predictions_worked_out_by_hand():
    assert facts.on_the_loop(PARTS).value == pytest.approx(200.0)
    assert facts.in_python(PARTS).value == pytest.approx(100.0)
    for connections, value, binds in [
        (1, 200.0, "connections"), (2, 400.0, "connections"),
        (3, 500.0, "cores"), (16, 500.0, "cores"),
    ]:  # fmt: skip
        predicted = facts.with_connections(PARTS, connections)
        assert (predicted.value, predicted.binds) == (pytest.approx(value), binds)
    run = Searches(16, 300, 2.0, 1.9)
    for name, value in (("search_loop", 200.0), ("search_threads", 500.0)):
        question = registered(f"07.{name}")
        assert question.measured(run, PARTS) == 150.0
        assert question.model(run, PARTS).value == pytest.approx(value)


# ---- the exercise --------------------------------------------------------------------------------


class InPythonsPool(Search):
    async def Retrieve(self, request, context):
        return RetrieveResponse(value=await asyncio.to_thread(self.in_a_thread, request.key))


class ConnectionOfAThread(KeyValueServiceServicer):
    """Each thread of the pool takes a connection once, and keeps it."""

    def __init__(self, search, connections):
        import threading

        self.search, self.own, free = search, threading.local(), list(connections)
        self.threads = ThreadPoolExecutor(
            len(free), initializer=lambda: setattr(self.own, "connection", free.pop())
        )

    async def Retrieve(self, request, context):
        work = self.threads.submit(lambda: self.search(self.own.connection, request.key))
        return RetrieveResponse(value=await asyncio.wrap_future(work))


class Shielded(KeyValueServiceServicer):
    """It takes the connection in the coroutine, and gives it back when the search has ended."""

    def __init__(self, search, connections):
        self.search, self.free = search, asyncio.Queue()
        for each in connections:
            self.free.put_nowait(each)

    async def Retrieve(self, request, context):
        connection = await self.free.get()
        task = asyncio.ensure_future(asyncio.to_thread(self.search, connection, request.key))
        task.add_done_callback(lambda _: self.free.put_nowait(connection))
        return RetrieveResponse(value=await asyncio.shield(task))


@pytest.mark.parametrize("answer", [InPythonsPool, ConnectionOfAThread, Shielded])
def test_another_style_is_right(answer):
    verdict = judged(SEARCH, answer)

    assert verdict.passed, verdict.message


def test_a_method_that_is_still_to_be_written_is_not_attempted():
    from kvstore.course import NOT_ATTEMPTED

    class Unwritten(Search):
        async def Retrieve(self, request, context):
            return NOT_ATTEMPTED

    assert judged(SEARCH, Unwritten).outcome == "not attempted"


class SharesTheFirst(Search):
    def in_a_thread(self, words):
        return self.search(0, words)


class WithoutWaiting(InPythonsPool):
    """Takes a connection only if one is free at once."""

    def in_a_thread(self, words):
        try:
            connection = self.free.get_nowait()
        except queue.Empty:
            return b""
        try:
            return self.search(connection, words)
        finally:
            self.free.put(connection)


@pytest.mark.parametrize("answer", [SharesTheFirst, WithoutWaiting])
def test_more_wrong_ways_are_rejected(answer):
    verdict = judged(SEARCH, answer)

    assert verdict.outcome == "not yet"
