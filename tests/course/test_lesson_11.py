"""Lesson 11: what its exercises accept, that each claim can fail, and runs that were recorded."""

import dataclasses

import grpc
import pytest
from made_runs import run_of
from tables import for_each

from kvstore.course import exercises
from kvstore.course.exercises import lesson_11
from kvstore.course.exercises.grading import judged
from kvstore.course.experiments import etcd_runs, plots
from kvstore.course.experiments.etcd_runs import Failover, PutRun, Puts, Reads
from kvstore.course.questions import lesson_11 as facts
from kvstore.course.questions import predictions_of
from kvstore.model import tail_latency
from kvstore.server import EtcdNotInstalled
from kvstore.server.etcd_nodes import found_etcd
from kvstore.v1.etcd_pb2 import Compare, PutRequest, RangeRequest, RequestOp, TxnRequest

PUTS = Puts(
    (
        PutRun(1, 400.0, 0.0025, 0.001, 1.0, 0.0004),
        PutRun(4, 1200.0, 0.0033, 0.001, 1.8, 0.0003),
        PutRun(32, 5000.0, 0.0064, 0.002, 8.0, 0.0002),
    ),
    cores=2,
)
READS = Reads({"all": 0.001, "two": 0.001, "one": None}, {"all": 0.0005, "one": 0.0005}, True)
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
    return lesson_11.create_if_absent(stub, key, value)


@for_each("answer", [by_create_revision, the_other_way_round, with_a_look_before])
def test_another_style_of_creating_is_right(answer):
    verdict = judged(exercises.find("11.create_if_absent"), answer)

    assert verdict.passed, verdict.message


def by_value(stub, key, value):
    """A key that does not exist has no value to compare, so this never creates."""
    empty = Compare(key=key, target=Compare.VALUE, result=Compare.EQUAL, value=b"")
    put = RequestOp(request_put=PutRequest(key=key, value=value))
    return stub.Txn(TxnRequest(compare=[empty], success=[put])).succeeded


def tries_until_it_answers(stub, key, value):
    for _ in range(3):
        try:
            return lesson_11.create_if_absent(stub, key, value)
        except grpc.RpcError:
            pass
    return False


@for_each("answer", [by_value, tries_until_it_answers, lambda stub, key, value: True])
def test_more_wrong_ways_of_creating_are_rejected(answer):
    assert "not yet" == judged(exercises.find("11.create_if_absent"), answer).outcome


def test_late_writes_agrees_with_the_model_and_with_another_style():
    for stalled in (0.0, 0.1, 0.25, 0.9, 1.0):
        for nodes in (1, 3, 5, 7):
            expected = pytest.approx(tail_latency.late(stalled, nodes))
            assert expected == lesson_11.late_writes(stalled, nodes)
    assert judged(exercises.find("11.late_writes"), tail_latency.late).passed


# ---- claims that can fail, and predictions ------------------------------------------------------


def test_the_claim_on_a_kill_fails_for_a_disk_that_loses_and_a_memory_that_keeps():
    assert facts.as_promised({"memory": (0, 9), "disk": (9, 9)})
    for there in (
        {"memory": (1, 9), "disk": (9, 9)},
        {"memory": (0, 9), "disk": (8, 9)},
        {"memory": (0, 0), "disk": (9, 9)},
        {"memory": (0, 9), "disk": (0, 0)},
    ):
        assert not facts.as_promised(there)


def writes(count, commit_s, in_flight):
    """Writes that are committed one after the other while all of them are in flight."""
    return run_of([(0.0, commit_s * (n + 1), "create") for n in range(count)], in_flight=in_flight)


def test_the_claims_on_groups_fail_where_groups_do_not_help():
    slow, fast = writes(20, 0.02, 16), writes(20, 0.005, 16)
    lost = run_of([(0.0, 0.1, "create", "INTERNAL")], in_flight=1)

    assert facts.groups_help(slow, fast)
    assert not facts.groups_help(slow, slow)
    assert facts.none_failed({"one by one": {16: slow}})
    assert not facts.none_failed({"one by one": {16: slow, 1: lost}})


def test_the_parts_of_the_log_come_from_one_and_two_in_flight():
    lone = run_of([(0.1 * n, 0.1 * n + 0.03, "create") for n in range(9)], in_flight=1)

    log = facts.log_of(lone, writes(9, 0.02, 2))

    assert {"fsync_s": pytest.approx(0.02), "way_s": pytest.approx(0.01)} == log


def test_the_claims_on_puts_fail_where_no_commit_is_shared_and_nothing_is_gained():
    alone, few, many = PUTS.runs
    unshared = dataclasses.replace(
        PUTS, runs=(alone, few, dataclasses.replace(many, puts_per_fsync=1.0))
    )
    no_gain = dataclasses.replace(
        PUTS, runs=(alone, few, dataclasses.replace(many, puts_per_s=500.0))
    )

    assert facts.commits_are_shared(PUTS)
    assert not facts.commits_are_shared(unshared)
    assert facts.more_in_flight_helps(PUTS)
    assert not facts.more_in_flight_helps(no_gain)
    # 2 cores, 0.3 ms of CPU time each: 6,667/s is less than what the log allows, 32 / 2 ms.
    assert pytest.approx(2 / 0.0003) == PUTS.predicted(32).value
    # Z = 1.5 ms is longer than the fsync of 1 ms: X = N / (f + Z).
    assert pytest.approx(4 / 0.0025) == PUTS.predicted(4).value


def test_the_claim_on_reads_fails_where_one_node_decides_or_a_majority_does_not():
    assert facts.majority_decides(READS)
    for change in (
        {"linearizable_s": {"all": 0.001, "two": 0.001, "one": 0.001}},
        {"linearizable_s": {"all": 0.001, "two": None, "one": None}},
        {"serializable_s": {"all": 0.001, "one": None}},
    ):
        assert not facts.majority_decides(dataclasses.replace(READS, **change))


def test_a_gap_is_the_longest_time_without_an_answer_around_its_kill():
    assert (pytest.approx(1.79), pytest.approx(1.31)) == KILLED.gaps_s()
    assert facts.none_missing(KILLED)
    assert facts.gap_in_range(KILLED)
    assert "3 writes have no answer (3 UNAVAILABLE); 1 of them are there" == facts.unknown_in_words(
        KILLED
    )
    gap = next(each for each in predictions_of("11") if each.id == "11.gap")
    assert gap.model is not None
    assert pytest.approx(4 / 3 - 0.1) == gap.model(KILLED).value
    assert pytest.approx((1.79 + 1.31) / 2) == gap.measured(KILLED)


def test_the_claims_on_the_kill_fail_for_a_lost_write_and_for_a_cluster_that_does_not_come_back():
    lost = dataclasses.replace(KILLED, missing=1)
    never_back = dataclasses.replace(KILLED, acknowledged_s=(1.0, 1.99, 3.2, 4.99))
    no_gap = dataclasses.replace(KILLED, acknowledged_s=tuple(n / 10 for n in range(80)))

    assert not facts.none_missing(lost)
    assert not facts.none_missing(never_back)
    assert float("inf") == never_back.gaps_s()[-1]
    assert not facts.gap_in_range(no_gap)


def test_the_figures_name_their_units_and_say_what_was_recorded():
    recorded = dataclasses.replace(PUTS, recorded="elsewhere")
    for made, unit in ((plots.puts_by_in_flight(recorded), "puts/s"),
                       (plots.acknowledged_over_time(KILLED), "writes/s")):  # fmt: skip
        assert f"({unit})" in made.get_ylabel()
        assert "(" in made.get_xlabel()
    labels = plots.puts_by_in_flight(recorded).get_legend_handles_labels()[1]
    assert "measured (recorded)" in labels


# ---- recorded runs, and real ones ----------------------------------------------------------------


def test_without_etcd_a_recorded_run_is_shown_and_says_so(monkeypatch, capsys, tmp_path):
    def missing():
        raise EtcdNotInstalled("there is no etcd on PATH. Install it")

    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite"))
    monkeypatch.setattr(etcd_runs, "found_etcd", missing)
    puts = etcd_runs.puts((1, 4), duration_s=1, closes="11.puts")
    reads = etcd_runs.reads(times=1)
    killed = etcd_runs.failover(kills=1, closes="11.gap")
    said = capsys.readouterr().out

    assert 3 == said.count("RECORDED, not run here: etcd 3.4.23") == said.count("Install it")
    assert all(each.recorded for each in (puts, reads, killed))
    assert facts.commits_are_shared(puts)
    assert facts.majority_decides(reads)
    assert facts.none_missing(killed)
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

    killed = etcd_runs.failover(kills=1, election_timeout_s=0.5, closes="11.gap")

    assert facts.none_missing(killed)


@pytest.mark.slow
def test_a_write_that_vanished_is_counted_as_missing(own_server):
    """The count of the missing is only as good as the reading."""
    with grpc.insecure_channel(own_server().address) as channel:
        stub = etcd_runs.KeyValueServiceStub(channel)
        stub.Create(etcd_runs.kvstore_pb2.CreateRequest(key=b"there", value=b"v"), timeout=10)
        keys = [b"there", *(b"missing %d" % n for n in range(150))]

        assert {b"there": b"v"} == etcd_runs.found(stub, keys)
