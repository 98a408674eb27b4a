"""Progress in its file: what is stored, where, and what a damaged or full place does."""

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import platformdirs
import pytest

from kvstore.course import progress


def settle(question_id, measured, error, **more):
    """Store a result whose error is known."""
    return progress.settle(question_id, measured, lambda *_: error, **more).question


def test_the_overview_counts_by_lesson():
    assert len(progress.by_lesson()) == 0
    progress.keep_prediction("01.reads", 100.0, "calls/s")
    settle("01.reads", 50.0, 0.301)
    progress.ask("01.writes")
    progress.record_answer("01.loop", "not yet", "no")
    progress.record_answer("01.loop", "passed", "yes")
    progress.record_answer("02.ceiling", "not attempted", "")
    progress.take_hint("02.ceiling", 3)
    progress.note_solution_seen("02.ceiling")

    overview = progress.by_lesson()

    assert list(overview.index) == ["01", "02"]
    assert list(overview.loc["01"]) == ["1 of 2", "× 2", "1 of 1", "–", 0, 0]  # noqa: RUF001
    assert list(overview.loc["02"]) == ["0 of 0", "–", "0 of 1", "–", 1, 1]  # noqa: RUF001


def test_only_the_first_result_is_remembered():
    progress.keep_prediction("01.mix", 25.0, "calls/s")
    settle("01.mix", 20.0, 0.1)
    settle("01.mix", 25.0, 0.0)

    assert (progress.ask("01.mix").measured, progress.ask("01.mix").log_error) == (20.0, 0.1)


def test_a_prediction_made_after_the_run_began_is_dropped():
    progress.keep_prediction("01.mix", 25.0, "calls/s")
    began_at = progress.ask("01.mix").predicted_at - 1.0

    assert settle("01.mix", 25.0, 0.0, began_at=began_at).value is None


def test_a_clock_that_was_set_back_drops_no_prediction_before_a_run_that_closes_it(monkeypatch):
    progress.keep_prediction("01.mix", 25.0, "calls/s")
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() - 3600)
    progress.close("01.mix")

    assert settle("01.mix", 20.0, 0.1, began_at=time.time() + 1).value == 25.0


UNTOUCHED = """
from kvstore.course import progress
progress.close("01.mix")
progress.settle("01.mix", 20.0, lambda *_: None)
"""
"""What the kernel of nbmake, papermill, nbconvert or Run All does for an original."""


@pytest.mark.slow
def test_a_kernel_that_nobody_types_to_settles_nothing(own_progress, repo_root):
    progress.keep_prediction("01.mix", 25.0, "calls/s")
    subprocess.run([sys.executable, "-c", UNTOUCHED], cwd=repo_root, check=True)

    found = progress.ask("01.mix")
    assert (found.value, found.measured, found.closed) == (25.0, None, False)
    assert progress.keep_prediction("01.mix", 26.0, "calls/s")[0] == "kept"
    progress.close("01.mix")
    assert progress.keep_prediction("01.mix", 27.0, "calls/s")[0] == "refused"


def test_committing_the_same_number_again_does_not_make_it_later():
    first = progress.keep_prediction("01.mix", 25.0, "calls/s")[1]
    again = progress.keep_prediction("01.mix", 25.0, "calls/s")[1]

    assert first.predicted_at == again.predicted_at


def test_a_file_that_cannot_be_written_is_named_with_a_remedy(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "file" / "progress.sqlite3"))

    with pytest.raises(
        progress.ProgressError, match="set COURSE_PROGRESS to a file that you can write"
    ):
        progress.ask("01.mix")


def test_a_write_that_fails_halfway_leaves_nothing(own_progress):
    progress.ask("01.mix")
    write = progress.writing()
    write.__enter__().execute("DELETE FROM questions")
    with pytest.raises(KeyboardInterrupt):
        write.gen.throw(KeyboardInterrupt())

    assert list(progress.by_lesson()["predictions made"]) == ["0 of 1"]


def test_the_variable_may_name_a_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path))

    assert tmp_path / "progress.sqlite3" == progress.path()


@pytest.fixture
def copy_of_the_course(monkeypatch, tmp_path):
    """A copy of the course, and a user's data folder."""
    monkeypatch.delenv("COURSE_PROGRESS")
    monkeypatch.setattr(platformdirs, "user_data_path", lambda name, **_: tmp_path / "data" / name)
    monkeypatch.setattr(progress, "_ROOT", tmp_path / "course")
    return tmp_path / "course"


@pytest.mark.usefixtures("copy_of_the_course")
def test_each_copy_of_the_course_has_its_own_file_in_the_users_data_folder(monkeypatch, tmp_path):
    progress.keep_prediction("01.mix", 25.0, "calls/s")
    first = progress.path()
    assert first.is_file()
    assert first.is_relative_to(tmp_path / "data" / "rpc-throughput-course")

    monkeypatch.setattr(progress, "_ROOT", tmp_path / "elsewhere" / "course")
    assert progress.path() != first
    assert progress.ask("01.mix").value is None


def _take_hints(file: str) -> None:
    os.environ["COURSE_PROGRESS"] = file
    for _ in range(20):
        progress.take_hint("01.loop", 1000)  # reads, then writes what follows from it


def _not_a_database(file):
    file.write_bytes(b"not a database, but longer than its header would be" * 20)


def _undecodable(file):
    progress.keep_prediction("01.mix", 25.0, "calls/s")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE questions SET unit = CAST(x'ff00fe' AS TEXT)")
        connection.commit()


def _torn(file):
    progress.keep_prediction("01.mix", 25.0, "calls/s")
    whole = file.read_bytes()
    file.write_bytes(whole[:5000] + bytes(len(whole) - 5000))


@pytest.mark.parametrize("damage", [_not_a_database, _undecodable, _torn])
def test_a_damaged_file_is_moved_aside_with_one_line(own_progress, capsys, damage):
    damage(own_progress)
    damaged = own_progress.read_bytes()

    assert progress.ask("01.mix").value is None

    (aside,) = own_progress.parent.glob("*.unreadable-*")
    assert aside.read_bytes() == damaged
    (line,) = capsys.readouterr().out.splitlines()
    assert str(aside) in line


@pytest.mark.slow
def test_four_kernels_that_write_at_once_lose_nothing(own_progress):
    """Not even when the file is damaged, and one of them begins a new one."""
    _not_a_database(own_progress)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_take_hints, args=(str(own_progress),)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert [writer.exitcode for writer in writers] == [0] * 4
    assert list(progress.by_lesson()["hints taken"]) == [80]
    assert len(list(own_progress.parent.glob("*.unreadable-*"))) == 1


def test_a_locked_file_is_waited_for_with_a_line(own_progress, page):
    progress.ask("01.mix")
    with closing(sqlite3.connect(own_progress, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        waiting = threading.Thread(target=progress.ask, args=("01.reads",))
        waiting.start()
        ends_s = time.monotonic() + 5
        while not page and time.monotonic() < ends_s:
            time.sleep(0.02)
        still = waiting.is_alive()
    waiting.join(10)

    assert still
    assert str(own_progress) in page[0]["text/plain"]
    assert {"01.mix", "01.reads"} == {each.question_id for each in progress.questions()}


def test_a_file_that_stays_locked_is_no_reason_for_another_file(own_progress, page, monkeypatch):
    progress.ask("01.mix")
    monkeypatch.setattr(progress, "PATIENCE_S", 0.1)
    with closing(sqlite3.connect(own_progress, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(progress.ProgressError, match="restart that one") as refused:
            progress.ask("01.reads")

    assert progress.VARIABLE not in str(refused.value)
