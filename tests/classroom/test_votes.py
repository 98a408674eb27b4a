"""Votes from students' notebooks to the file of a class: each counts once."""

import socket
import time
from urllib.parse import urlsplit

import pandas as pd
import pytest
from rooms import class_open

from kvstore.classroom import codes
from kvstore.classroom.client import ClassError, Student
from kvstore.classroom.store import Store
from tools import collect

pytestmark = pytest.mark.slow

QUESTION = "03.global_lock"


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    with class_open(tmp_path_factory.mktemp("class") / "class.db") as opened:
        yield opened


@pytest.fixture
def student(room, tmp_path):
    one = Student(tmp_path / "one")
    one.join(room.address, room.code)
    return one


def sent(*students, within_s=60):
    """Wait until the class has confirmed every vote."""
    ends_s = time.monotonic() + within_s
    while any(each.waiting() for each in students):
        assert time.monotonic() < ends_s
        time.sleep(0.02)


def votes_of(room, question=QUESTION):
    store = Store(room.file)
    try:
        return [(vote.round, vote.value or vote.choice) for vote in store.votes(question)]
    finally:
        store.close()


def test_the_last_of_several_votes_counts_and_two_notebooks_are_one_voter(room, student):
    before = room.state()["joined"]
    other_notebook = Student(student.folder)

    student.vote("00.retrieve", value=10.0, unit="ms")
    other_notebook.vote("00.retrieve", value=12.0, unit="ms")
    student.join(room.address, room.code)
    sent(student, other_notebook)

    assert [(1, 12.0)] == votes_of(room, "00.retrieve")
    assert room.state()["joined"] == before


def test_a_question_goes_through_two_votes_to_the_measured_number(room, student, tmp_path):
    other = Student(tmp_path / "other")
    other.join(room.address, room.code, "Ada")
    room.do("go", QUESTION)

    student.vote(QUESTION, value=2500.0, unit="calls/s")  # before it is open: it counts
    sent(student)
    assert room.do("open")["voted"] == 1
    other.vote(QUESTION, value=25.0, unit="calls/s")
    sent(other)
    assert room.state()["rounds"] == []  # hidden until the vote is closed and revealed
    room.do("close")
    student.vote(QUESTION, value=30.0, unit="calls/s")  # too late for the first vote
    sent(student)
    first = room.do("reveal")
    assert [2] == [each["count"] for each in first["rounds"]]
    assert [("25", [1]), ("2,500", [1])] == [(c["value"], c["counts"]) for c in first["camps"]]
    assert first["late"] == 1

    second = room.do("second")
    assert (second["phase"], second["voted"]) == ("open", 1)
    other.vote(QUESTION, value=25.0, unit="calls/s")  # the same number again
    sent(other)
    room.do("close")
    both = room.do("reveal")
    assert [2, 2] == [each["count"] for each in both["rounds"]]
    assert both["measured"] is None
    end = room.do("measure", value="24.1")
    assert (end["phase"], end["measured"]["text"]) == ("measured", "24.1 calls/s")
    assert "Ada" in end["named"]


def test_what_comes_while_a_vote_is_closed_by_mistake_counts_once_it_is_open_again(room, student):
    question = "03.global_wait"
    room.do("go", question)
    room.do("open")
    student.vote(question, value=4.0, unit="s")
    sent(student)
    room.do("close")
    student.vote(question, value=5.0, unit="s")
    sent(student)

    again = room.do("reopen")

    assert (again["phase"], again["voted"], again["late"]) == ("open", 1, 0)
    assert [(1, 5.0)] == votes_of(room, question)


def test_a_restarted_class_is_the_same_one_and_no_vote_is_lost(tmp_path):
    """The process is killed: nothing can be written at the end."""
    file, student = tmp_path / "class.db", Student(tmp_path / "student")
    with class_open(file) as before:
        student.join(before.address, before.code)
        before.do("go", QUESTION)
        before.do("open")
        student.vote(QUESTION, value=25.0, unit="calls/s")
        sent(student)
        page = before.page
    begun = time.monotonic()
    student.vote("03.per_key", value=2500.0, unit="calls/s")  # nobody listens
    assert time.monotonic() - begun < 30  # it returns; no answer is waited for
    assert student.waiting() == 1

    with class_open(file) as after:
        sent(student)
        assert (after.address, after.code, after.page) == (before.address, before.code, page)
        assert (after.state()["phase"], after.state()["voted"]) == ("open", 1)
        assert [(1, 2500.0)] == votes_of(after, "03.per_key")


def test_a_class_opens_where_another_program_has_the_port_of_its_page(tmp_path):
    file = tmp_path / "class.db"
    with class_open(file) as before:
        pass

    with socket.socket() as another:
        another.bind(("127.0.0.1", urlsplit(before.page).port))
        another.listen()
        with class_open(file) as after:
            assert after.page != before.page
            assert (after.address, after.state()["voted"]) == (before.address, 0)


def test_a_wrong_address_or_code_says_what_to_do_and_sends_nothing(room, tmp_path):
    student = Student(tmp_path)
    wrong = codes.new_identity().code

    with pytest.raises(ClassError, match="Nothing was sent"):
        student.join(room.address, str(wrong))
    with pytest.raises(ClassError, match="the board"):
        student.join(room.address, "K7QX")
    with pytest.raises(ClassError, match="HOST:PORT"):
        student.join("somewhere:nowhere", room.code)
    with pytest.raises(ClassError, match="no class answers"):
        student.join("127.0.0.1:1", room.code)
    student.vote(QUESTION, value=1.0)

    assert student.membership() is None
    assert student.waiting() == 0


def test_collect_reads_the_file_of_a_class(room, tmp_path, capsys):
    """Voters with a name have it in the tables, unless two chose the same one."""
    students = [Student(tmp_path / f"{n}") for n in range(4)]
    for student, name in zip(students, ("Émile", "", "Eve", "Eve"), strict=True):
        student.join(room.address, room.code, name)
        student.vote("03.per_key", value=1000.0, unit="calls/s")
        student.vote("03.faster_disk", choice="c")
    sent(*students)
    room.do("go", "03.per_key")
    for action in ("open", "close", "reveal"):
        room.do(action)
    room.do("measure", value=2400)

    assert collect.main(["--out", str(tmp_path / "out"), str(room.file)]) == 0
    made = pd.read_csv(tmp_path / "out" / "predictions.csv")
    quizzes = pd.read_csv(tmp_path / "out" / "quizzes.csv")
    of_this = made[made["question"] == "03.per_key"]
    assert [(1000.0, 2400.0)] * 4 == list(
        of_this[["predicted", "measured"]].itertuples(False, None)
    )
    assert 4 == of_this["student"].nunique()
    assert "Émile" in set(of_this["student"])
    assert "Eve" not in set(of_this["student"])
    assert set(quizzes[quizzes["question"] == "03.faster_disk"]["right"]) == {True}
    assert (tmp_path / "out" / "predictions.png").exists()
