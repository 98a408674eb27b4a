"""A class votes while the teacher's machine sleeps and is restarted: each vote counts once."""

import threading
import time

import pytest
from rooms import class_open
from test_votes import sent

from kvstore.classroom.client import Student
from kvstore.classroom.store import Store

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

MOST_BYTES = 150e6


STUDENTS, QUESTIONS, SLEEP_S = 200, 12, 30


def test_every_vote_counts_once(tmp_path):
    """Each student changes their mind once; the last number counts."""
    file, every = tmp_path / "class.db", [Student(tmp_path / f"{n}") for n in range(STUDENTS)]
    asked = [f"03.vote_{n}" for n in range(QUESTIONS)]

    def vote(number, student):
        for question in asked:
            for value in (1.0, 2.0 + number):
                student.vote(question, value=value, unit="calls/s")
                time.sleep(0.3)

    with class_open(file) as room:
        for student in every:
            student.join(room.address, room.code)
        threads = [threading.Thread(target=vote, args=each) for each in enumerate(every)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        room.server.suspend()
        time.sleep(SLEEP_S)
        room.server.resume()
        time.sleep(1)
        most_bytes = room.server.memory_info().rss
    with class_open(file) as room:  # it was killed
        for thread in threads:
            thread.join()
        sent(*every, within_s=600)
        most_bytes = max(most_bytes, room.server.memory_info().rss)
        laws = room.laws()

    store = Store(file)
    votes = store.votes()
    store.close()
    assert len(votes) == STUDENTS * QUESTIONS
    assert {(v.question_id, v.value) for v in votes} == {
        (question, 2.0 + number) for question in asked for number in range(STUDENTS)
    }
    assert most_bytes < MOST_BYTES
    assert laws["votes"][0] == f"{STUDENTS * QUESTIONS:,}"
