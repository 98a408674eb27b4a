"""Further lesson 07: the search, its servers, and the models of its questions."""

import sqlite3
import threading
import time

import pytest

from kvstore.course.lessons.lesson_07 import questions as facts
from kvstore.course.lessons.lesson_07 import search
from kvstore.course.lessons.lesson_07.search import Parts, Searches
from kvstore.course.questions import registered

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


def at_once(connections):
    """A search that notes how many of its calls run at the same time, and the most of them."""
    running, most, lock = set(), [0], threading.Lock()

    def slow(connection, words):
        with lock:
            running.add(call := object())
            most[0] = max(most[0], len(running))
        time.sleep(0.01)
        with lock:
            running.remove(call)
        return b""

    servicer = search.InThreads(slow, range(connections))
    with search.served_by_threads(servicer, threads=8) as address:
        run = search.measured(address, [b"w"], in_flight=8, duration_s=0.3)
    assert run.answered > 8
    return most[0]


def test_threads_search_on_as_many_connections_as_there_are():
    assert at_once(connections=1) == 1
    assert 1 < at_once(connections=3) <= 3


def test_a_server_on_an_event_loop_answers_with_what_was_found(books):
    with search.served_on_a_loop(search.OnTheLoop(search.search, *books.connections(1))) as address:
        run = search.measured(address, search.some_searches(9), in_flight=8, duration_s=0.2)

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
