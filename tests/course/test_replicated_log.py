"""The log: every entry is committed once, in order, whatever the stream does."""

import os
import signal
import threading
import time

import pytest

from kvstore.client.channel import ServerNotReached
from kvstore.codes import CREATE
from kvstore.course.stories import pictures
from kvstore.course.stories.replicated_log import (
    CommitIndex,
    EntryRefused,
    FollowerLost,
    Log,
    a_log,
    read_back,
    replicate,
)
from kvstore.server import serving


class TestCommitIndex:
    def test_it_moves_over_an_unbroken_row(self):
        committed = CommitIndex()

        assert [1, 2, 3] == [committed.acknowledge(index) for index in (1, 2, 3)]

    def test_it_stands_before_a_gap_and_catches_up_when_it_closes(self):
        committed = CommitIndex()

        assert [1, 1, 1, 4] == [committed.acknowledge(index) for index in (1, 3, 4, 2)]

    def test_an_entry_acknowledged_twice_counts_once(self):
        committed = CommitIndex()

        assert [0, 0, 2, 2, 2] == [committed.acknowledge(index) for index in (2, 2, 1, 1, 2)]

    def test_it_knows_what_is_acknowledged_committed_or_not(self):
        committed = CommitIndex()
        for index in (1, 3):
            committed.acknowledge(index)

        assert [True, False, True, False] == [index in committed for index in (1, 2, 3, 4)]


class TestLog:
    def test_the_id_of_a_request_is_the_index_of_its_entry(self):
        log = Log([[b"a"], [b"b", b"c"]], name=b"log")

        request = log.append(2)

        assert 2 == request.id
        assert bytes([CREATE, CREATE]) == request.kinds
        assert [b"log/2/0", b"log/2/1"] == request.keys
        assert [b"b", b"c"] == request.values

    def test_two_logs_never_share_a_key(self):
        assert not set(a_log(1).keys(1)) & set(a_log(1).keys(1))

    def test_long_entries_stand_where_they_were_asked_for(self):
        assert [1, 1, 4, 1, 1, 4] == [len(entry) for entry in a_log(6, long_every=3).entries]

    @pytest.mark.parametrize(("count", "window"), [(0, 1), (3, 0)])
    def test_nothing_to_send_is_refused(self, count, window):
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
    @pytest.mark.parametrize("window", [1, 3, 64])
    def test_the_follower_holds_the_log(self, follower, window):
        log = a_log(20, long_every=6)

        copy = replicate(log, follower, window=window)

        assert 20 == copy.commit_index == copy.sent
        assert 0 == copy.unknown
        assert log.entries == read_back(log, follower)

    @pytest.mark.parametrize("window", [1, 4])
    def test_no_more_than_the_window_are_in_flight(self, follower, window):
        acks = replicate(a_log(20), follower, window=window).acks

        for at_s in acks["sent_s"]:
            assert ((acks["sent_s"] <= at_s) & (at_s < acks["acked_s"])).sum() <= window

    def test_replies_out_of_order_are_committed_in_order(self, follower):
        acks = replicate(a_log(30, long_every=5), follower, window=10).acks

        assert not acks["index"].is_monotonic_increasing
        assert acks["commit_index"].is_monotonic_increasing
        for row, commit_index in enumerate(acks["commit_index"], start=1):
            assert set(range(1, commit_index + 1)) <= set(acks["index"][:row])

    def test_the_table_of_acknowledgements_says_what_is_committed_and_names_its_units(
        self, follower
    ):
        copy = replicate(a_log(30, long_every=5), follower, window=10)

        table = pictures.acknowledged(copy, most=30)

        assert all("(" in name for name in table if name not in ("entry", "is committed"))
        assert [1, 30] == [table.index[0], table.index[-1]]
        late = table["entry"] > table["committed up to (entry)"]
        assert (late == ~table["is committed"]).all()
        assert late.any()

    def test_what_a_broken_stream_leaves_unknown_is_sent_again(self, follower):
        log = a_log(30)

        copy = replicate(log, follower, window=8, cut_after=10)

        assert 30 == copy.commit_index
        assert 0 < copy.unknown <= 8
        assert 30 + copy.unknown == copy.sent
        assert log.entries == read_back(log, follower)
        assert [1, 2] == sorted(copy.acks["stream"].unique())

    def test_a_log_that_is_there_already_is_acknowledged(self, follower):
        log = a_log(5)
        replicate(log, follower)

        again = replicate(log, follower, window=5)

        assert 5 == again.commit_index
        assert {"ALREADY_EXISTS"} == set(again.acks["status"])

    def test_an_entry_that_is_refused_ends_it_with_the_reason(self, follower):
        class Wrong(Log):
            def append(self, index):
                request = super().append(index)
                del request.values[:]
                return request

        with pytest.raises(EntryRefused, match=r"entry 1 with INVALID_ARGUMENT: .*values"):
            replicate(Wrong([[b"a"]]), follower)


@pytest.mark.slow
def test_a_follower_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("kvstore.client.channel.CONNECT_S", 0.3)

    with pytest.raises(ServerNotReached):
        replicate(a_log(1), "127.0.0.1:1")


@pytest.mark.slow
def test_ctrl_c_ends_the_copying_before_it_is_heard_of():
    with serving(write_delay_s=0.010, locking="per_key") as follower:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        began_s = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            replicate(a_log(5000), follower)

        assert time.perf_counter() - began_s < 10
        assert follower.alive()


@pytest.mark.slow
def test_a_follower_that_dies_is_waited_for_and_then_given_up():
    with serving(write_delay_s=0.010, locking="per_key") as follower:
        end = threading.Timer(0.5, follower.child.popen.kill)
        end.start()
        began_s = time.perf_counter()
        with pytest.raises(FollowerLost, match=r"of 5000 entries were committed within 2 s"):
            replicate(a_log(5000), follower, deadline_s=2.0)

    assert time.perf_counter() - began_s < 15
