"""Lesson 05: the order of replies, and the replicated log."""

import os
import signal
import threading
import time

import pytest
from made_runs import overtaken, run_of

from kvstore.client import load
from kvstore.client.errors import ServerNotReached
from kvstore.client.strategies import blocking
from kvstore.course.lessons.lesson_05 import pipelining
from kvstore.course.lessons.lesson_05.pipelining import (
    CommitIndex,
    EntryRefused,
    FollowerLost,
    Log,
    a_log,
    read_back,
    replicate,
)
from kvstore.protocol import CREATE
from kvstore.server import serving

# ---- the order of replies ------------------------------------------------------------------------

OVERTAKEN = overtaken()


def test_replies_in_order_wait_for_all_earlier_ones():
    assert [0.050, 0.050, 0.050, 0.060] == pipelining.in_order_done_s(OVERTAKEN.calls).tolist()
    assert [0.0, 39.0, 38.0, 0.0] == list(pipelining.both_orders(OVERTAKEN)["held back (ms)"])


def test_overtaken_calls_and_positions_of_replies_are_counted_from_one():
    assert 1 == pipelining.overtaken(OVERTAKEN)
    assert 0 == pipelining.overtaken(run_of([(0, 1, "update"), (0.5, 2, "update")]))
    assert [3, 1, 2, 4] == [pipelining.answered_as(OVERTAKEN, n) for n in (1, 2, 3, 4)]


@pytest.mark.slow
def test_the_slow_write_comes_first_and_is_the_only_one():
    with serving(read_delay_s=0, write_delay_s=0) as server:
        run = load.run(blocking, server, pipelining.SLOW_FIRST, calls=pipelining.SLOW_FIRST_CALLS)

    assert ["update"] + 47 * ["retrieve"] == run.calls["operation"].tolist()


# ---- the replicated log --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("acknowledged", "indices"),
    [
        ((1, 2, 3), [1, 2, 3]),
        ((1, 3, 4, 2), [1, 1, 1, 4]),
        ((2, 2, 1, 1, 2), [0, 0, 2, 2, 2]),
    ],
)
def test_the_commit_index_moves_to_the_next_gap_and_counts_an_entry_once(acknowledged, indices):
    committed = CommitIndex()

    assert indices == [committed.acknowledge(index) for index in acknowledged]
    assert all(index in committed for index in acknowledged)
    assert 5 not in committed


class TestLog:
    def test_the_id_of_a_request_is_the_index_of_its_entry(self):
        log = Log([[b"a"], [b"b", b"c"]], name=b"log")

        request = log.append(2)

        assert 2 == request.id
        assert bytes([CREATE, CREATE]) == request.kinds
        assert [b"log/2/0", b"log/2/1"] == request.keys
        assert [b"b", b"c"] == request.values

    def test_two_logs_share_no_key_and_long_entries_come_at_regular_places(self):
        assert not set(a_log(1).keys(1)) & set(a_log(1).keys(1))
        assert [1, 1, 4, 1, 1, 4] == [len(entry) for entry in a_log(6, long_every=3).entries]

    def test_an_empty_log_and_an_empty_window_are_refused(self):
        for count, window in ((0, 1), (3, 0)):
            with pytest.raises(ValueError, match="1 or more"):
                replicate(a_log(count), "127.0.0.1:1", window=window)


@pytest.fixture(scope="module", params=[True, False], ids=["asyncio", "threads"])
def follower(request):
    with serving(
        read_delay_s=0, write_delay_s=0.005, locking="per_key", use_asyncio=request.param
    ) as server:
        yield server


@pytest.mark.slow
class TestReplicate:
    def test_the_follower_holds_the_log_and_the_window_is_kept(self, follower):
        for window in (1, 3, 64):
            log = a_log(20, long_every=6)
            copy = replicate(log, follower, window=window)
            assert 20 == copy.commit_index == copy.sent
            assert 0 == copy.unknown
            assert log.entries == read_back(log, follower)
            acks = copy.acks
            in_flight = [
                ((acks["sent_s"] <= at_s) & (at_s < acks["acked_s"])).sum()
                for at_s in acks["sent_s"]
            ]
            assert max(in_flight) <= window

    def test_replies_out_of_order_are_committed_in_order(self, follower):
        copy = replicate(a_log(30, long_every=5), follower, window=10)
        acks = copy.acks

        assert not acks["index"].is_monotonic_increasing
        assert acks["commit_index"].is_monotonic_increasing
        for row, commit_index in enumerate(acks["commit_index"], start=1):
            assert set(range(1, commit_index + 1)) <= set(acks["index"][:row])

    def test_entries_that_are_unknown_after_a_broken_stream_are_sent_again(self, follower):
        log = a_log(30)

        copy = replicate(log, follower, window=8, cut_after=10)

        assert 30 == copy.commit_index
        assert 0 < copy.unknown <= 8
        assert 30 + copy.unknown == copy.sent
        assert log.entries == read_back(log, follower)
        assert [1, 2] == sorted(copy.acks["stream"].unique())

    def test_a_stored_log_is_acknowledged_and_a_refused_entry_ends_the_copy(self, follower):
        class Wrong(Log):
            def append(self, index):
                request = super().append(index)
                del request.values[:]
                return request

        log = a_log(5)
        replicate(log, follower)

        again = replicate(log, follower, window=5)

        assert 5 == again.commit_index
        assert {"ALREADY_EXISTS"} == set(again.acks["status"])

        with pytest.raises(EntryRefused, match=r"entry 1 with INVALID_ARGUMENT: .*values"):
            replicate(Wrong([[b"a"]]), follower)


@pytest.mark.slow
def test_a_missing_follower_is_an_error(monkeypatch):
    monkeypatch.setattr("kvstore.client.channel.CONNECT_S", 0.3)

    with pytest.raises(ServerNotReached):
        replicate(a_log(1), "127.0.0.1:1")


@pytest.mark.slow
def test_ctrl_c_ends_the_copy_before_it_is_raised():
    with serving(write_delay_s=0.010, locking="per_key") as follower:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        began_s = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            replicate(a_log(5000), follower)

        assert time.perf_counter() - began_s < 10
        assert follower.alive()


@pytest.mark.slow
def test_a_follower_that_dies_is_an_error_after_the_deadline():
    with serving(write_delay_s=0.010, locking="per_key") as follower:
        end = threading.Timer(0.5, follower.child.popen.kill)
        end.start()
        began_s = time.perf_counter()
        with pytest.raises(FollowerLost, match=r"of 5000 entries were committed within 2 s"):
            replicate(a_log(5000), follower, deadline_s=2.0)

    assert time.perf_counter() - began_s < 15
