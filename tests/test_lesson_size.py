"""The size of a lesson, and what the lessons ask."""

import json
import re

import nbformat
import pytest
from lessons import NOTEBOOKS

from kvstore.course import exercises, questions
from kvstore.course.progress import lesson_of
from tools import lesson_size

TEXT = """# Locks

This lesson takes about 11 minutes. See [the paper](https://example.org/a/b) and `two words`.

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
    return tmp_path / "97_locks.ipynb"


def test_what_is_counted_and_how_long_it_takes(lesson):
    # Words: Locks; This ... minutes; See the paper and code; a; b; one; two three; X.
    assert lesson_size.measured(lesson) == {
        "visible cells": 5,
        "lines of a cell": 4,
        "words": 1 + 6 + 5 + 1 + 1 + 1 + 2 + 1,
        "predictions": 1,
        "figures": 1,
        "exercises": 1,
        "quiz questions": 1,
        "minutes": round(18 / 150 + 5 * 0.5 + 75 / 60 + 1.75 + 5 + 0.7),
    }
    assert list(lesson_size.problems(lesson)) == []


def test_every_question_of_the_quiz_of_a_part_takes_its_time(lesson):
    text = lesson.read_text("utf-8").replace("97.double", "part 1")
    lesson.write_text(text, "utf-8")

    assert lesson_size.measured(lesson)["quiz questions"] == len(questions.asked("part 1")) > 1


def test_what_exceeds_its_limit_and_other_minutes_are_named(lesson):
    text = lesson.read_text("utf-8").replace("one | two", f"one | {'word ' * 1483} two")
    lesson.write_text(text, "utf-8")

    assert list(lesson_size.problems(lesson)) == [
        "has 1501 words, at most 1500 are allowed",
        "takes 21 minutes: it has to say so",
    ]


def test_the_minutes_of_each_section_are_written_and_stale_ones_named(lesson):
    notebook = json.loads(lesson.read_text("utf-8"))
    heading = {"cell_type": "markdown", "id": "round", "metadata": {}, "source": ["## Round 1: x"]}
    notebook["cells"].insert(3, heading)  # 3 cells, 75 s, and what they ask
    notebook["cells"].append(heading | {"id": "end", "source": ["## What now?"]})
    lesson.write_text(json.dumps(notebook), "utf-8")
    (stale,) = lesson_size.problems(lesson)
    done = lesson_size.with_minutes(notebook, further=False)
    lesson.write_text(json.dumps(done), "utf-8")

    assert "other minutes of its sections" in stale
    assert "".join(done["cells"][0]["source"]).endswith("\n\nMinutes: Round 1 (10) · What now? (1)")
    assert list(lesson_size.problems(lesson)) == []
    assert lesson_size.with_minutes(done, further=False) == done
    assert lesson_size.measured(lesson)["words"] == 18 + 3 + 2  # the line itself is not counted

    title = done["cells"][0]
    title["source"] = ["".join(title["source"]).replace("1 (10)", "1 (12)").replace("11 m", "20 m")]
    lesson.write_text(json.dumps(done), "utf-8")
    assert len(list(lesson_size.problems(lesson))) == 2
    again = lesson_size.with_minutes(done, further=False)
    assert "takes about 11 minutes" in "".join(again["cells"][0]["source"])
    assert "Minutes: Round 1 (10) ·" in "".join(again["cells"][0]["source"])


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_lesson_asks_and_checks_what_is_registered(path):
    """A question with a typing error in its id would be a new one, in calls/s."""
    text = path.read_text("utf-8")
    asked = set(re.findall(r'\b(?:predict|compare)\(\\"([\w.]+)', text))
    known = {each.id for name in asked for each in questions.predictions_of(lesson_of(name))}
    checked = set(re.findall(r'\bcheck\(\\"([\w.]+)', text))

    assert sorted(asked - known) == []
    assert sorted(checked - set(exercises.every())) == []
