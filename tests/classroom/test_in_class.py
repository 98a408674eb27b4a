"""A student's notebook in a class: what is sent, and when."""

import json
import os

import pytest
from kernels import Kernel
from rooms import class_open
from test_votes import sent, votes_of

from kvstore.classroom.client import Student
from kvstore.course import in_class, predict, progress, quiz

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    with class_open(tmp_path_factory.mktemp("class") / "class.db") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite3"))
    monkeypatch.delenv("COURSE_MODE", raising=False)
    return tmp_path


def test_predictions_and_first_choices_are_sent_until_the_run_and_no_longer(room, folder):
    predict("00.retrieve", 7)  # before the class: it stays at home
    in_class.join(room.address, room.code)
    predict("00.retrieve")
    predict("00.in_flight", 40)
    predict("00.in_flight", 2)
    progress.close("00.in_flight")
    predict("00.in_flight", 1.98)  # after the run
    quiz("00.station", "b")
    quiz("00.station", "a")
    in_class._student(folder).vote("00.audit", choice="c")
    sent(Student(folder))

    assert [] == votes_of(room, "00.retrieve")
    assert [(1, 2.0)] == votes_of(room, "00.in_flight")
    assert [(1, progress.choices()["00.station"])] == votes_of(room, "00.station")
    in_class.leave()
    predict("00.retrieve", 12)
    assert (0, []) == (Student(folder).waiting(), votes_of(room, "00.retrieve"))


def test_two_kernels_of_one_student_are_one_voter(room, folder, monkeypatch):
    """The class is joined in one notebook, by the line on the board, after the first cell."""
    monkeypatch.setitem(os.environ, "COURSE_PROGRESS", str(folder / "progress.sqlite3"))
    before = room.state()["joined"]
    one, other = Kernel(), Kernel()
    try:
        one.run("from kvstore.course import predict")
        said, errors = one.run(f'join("{room.address}", "{room.code.lower()}", name="Ada")')
        assert not errors, said
        other.run("from kvstore.course import predict, quiz")
        for kernel, value in ((one, 2500), (other, 25)):
            kernel.run(f'predict("03.global_lock", {value})')
            sent(Student(folder))
    finally:
        one.close()
        other.close()

    assert room.state()["joined"] == before + 1
    assert [(1, 25.0)] == votes_of(room)


def test_a_vote_that_waits_is_sent_by_the_next_notebook(room, folder, monkeypatch):
    student = Student(folder)
    student.join(room.address, room.code)
    monkeypatch.setattr(student, "_start", lambda: None)  # the kernel ended before it was sent
    student.vote("03.global_wait", value=4.0)
    monkeypatch.setitem(os.environ, "COURSE_PROGRESS", str(folder / "progress.sqlite3"))
    other = Kernel()
    try:
        other.run("from kvstore.course import predict")
        sent(Student(folder))
    finally:
        other.close()

    assert [(1, 4.0)] == votes_of(room, "03.global_wait")


def test_the_wall_has_the_questions_of_a_lesson_in_its_order_and_the_teachers_own_result(
    folder, tmp_path
):
    found = in_class.catalogue(["03"])
    ids = [each["id"] for each in found["questions"]]
    progress.ask("03.global_lock", "calls/s")
    progress.note_typed()
    progress.settle("03.global_lock", 24.25, lambda *_: None)

    assert ids.index("03.global_lock") < ids.index("03.per_key") < ids.index("03.double")
    assert json.loads(json.dumps(found))["progress"] == str(progress.path())
    with pytest.raises(LookupError, match="there is no lesson '99'"):
        in_class.catalogue(["99"])
    with class_open(tmp_path / "class.db") as room:
        room.do("go", "03.global_lock")
        for action in ("open", "close", "reveal"):
            room.do(action)
        assert "24.2" in room.state()["mine"] or "24.3" in room.state()["mine"]
        assert room.do("measure")["phase"] == "measured"
