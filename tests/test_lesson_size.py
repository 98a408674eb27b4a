"""The size of the lessons, and the tool that measures it."""

import re

import nbformat
import pytest
from tables import for_each

from kvstore.course import exercises, questions
from kvstore.course.progress import lesson_of
from tools import lesson_size

LESSONS = lesson_size.lessons()
by_lesson = for_each("lesson", LESSONS)
TEXT = """# Locks

This lesson takes about 17 minutes. See [the paper](https://example.org/a/b) and `two words`.

| a | b |
|--|--|
| one | two three |

$$X \\le N/D$$
"""
CELLS = [
    ("visible", "import grpc\nfrom kvstore.course import check, live, predict, quiz, views\n"
     "from kvstore.v1.kvstore_pb2 import UpdateRequest"),
    ("visible", 'predict("97.rate")\n\nUpdateRequest()\ngrpc.server(None)'),
    ("visible", 'run = live.run(x, duration_s=30)\npredict("97.rate", 25)'),
    ("seconds-45", "live.run(x, duration_s=mode.seconds(fast=1, normal=99, full=9))"),
    ("hidden", "views.plot_throughput(run)\nviews.draw_stations([])"),
    ("visible", '%time\ncheck("97.bounded", f)\nquiz("97.double")\nawait g(duration_s=n)'),
]  # fmt: skip


@pytest.fixture
def lesson(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(TEXT)])
    for kind, source in CELLS:
        hidden = {"jupyter": {"source_hidden": True}} if kind == "hidden" else {"tags": [kind]}
        notebook.cells.append(nbformat.v4.new_code_cell(source, metadata=hidden))
    nbformat.write(notebook, tmp_path / "97_locks.ipynb")
    return lesson_size.Lesson(tmp_path / "97_locks.ipynb")


def test_what_is_counted(lesson):
    # Words: Locks; This ... minutes; See the paper and code; a; b; one; two three; X.
    assert lesson.measured == {
        "visible cells": 5,
        "median lines": 3,
        "longest cell": 4,
        "words": 1 + 6 + 5 + 1 + 1 + 1 + 2 + 1,
        "long sentences": 0,
        "predictions": 1,
        "figures": 1,
        "exercises": 1,
        "helpers": 4,  # predict, live.run, check, quiz
        "quiz questions": 1,
        "run (s)": 75,
        "minutes": round(18 / 150 + 5 * 0.5 + 75 / 60 + 1.75 + 5 + 0.7),
    }
    assert lesson.stated_minutes == 17


def test_a_sentence_is_long_from_31_words_on(lesson):
    thirty = " ".join(["word"] * 29)
    lesson.text = f"One {thirty}. Two {thirty} more. - {thirty}\n- {thirty}"

    assert [each[:3] for each in lesson.long_sentences] == ["Two"]


def test_what_exceeds_its_limit_is_marked(lesson):
    assert lesson.exceeding == []
    lesson.measured["words"] = 1501

    assert lesson.exceeding == ["words: 1501, at most 1500"]
    assert "1501!" in lesson_size.table([lesson])


@by_lesson
def test_a_lesson_is_within_the_limits_and_states_its_minutes(lesson):
    assert lesson.exceeding == []
    assert lesson.long_sentences == []
    assert abs(lesson.stated_minutes - lesson.measured["minutes"]) <= 1


@by_lesson
def test_a_lesson_asks_and_checks_what_is_registered(lesson):
    """A question with a typing error in its id would be a new one, in calls/s."""
    asked = lesson.identifiers("predict") | lesson.identifiers("compare")
    known = {each.id for name in asked for each in questions.predictions_of(lesson_of(name))}

    assert sorted(asked - known) == []
    assert sorted(lesson.identifiers("check") - set(exercises.every())) == []


def test_the_core_lessons_take_five_hours_at_most():
    core = [each for each in LESSONS if each.path.parent == lesson_size.FOLDER]
    first_eight = [each for each in core if each.path.stem < "08"]
    assert sum(each.measured["minutes"] for each in first_eight) <= 300


@for_each("lesson", [each for each in LESSONS if "minutes each" in each.text])
def test_a_core_lesson_says_how_long_its_further_lessons_take(lesson):
    takes = {each.path.stem: each.stated_minutes for each in LESSONS}
    linked = {takes[name] for name in re.findall(r"\(further/(\w+)\.ipynb", lesson.text)}
    said = re.search(r"(?:about )?(\d+)(?: (?:to|or) (\d+))? minutes each", lesson.text)

    assert (min(linked), max(linked)) == (int(said[1]), int(said[2] or said[1]))
