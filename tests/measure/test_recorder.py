"""recorder.py: one record for each call, in memory and in a file."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from kvstore.measure.recorder import CALL, PACKED, Journal, Recorder, kept_in
from kvstore.protocol import BATCH, CREATE, NOT_FOUND, OK, RETRIEVE, StationTimes


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
    assert 56 == PACKED.itemsize


def test_what_is_analysed_can_be_added_up_and_subtracted(subtests):
    """The largest numbers that are recorded, twice: 65,535 + 65,535 is more than two bytes hold."""
    for name in [name for name in CALL.names or () if PACKED[name].kind == "u"]:
        with subtests.test(name=name):
            most = dict.fromkeys(("request_bytes", "reply_bytes"), 2**32 - 1)
            most |= dict.fromkeys(("kind", "status"), 255)
            most |= dict.fromkeys(("operations", "ok_operations", "connection"), 65_535)
            recorder = Recorder()
            for _ in range(2):
                recorder.record(0, 0, 1, **most)
            records = recorder.array()
            column = records[name]

            assert CALL == records.dtype
            assert [2 * most[name]] == np.histogram([1, 1], bins=1, weights=column)[0].tolist()
            assert 2 * most[name] == (column + column)[0]
            assert -1 == (column - column - 1)[0]
            assert [most[name]] * 2 == recorder.since(0)[name].tolist()


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


def test_threads_that_send_at_once_are_counted_each():
    recorder, usual_s = Recorder(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    senders = [
        threading.Thread(target=lambda: [recorder.sending(2) for _ in range(2_000)])
        for _ in range(8)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    sys.setswitchinterval(usual_s)

    assert (16_000, 32_000) == (recorder.issued, recorder.issued_operations)


def record(recorder: Recorder, *numbers: int) -> None:
    for number in numbers:
        recorder.record(0.0, number, number + 0.5, RETRIEVE, OK, 8, 16)


def test_each_record_is_kept_once_however_often_it_is_asked(tmp_path):
    recorder, journal = Recorder(), Journal(tmp_path / "a")
    for numbers in ((), (1, 2), (), (3,)):
        record(recorder, *numbers)
        journal.keep(recorder)
    record(recorder, 4)

    assert [1, 2, 3] == list(kept_in(tmp_path / "a")["sent_s"])
    assert kept_in(tmp_path / "a").tobytes() == recorder.array()[:3].tobytes()


def test_a_record_that_was_not_written_to_its_end_is_left_out(tmp_path, subtests):
    for torn in [1, PACKED.itemsize - 1]:
        with subtests.test(torn=torn):
            recorder = Recorder()
            record(recorder, 1, 2)
            (tmp_path / "a").write_bytes(recorder.packed_since(0)[: PACKED.itemsize + torn])

            assert [1] == list(kept_in(tmp_path / "a")["sent_s"])


def test_where_nothing_was_kept_there_are_no_records(tmp_path):
    assert 0 == len(kept_in(tmp_path / "none"))


def test_what_was_kept_outlives_a_process_that_is_killed(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from kvstore.measure.recorder import Journal\n"
        "from kvstore.measure.recorder import Recorder\n"
        "recorder = Recorder(); recorder.record(0.0, 1.0, 2.0, 1, 0, 8, 16)\n"
        "Journal(Path(sys.argv[1])).keep(recorder)\n"
        "os.kill(os.getpid(), signal.SIGKILL if os.name == 'posix' else signal.SIGTERM)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=False, timeout=30)

    assert [2.0] == list(kept_in(tmp_path / "a")["done_s"])
