"""stories/lost_update.py: lost every time in these orders, and never with compare and replace."""

import itertools

import pytest

from kvstore.client.workload import retrieve, update
from kvstore.course.stories.lost_update import (
    NeverDone,
    compare_and_replace,
    history,
    orders,
    read_then_write,
    version,
)

names = (b"counter-%d" % number for number in itertools.count())
pytestmark = pytest.mark.slow  # real servers


@pytest.mark.parametrize("order", ["ABAB", "ABBA", "BAAB", "BABA"])
def test_one_update_is_lost_whenever_both_read_before_either_writes(quick_server, order):
    seen = history(quick_server, read_then_write, order, next(names))

    assert (2, 1, 1) == (seen.counted, seen.stored, seen.lost)
    assert list(order) == seen.calls["client"].tolist()
    assert {"OK"} == set(seen.calls["answer"])  # nobody was told


@pytest.mark.parametrize("order", ["AABB", "BBAA"])
def test_nothing_is_lost_by_clients_who_take_turns(quick_server, order):
    assert 0 == history(quick_server, read_then_write, order, next(names)).lost


@pytest.mark.parametrize("order", [*orders(), "ABCABC", "AB"])
def test_compare_and_replace_loses_none_in_any_order(quick_server, order):
    seen = history(quick_server, compare_and_replace, order, next(names))

    assert seen.counted == seen.stored == len(set(order))


def test_who_comes_second_is_refused_and_reads_anew(quick_server):
    seen = history(quick_server, compare_and_replace, "ABAB", next(names))
    second = seen.calls[seen.calls["client"] == "B"]

    assert ["OK", "ALREADY_EXISTS", "OK", "OK"] == second["answer"].tolist()
    assert ["retrieve", "create", "retrieve", "create"] == second["asks"].tolist()


def test_every_order_is_there_once():
    assert ["AABB", "ABAB", "ABBA", "BAAB", "BABA", "BBAA"] == orders()


def test_a_counter_that_is_known_is_refused(quick_server):
    counter = next(names)
    history(quick_server, read_then_write, "AB", counter)

    with pytest.raises(RuntimeError, match="known already"):
        history(quick_server, read_then_write, "AB", counter)


def test_clients_that_never_finish_are_stopped(quick_server):
    def for_ever(counter):
        while True:
            yield update(version(counter, 0), b"7")

    with pytest.raises(NeverDone, match="A, B are not done after 100 calls"):
        history(quick_server, for_ever, "AB", next(names))


def test_a_client_that_asks_nothing_has_counted_nothing(quick_server):
    def idle(counter):
        if counter is None:
            yield retrieve(b"")

    seen = history(quick_server, idle, "AB", next(names))

    assert (2, 0) == (seen.counted, seen.stored)
    assert 0 == len(seen.calls)
