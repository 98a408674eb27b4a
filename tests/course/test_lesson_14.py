"""Lesson 14: its models by hand, and runs on a cluster."""

import grpc
import pytest
from made_runs import run_of

from kvstore.course.lessons.lesson_14 import etcd_runs
from kvstore.course.lessons.lesson_14 import questions as facts
from kvstore.course.lessons.lesson_14.etcd_runs import Failover
from kvstore.course.my_code import course_version
from kvstore.course.questions import registered
from kvstore.server import EtcdNotInstalled
from kvstore.server.etcd_nodes import found_etcd
from kvstore.v1.etcd_pb2 import PutRequest, RangeRequest
from kvstore.v1.kvstore_pb2 import CreateRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

KILLED = Failover(
    1.0, 0.1, 100.0, 0.3, (2.0, 5.0), (1.0, 1.99, 3.2, 4.99, 6.3, 7.0), 0, {"UNAVAILABLE": 3}, 1
)


def writes(count, commit_s, in_flight):
    """Writes that are committed one after the other while all of them are in flight."""
    return run_of([(0.0, commit_s * (n + 1), "create") for n in range(count)], in_flight=in_flight)


def test_the_parts_of_the_log_come_from_one_and_two_in_flight():
    lone = run_of([(0.1 * n, 0.1 * n + 0.03, "create") for n in range(9)], in_flight=1)

    log = facts.log_of(lone, writes(9, 0.02, 2))

    assert {"fsync_s": pytest.approx(0.02), "way_s": pytest.approx(0.01)} == log


def test_a_gap_is_the_longest_time_without_an_answer_around_its_kill():
    assert (pytest.approx(1.79), pytest.approx(1.31)) == KILLED.gaps_s()
    gap = registered("14.gap")
    assert gap.model is not None
    assert pytest.approx(4 / 3 - 0.1) == gap.model(KILLED).value
    assert pytest.approx((1.79 + 1.31) / 2) == gap.measured(KILLED)


def test_without_etcd_the_lesson_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("kvstore.server.etcd_nodes.find_spec", lambda _name: None)

    assert not etcd_runs.is_installed()
    assert "apt install etcd-server" in capsys.readouterr().out
    with pytest.raises(EtcdNotInstalled):
        etcd_runs.race(course_version("cluster.create_if_absent"), clients=8, keys=50)


@pytest.mark.slow
def test_a_race_for_keys_shows_who_looks_first_and_puts_then():
    try:
        found_etcd()
    except EtcdNotInstalled as absent:
        pytest.skip(str(absent))

    def look_then_put(stub, key, value):
        if stub.Range(RangeRequest(key=key)).kvs:
            return False
        stub.Put(PutRequest(key=key, value=value))
        return True

    at_once = etcd_runs.race(course_version("cluster.create_if_absent"), clients=8, keys=20)
    apart = etcd_runs.race(look_then_put, clients=8, keys=20)

    assert at_once.told_created == at_once.kept == 20
    assert apart.told_created > 20 > apart.kept


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
        stub = KeyValueServiceStub(channel)
        stub.Create(CreateRequest(key=b"there", value=b"v"), timeout=10)
        keys = [b"there", *(b"missing %d" % n for n in range(150))]

        assert {b"there": b"v"} == etcd_runs.entries_present(stub, keys)
