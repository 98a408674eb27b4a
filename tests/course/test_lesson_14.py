"""Lesson 14: what its exercises accept, and runs that were recorded."""

import grpc
import pytest
from made_runs import run_of

from kvstore.course import exercises
from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_14 import etcd_runs
from kvstore.course.lessons.lesson_14 import exercises as lesson_14
from kvstore.course.lessons.lesson_14 import questions as facts
from kvstore.course.lessons.lesson_14.etcd_runs import Failover
from kvstore.course.questions import predictions_of
from kvstore.model import tail_latency
from kvstore.server import EtcdNotInstalled
from kvstore.server.etcd_nodes import found_etcd
from kvstore.v1.etcd_pb2 import Compare, PutRequest, RangeRequest, RequestOp, TxnRequest

KILLED = Failover(
    1.0, 0.1, 100.0, 0.3, (2.0, 5.0), (1.0, 1.99, 3.2, 4.99, 6.3, 7.0), 0, {"UNAVAILABLE": 3}, 1
)


# ---- exercises ---------------------------------------------------------------------------------


def by_create_revision(stub, key, value):
    """The idiom of etcd's own clients."""
    absent = Compare(key=key, target="CREATE", result="EQUAL", create_revision=0)
    read = RequestOp(request_range=RangeRequest(key=key))
    put = RequestOp(request_put=PutRequest(key=key, value=value))
    return stub.Txn(TxnRequest(compare=[absent], success=[put], failure=[read])).succeeded


def the_other_way_round(stub, key, value):
    """If it is present, nothing; else put."""
    present = Compare(key=key, target=Compare.VERSION, result=Compare.GREATER, version=0)
    put = RequestOp(request_put=PutRequest(key=key, value=value))
    return not stub.Txn(TxnRequest(compare=[present], failure=[put])).succeeded


def with_a_look_before(stub, key, value):
    if stub.Range(RangeRequest(key=key), timeout=5).kvs:
        return False
    return lesson_14.create_if_absent(stub, key, value)


@pytest.mark.parametrize("answer", [by_create_revision, the_other_way_round, with_a_look_before])
def test_another_style_of_creating_is_right(answer):
    verdict = judged(exercises.find("14.create_if_absent"), answer)

    assert verdict.passed, verdict.message


def by_value(stub, key, value):
    """A key that does not exist has no value to compare, so this never creates."""
    empty = Compare(key=key, target=Compare.VALUE, result=Compare.EQUAL, value=b"")
    put = RequestOp(request_put=PutRequest(key=key, value=value))
    return stub.Txn(TxnRequest(compare=[empty], success=[put])).succeeded


def tries_until_it_answers(stub, key, value):
    for _ in range(3):
        try:
            return lesson_14.create_if_absent(stub, key, value)
        except grpc.RpcError:
            pass
    return False


@pytest.mark.parametrize(
    "answer", [by_value, tries_until_it_answers, lambda stub, key, value: True]
)
def test_more_wrong_ways_of_creating_are_rejected(answer):
    assert "not yet" == judged(exercises.find("14.create_if_absent"), answer).outcome


def test_late_writes_agrees_with_the_model_and_with_another_style():
    for stalled in (0.0, 0.1, 0.25, 0.9, 1.0):
        for nodes in (1, 3, 5, 7):
            expected = pytest.approx(tail_latency.late(stalled, nodes))
            assert expected == lesson_14.late_writes(stalled, nodes)
    assert judged(exercises.find("14.late_writes"), tail_latency.late).passed


# ---- claims that can fail, and predictions ------------------------------------------------------


def writes(count, commit_s, in_flight):
    """Writes that are committed one after the other while all of them are in flight."""
    return run_of([(0.0, commit_s * (n + 1), "create") for n in range(count)], in_flight=in_flight)


def test_the_parts_of_the_log_come_from_one_and_two_in_flight():
    lone = run_of([(0.1 * n, 0.1 * n + 0.03, "create") for n in range(9)], in_flight=1)

    log = facts.log_of(lone, writes(9, 0.02, 2))

    assert {"fsync_s": pytest.approx(0.02), "way_s": pytest.approx(0.01)} == log


def test_a_gap_is_the_longest_time_without_an_answer_around_its_kill():
    assert (pytest.approx(1.79), pytest.approx(1.31)) == KILLED.gaps_s()
    gap = next(each for each in predictions_of("14") if each.id == "14.gap")
    assert gap.model is not None
    assert pytest.approx(4 / 3 - 0.1) == gap.model(KILLED).value
    assert pytest.approx((1.79 + 1.31) / 2) == gap.measured(KILLED)


# ---- recorded runs, and real ones ----------------------------------------------------------------


def test_without_etcd_a_recorded_run_is_shown_and_says_so(monkeypatch, capsys, tmp_path):
    def missing():
        raise EtcdNotInstalled("there is no etcd on PATH. Install it")

    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite"))
    monkeypatch.setattr(etcd_runs, "found_etcd", missing)
    puts = etcd_runs.puts((1, 4), duration_s=1, closes="14.puts")
    reads = etcd_runs.reads(times=1)
    killed = etcd_runs.failover(kills=1, closes="14.gap")
    said = capsys.readouterr().out

    assert 3 == said.count("RECORDED, not run here: etcd 3.4.23") == said.count("Install it")
    assert all(each.recorded for each in (puts, reads, killed))
    assert puts.of(4).puts_per_fsync > puts.of(1).puts_per_fsync
    assert killed.missing == 0
    assert len(puts.table()) == len(puts.runs)
    assert "no answer" in reads.table().to_string()


@pytest.mark.slow
def test_a_leader_and_a_server_are_killed_and_no_acknowledged_write_is_missing(
    monkeypatch, tmp_path
):
    """The short form; `failover(kills=20)` is the long one."""
    try:
        found_etcd()
    except EtcdNotInstalled as absent:
        pytest.skip(str(absent))
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite"))

    killed = etcd_runs.failover(kills=1, election_timeout_s=0.5, closes="14.gap")

    assert killed.missing == 0
    assert killed.acknowledged_s[-1] > killed.kills_s[-1]


@pytest.mark.slow
def test_a_write_that_vanished_is_counted_as_missing(own_server):
    """The count of the missing is only as good as the reading."""
    with grpc.insecure_channel(own_server().address) as channel:
        stub = etcd_runs.KeyValueServiceStub(channel)
        stub.Create(etcd_runs.kvstore_pb2.CreateRequest(key=b"there", value=b"v"), timeout=10)
        keys = [b"there", *(b"missing %d" % n for n in range(150))]

        assert {b"there": b"v"} == etcd_runs.found(stub, keys)
