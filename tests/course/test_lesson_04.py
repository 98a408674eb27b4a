"""Lesson 04: lost updates, its server, and the context switches of a server that only computes."""

import itertools
import threading
from concurrent import futures

import pytest
import wrong_answers
from failures import failures

from kvstore.client.messages import create, delete, update
from kvstore.course.checks import solution
from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_04 import exercises_server
from kvstore.course.lessons.lesson_04.lost_update import (
    BEFORE,
    NeverDone,
    Race,
    compare_and_set,
    count_together,
    history,
    key_of,
    orders,
    races,
    read_then_write,
    table,
)
from kvstore.server import WRITINGS
from kvstore.v1.kvstore_pb2 import RetrieveRequest

names = (b"counter-%d" % number for number in itertools.count())


@pytest.mark.slow
class TestBetweenTwoCalls:
    def test_read_then_write_loses_an_update_whenever_both_read_before_either_writes(
        self, quick_server
    ):
        assert ["AABB", "ABAB", "ABBA", "BAAB", "BABA", "BBAA"] == orders()
        for order in orders():
            seen = history(quick_server, read_then_write, order, next(names), start=41)
            lost = 0 if order in ("AABB", "BBAA") else 1
            assert (2, 43 - lost, lost) == (seen.counted, seen.stored, seen.lost), order
            assert list(order) == seen.calls["client"].tolist()
            assert {"OK"} == set(seen.calls["status"])  # no reply reports the loss

    def test_compare_and_set_loses_none_in_any_order(self, quick_server):
        for order in [*orders(), "ABCABC", "AB"]:
            seen = history(quick_server, compare_and_set, order, next(names))
            assert seen.counted == seen.stored == len(set(order)), order
            assert seen.created == seen.returned

        seen = history(quick_server, compare_and_set, "ABAB", next(names))
        second = seen.calls[seen.calls["client"] == "B"]
        assert ["OK", "ALREADY_EXISTS", "OK", "OK"] == second["status"].tolist()

    def test_a_known_counter_and_clients_without_end_are_refused(self, quick_server):
        def for_ever(stub, counter, version):
            while True:
                stub.Retrieve(RetrieveRequest(key=key_of(counter, version)))

        counter = next(names)
        history(quick_server, read_then_write, "AB", counter)
        with pytest.raises(RuntimeError, match="exists already"):
            history(quick_server, read_then_write, "AB", counter)
        with pytest.raises(NeverDone, match="A, B have not ended after 100 calls"):
            history(quick_server, for_ever, "AB", next(names))

    def test_an_error_of_a_client_reaches_the_caller(self, quick_server):
        def wrong(stub, counter, version):
            raise LookupError("of the answer")

        with pytest.raises(LookupError, match="of the answer"):
            history(quick_server, wrong, "AB", next(names))

    def test_clients_that_meet_are_counted_twice(self, own_server):
        """Both counts come from what happened: the acknowledged adds, and the store."""
        seen = {}
        for add in (read_then_write, compare_and_set):
            server = own_server(locking="per_key_held", read_delay_s=0.01, write_delay_s=0.05)
            seen[add.__name__] = made = count_together(server, add, clients=3, each=4)
            assert (12, 12 - made.stored) == (made.acknowledged, made.lost)
            assert made.stored == max(int(value) for value in made.calls["writes"] if value)
            with pytest.raises(RuntimeError, match="start another server"):
                count_together(server, add, clients=1, each=1)

        assert seen["read_then_write"].lost > 0 == seen["compare_and_set"].lost
        assert {"OK"} == set(seen["read_then_write"].calls["status"])


LOSE = ["create, create", "delete, update"]
SLOW = {"write_delay_s": 0.3, "read_delay_s": 0, "locking": "per_key"}


@pytest.mark.slow
class TestInTheServer:
    def test_read_then_write_loses_every_race_and_the_others_none(self, own_server):
        for writing in WRITINGS:
            delay_s = 0.9 if writing == "read_then_write" else 0.3  # time between the two calls
            seen = races(own_server(**SLOW | {"write_delay_s": delay_s}, writing=writing))
            lost = [name for name, race in seen.items() if race.lost]
            assert lost == (LOSE if writing == "read_then_write" else []), writing
            if lost:
                assert {race.statuses for race in seen.values()} == {("OK", "OK")}

        held = races(own_server(**SLOW | {"locking": "per_key_held"}, writing="read_then_write"))
        assert not any(race.lost for race in held.values())  # the lock is held through the disk

    def test_a_disk_that_is_too_fast_and_a_server_with_races_are_refused(
        self, quick_server, own_server
    ):
        with pytest.raises(RuntimeError, match=r"0\.05 or more for a race, got 0\.002"):
            races(quick_server)

        server = own_server(write_delay_s=0.05)
        races(server)
        with pytest.raises(RuntimeError, match="start another server"):
            races(server)


HISTORIES = [
    (BEFORE, (update, update), ("OK", "OK"), b"B", ["AB"]),
    (BEFORE, (update, update), ("OK", "OK"), b"A", ["BA"]),
    (BEFORE, (update, update), ("OK", "OK"), BEFORE, []),
    (BEFORE, (update, delete), ("OK", "OK"), None, ["AB"]),
    (BEFORE, (update, delete), ("NOT_FOUND", "OK"), None, ["BA"]),
    (BEFORE, (delete, update), ("OK", "OK"), b"B", []),
    (None, (create, create), ("OK", "OK"), b"B", []),
    (None, (create, create), ("OK", "ALREADY_EXISTS"), b"A", ["AB"]),
    (None, (create, create), ("OK", "ALREADY_EXISTS"), b"B", []),
    (None, (delete, delete), ("OK", "OK"), None, ["AB", "BA"]),
]


def test_a_history_is_linearizable_if_some_order_explains_it():
    def check(case):
        before, kinds, statuses, stored, explained_by = case
        operations = tuple(
            make(b"key") if make is delete else make(b"key", value)
            for make, value in zip(kinds, (b"A", b"B"), strict=True)
        )
        race = Race(before, operations, statuses, stored)
        words = " or ".join(explained_by) or "NO ORDER"
        assert explained_by == race.explained_by
        assert race.lost is (not explained_by)
        assert words == table({"it": race}).loc["it", "explained by"]

    assert {} == failures(check, HISTORIES)


# ---- 04.server -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thread_that_a_learner_leaves_waiting_does_not_keep_python_from_ending():
    before, threads = set(futures.thread._threads_queues), set(threading.enumerate())
    keeps = wrong_answers.serving(wrong_answers.KeepsTheLock)

    assert not judged(exercises_server.SERVER, keeps).passed
    made = set(threading.enumerate()) - threads  # other tests may have left some
    stuck = [t for t in made if t.name.startswith("ThreadPool") and not t.daemon]
    assert not stuck
    assert set(futures.thread._threads_queues) <= before


def test_the_solution_shows_the_class_that_the_function_starts(capsys):
    solution("04.server")
    shown = capsys.readouterr().out

    assert shown.index("class Store") < shown.index("with self.locks") < shown.index("def serve")
