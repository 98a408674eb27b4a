"""journal.py: what is on file is what was recorded, whole records only."""

import subprocess
import sys

import pytest

from kvstore.codes import OK, RETRIEVE
from kvstore.measure.journal import Journal, kept_in
from kvstore.measure.recorder import CALL, Recorder


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


@pytest.mark.parametrize("torn", [1, CALL.itemsize - 1])
def test_a_record_that_was_not_written_to_its_end_is_left_out(torn, tmp_path):
    recorder = Recorder()
    record(recorder, 1, 2)
    (tmp_path / "a").write_bytes(recorder.array().tobytes()[: CALL.itemsize + torn])

    assert [1] == list(kept_in(tmp_path / "a")["sent_s"])


def test_where_nothing_was_kept_there_are_no_records(tmp_path):
    assert 0 == len(kept_in(tmp_path / "none"))


def test_what_was_kept_outlives_a_process_that_is_killed(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from kvstore.measure.journal import Journal\n"
        "from kvstore.measure.recorder import Recorder\n"
        "recorder = Recorder(); recorder.record(0.0, 1.0, 2.0, 1, 0, 8, 16)\n"
        "Journal(Path(sys.argv[1])).keep(recorder)\n"
        "os.kill(os.getpid(), signal.SIGKILL if os.name == 'posix' else signal.SIGTERM)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=False, timeout=30)

    assert [2.0] == list(kept_in(tmp_path / "a")["done_s"])
