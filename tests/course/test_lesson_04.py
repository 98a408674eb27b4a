"""Lesson 04: lost updates, its server, and the context switches of a server that only computes."""

import itertools
import threading
from concurrent import futures

import pytest
from verdicts import edited

from kvstore.course.exercises import find
from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_04.lost_update import (
    NeverDone,
    compare_and_set,
    history,
    key_of,
    orders,
    read_then_write,
)
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


@pytest.mark.slow
def test_a_thread_that_a_learner_leaves_waiting_does_not_keep_python_from_ending():
    before, threads = set(futures.thread._threads_queues), set(threading.enumerate())
    with_lock = "with self.locks[request.key]:"
    keeps = edited("04.server", with_lock, "self.locks[request.key].acquire()\n        if True:")

    assert not judged(find("04.server"), keeps).passed
    made = set(threading.enumerate()) - threads  # other tests may have left some
    stuck = [t for t in made if t.name.startswith("ThreadPool") and not t.daemon]
    assert not stuck
    assert set(futures.thread._threads_queues) <= before
