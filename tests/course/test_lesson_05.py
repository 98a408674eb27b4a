"""Lesson 05: the cost of a message, the race, the order of replies, and the replicated log."""

import os
import signal
import threading
import time

import pytest
from made_runs import costing, overtaken, run_of

from kvstore.client import load
from kvstore.client.errors import ServerNotReached
from kvstore.client.strategies import blocking
from kvstore.course import rendering
from kvstore.course.lessons.lesson_05 import batch_ladder, pipelining, rpc_pipeline
from kvstore.course.lessons.lesson_05.pipelining import (
    CommitIndex,
    EntryRefused,
    FollowerLost,
    Log,
    a_log,
    read_back,
    replicate,
)
from kvstore.measure import audit
from kvstore.model import Prediction
from kvstore.protocol import CREATE
from kvstore.server import serving

# ---- the cost of a message -----------------------------------------------------------------------

COST = batch_ladder.Cost(per_message_s=90e-6, per_operation_s=1e-6)


def test_two_sizes_give_a_and_b():
    found = batch_ladder.cost({1: costing(91e-6), 1_024: costing(1_114e-6)})

    assert pytest.approx(COST) == found
    assert found.throughput(10).value == pytest.approx(10 / 100e-6)
    coarse = batch_ladder.cost({1: costing(0.02), 1_024: costing(0.01)})
    assert 0 < coarse.per_operation_s < 1e-8  # a clock that is too coarse for b


def test_the_size_that_is_furthest_off_is_found_whichever_way():
    costs = {10: costing(100e-6), 110: costing(100e-6), 210: costing(450e-6)}

    assert batch_ladder.worst_factor(costs, COST) == pytest.approx(2.0)
    assert batch_ladder.worst_factor({10: costs[10]}, COST) == pytest.approx(1.0)


def test_a_bound_is_compared_over_the_busy_time_only():
    """1 operation a second, a quarter of a core busy; 8 a second were possible."""
    assert batch_ladder.while_at_work(costing(0.25), Prediction(8.0, "operations/s", "")) == 0.5


def test_one_operation_that_was_not_ok_is_not_verified():
    good, bad = run_of([(0.0, 1.0, "batch")]), run_of([(0.0, 1.0, "batch", "NOT_FOUND")])

    assert batch_ladder.verified({1: good, 8: good}) == 2
    assert batch_ladder.verified({1: good, 8: bad}) == 0


@pytest.mark.slow
def test_every_operation_of_a_climb_is_answered_verified_and_listed():
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        climbed = batch_ladder.climb(server, (1, 32, 1_024), duration_s=1.0, rounds=1)

    assert batch_ladder.verified(climbed) == sum(run.operations_ok for run in climbed.values())
    assert [1, 32, 1_024] == [run.records["operations"].max() for run in climbed.values()]
    table = batch_ladder.ladder_table(batch_ladder.ladder(climbed))
    assert [1.0, 1.511, 151.1] == list(table["times the first"])[:3]


def test_a_message_is_shown_as_protobuf_with_its_comment(page):
    rendering.show_message("PipelineRequest", "CreateResponse")
    plain = page[0]["text/plain"]

    assert plain.startswith("// ")
    assert "repeated bytes values = 4;\n}" in plain
    assert page[0]["text/markdown"].endswith("message CreateResponse {}\n```")
    with pytest.raises(LookupError, match="no 'Nothing'"):
        rendering.show_message("Nothing")


# ---- the race of three clients -------------------------------------------------------------------


@pytest.mark.slow
def test_each_client_makes_all_its_calls_in_each_round_and_stands_beside_the_published():
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        runs = rpc_pipeline.race(server, calls=60, rounds=2)

    assert [2, 2, 2, 2] == [len(repeated) for repeated in runs.values()]
    for repeated in runs.values():
        assert all({"OK": 60} == run.outcomes() and audit(run).holds for run in repeated)
    shares = rpc_pipeline.ratios(runs)
    assert list(runs) == list(rpc_pipeline.as_published(runs).index) == list(shares.index)
    assert 1.0 == shares.loc["synchronous", "real here"]
    assert 0.35 == shares.loc["pipelined", "real published"]
    assert 0.92 == shares.loc["pipelined", "processor published"]


def test_rounds_that_overlap_are_called_so():
    def lasting(*seconds):
        return [run_of([(0.0, each, "retrieve")]) for each in seconds]

    apart = {"synchronous": lasting(3.0, 4.0), "pipelined": lasting(1.0, 2.0)}
    mixed = {"synchronous": lasting(3.0, 4.0), "pipelined": lasting(1.0, 3.5)}

    assert "every pipelined round" in rpc_pipeline.spread_in_words(apart)
    assert "overlap, 1.00 to 3.50 s" in rpc_pipeline.spread_in_words(mixed)


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
