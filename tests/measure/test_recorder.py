"""recorder.py: one record for each call, in memory and in a file."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvstore.measure.recorder import Recorder
from kvstore.protocol import (
    BATCH,
    CREATE,
    NOT_FOUND,
    OK,
    StationTimes,
)


@pytest.fixture
def threads_that_switch_often():
    """Between any two steps of the interpreter another thread may run."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual_s)


def test_a_record_keeps_every_value():
    recorder = Recorder()
    recorder.record(
        0.5, 1.0, 2.0, BATCH, NOT_FOUND, 300, 20, StationTimes(0.125, 0.25, 0.5, 1.0), 8, 7, 3
    )

    assert (0.5, 1.0, 2.0, 0.125, 0.25, 0.5, 1.0, 300, 20, BATCH, NOT_FOUND, 8, 7, 3) == (
        recorder.array()[0].item()
    )


@pytest.mark.usefixtures("threads_that_switch_often")
def test_threads_appending_at_once_lose_and_mix_nothing():
    """Each record tells its thread five times over: a mixed one would contradict itself."""
    recorder, threads, each = Recorder(), 8, 2_000
    together = threading.Barrier(threads)

    def append(number: int) -> None:
        together.wait()
        for place in range(each):
            recorder.record(number, place, number, number, number, number, place)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(append, range(threads)))
    records = recorder.array()

    for field in ("done_s", "kind", "status", "request_bytes"):
        assert (records["due_s"] == records[field]).all()
    assert (records["sent_s"] == records["reply_bytes"]).all()
    for number in range(threads):
        mine = records[records["kind"] == number]
        assert list(range(each)) == mine["reply_bytes"].tolist()


def test_a_reply_that_cannot_be_read_is_no_operation_that_was_done():
    recorder = Recorder()
    for number in range(2):
        recorder.record(float("nan"), number, number + 1.0, CREATE, OK, 1, 1)
    recorder.set_failed(0, NOT_FOUND)

    assert [NOT_FOUND, OK] == recorder.array()["status"].tolist()
    assert [0, 1] == recorder.array()["ok_operations"].tolist()


class Slow(int):
    """A number whose sum takes a while, so that another thread may run meanwhile."""

    def __add__(self, other):
        time.sleep(0.001)
        return Slow(int(self) + other)


def test_threads_that_send_batches_at_once_count_every_operation():
    recorder = Recorder()
    recorder._more_operations = Slow(0)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: recorder.sending(3), range(8)))

    assert 24 == recorder.issued_operations
