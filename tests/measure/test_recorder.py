"""recorder.py: one record for each call, whoever appends."""

import sys
import threading

import numpy as np
import pytest

from kvstore.codes import BATCH, CREATE, NOT_FOUND, OK
from kvstore.measure.recorder import CALL, Recorder
from kvstore.stations import StationTimes


@pytest.fixture
def threads_that_switch_often():
    """Between any two steps of the interpreter another thread may run."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual_s)


def test_a_record_keeps_what_it_was_told():
    recorder = Recorder()
    recorder.record(
        0.5, 1.0, 2.0, BATCH, NOT_FOUND, 300, 20, StationTimes(0.125, 0.25, 0.5, 1.0), 8, 7, 3
    )

    assert (0.5, 1.0, 2.0, 0.125, 0.25, 0.5, 1.0, 300, 20, BATCH, NOT_FOUND, 8, 7, 3) == (
        recorder.array()[0].item()
    )


def test_one_call_is_one_operation_and_ok_only_when_it_says_so():
    recorder = Recorder()
    recorder.record(0, 0, 1, CREATE, OK, 1, 1)
    recorder.record(0, 0, 1, CREATE, NOT_FOUND, 1, 1)

    assert [1, 1] == recorder.array()["operations"].tolist()
    assert [1, 0] == recorder.array()["ok_operations"].tolist()


def test_where_the_server_did_not_tell_the_stations_are_not_known():
    recorder = Recorder()
    recorder.record(0, 0, 1, CREATE, OK, 1, 1)

    for station in StationTimes._fields:
        assert np.isnan(recorder.array()[station][0])


def test_a_recorder_is_as_long_as_its_calls():
    recorder = Recorder()
    lengths = []
    for number in range(3):
        lengths.append(len(recorder))
        recorder.record(0, number, number, CREATE, OK, 1, 1)

    assert [0, 1, 2] == lengths
    assert 56 == CALL.itemsize


def test_an_array_that_was_taken_no_longer_changes():
    recorder = Recorder()
    recorder.record(0, 0, 1, CREATE, OK, 1, 1)
    taken = recorder.array()
    recorder.record(0, 0, 1, CREATE, OK, 1, 1)

    assert 1 == len(taken)


@pytest.mark.usefixtures("threads_that_switch_often")
def test_threads_appending_at_once_lose_and_mix_nothing():
    """Each record tells its thread five times over: a mixed one would contradict itself."""
    recorder, threads, each = Recorder(), 8, 2_000
    together = threading.Barrier(threads)

    def append(number: int) -> None:
        together.wait()
        for place in range(each):
            recorder.record(number, place, number, number, number, number, place)

    callers = [threading.Thread(target=append, args=(number,)) for number in range(threads)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    records = recorder.array()

    for field in ("done_s", "kind", "status", "request_bytes"):
        assert (records["due_s"] == records[field]).all()
    assert (records["sent_s"] == records["reply_bytes"]).all()
    for number in range(threads):
        mine = records[records["kind"] == number]
        assert list(range(each)) == mine["reply_bytes"].tolist()
