"""A class of 20 made-up students, marked by nbgrader and by Otter: `pip install -e '.[marks]'`."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest

from tools import marks, run_notebooks

ROOT = Path(__file__).resolve().parent.parent
(LESSON,) = run_notebooks.chosen(["03"])
TASKS = marks.tasks(nbformat.read(LESSON, as_version=4))
CELL_S = 40
"""For one cell; the judge of each exercise of this lesson stops an answer after 20 s."""

NOTEBOOK_S = 300
"""For a whole notebook: a judge needs 20 s for an exercise, and several times that if busy."""

FIND = "from kvstore.course.exercises import find\n"
FIND_WRONG = f"""import sys
sys.path.append({str(ROOT / "tests" / "course")!r})
import answers, verdicts
"""


def right(task):
    return f'{FIND}{task.variable} = find("{task.exercise_id}").reference'


def wrong(number):
    def answer(task):
        known = f"known_wrong_in_a_notebook({task.exercise_id!r}, {number})"
        return f"{FIND_WRONG}{task.variable} = verdicts.{known}"

    return answer


def says(text):
    return lambda task: text.replace("NAME", task.variable)


def untouched(task):
    return task.stub


CHATTER = "import sys\nprint('a line on standard error', file=sys.stderr)\n"
CLASS = {
    **{f"right_{n}": (right, 1) for n in range(4)},
    "right_and_loud": (lambda task: CHATTER + right(task), 1),
    **{f"wrong_{n}": (wrong(n), 0) for n in range(5)},
    "empty_stub": (untouched, 0),
    "empty_cell": (says(""), 0),
    "empty_none": (says("NAME = None"), 0),
    "a_value": (says("NAME = 42"), 0),
    "loop_inside": (says("def NAME(*_):\n    while True:\n        pass"), 0),
    "loop_outside": (says("while True:\n    pass"), 0),
    "crash_raises": (says("def NAME(*_):\n    raise RuntimeError('no')"), 0),
    "crash_outside": (says("1 / 0"), 0),
    "crash_exit": (says("import sys\n\n\ndef NAME(*_):\n    sys.exit(3)"), 0),
    "crash_kernel": (says("import os\n\n\ndef NAME(*_):\n    os._exit(3)"), 0),
}
"""What each student writes for every exercise, and the share of the points that it is worth."""


def hand_in(sheet, student, place):
    """Write what the student hands in."""
    notebook = nbformat.read(sheet, as_version=4)
    for task in TASKS:
        (cell,) = [each for each in notebook.cells if each.id == marks._id("answer", task)]
        cell.source = CLASS[student][0](task)
    place.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, place)


def run(*command, cwd, timeout=900):
    settings = {**os.environ, "COURSE_MODE": "fast", "PYTHONPATH": str(ROOT)}
    settings["COURSE_PROGRESS"] = str(cwd / "progress.sqlite3")
    settings["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), settings["PATH"]])
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=settings, capture_output=True, text=True,
        timeout=timeout,
    )  # fmt: skip


def test_each_lesson_with_exercises_becomes_an_assignment_for_both(tmp_path):
    """Each exercise that a lesson checks is in it, and no answer is in what students get."""
    for lesson in run_notebooks.lessons_in():
        notebook = nbformat.read(lesson, as_version=4)
        checked = [found for cell in notebook.cells for found in marks.pages.checked_in(cell)]

        points = marks.for_nbgrader(lesson, tmp_path), marks.for_otter(lesson, tmp_path / "otter")

        assert points == (len(checked) * marks.POINTS,) * 2, lesson.stem
        if not checked:
            continue
        source = nbformat.read(tmp_path / "source" / lesson.stem / lesson.name, as_version=4)
        nbformat.validate(source)
        graded = [cell.metadata.nbgrader for cell in source.cells if "nbgrader" in cell.metadata]
        assert {each["schema_version"] for each in graded} == {3}
        assert sum(each.get("points", 0) for each in graded) == points[0]
        sheet = (tmp_path / "otter" / lesson.stem / lesson.name).read_text("utf-8")
        assert "reference" not in sheet
        assert "SOLUTION" not in sheet


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(importlib.util.find_spec("nbgrader") is None, reason="no nbgrader: .[marks]")
def test_nbgrader_marks_the_class(tmp_path):
    total = marks.for_nbgrader(LESSON, tmp_path)
    made = run("-m", "nbgrader", "generate_assignment", LESSON.stem, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    sheet = tmp_path / "release" / LESSON.stem / LESSON.name
    assert "reference" not in sheet.read_text("utf-8")
    for student in CLASS:
        hand_in(sheet, student, tmp_path / "submitted" / student / LESSON.stem / LESSON.name)

    run(
        "-m", "nbgrader", "autograde", LESSON.stem, f"--Execute.timeout={CELL_S}", cwd=tmp_path,
        timeout=1400,
    )  # fmt: skip
    done = run("-c", _GRADES, cwd=tmp_path)

    given = json.loads(done.stdout)
    assert given == {student: share * total for student, (_, share) in CLASS.items()}


_GRADES = f"""
import json
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    rows = book.submission_dicts("{LESSON.stem}")
    print(json.dumps({{row["student"]: row["score"] for row in rows}}))
"""


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(importlib.util.find_spec("otter") is None, reason="no otter: .[marks]")
def test_otter_marks_the_class(tmp_path):
    total = marks.for_otter(LESSON, tmp_path)
    folder = tmp_path / LESSON.stem
    made = run(
        "-m", "otter", "generate", "-t", "tests", "-c", "otter_config.json", "-o", "auto.zip",
        "--no-requirements", "--no-environment", cwd=folder,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with ThreadPoolExecutor(2) as two_at_a_time:
        slowest_first = sorted(CLASS, key=lambda student: not student.startswith("loop"))
        scores = two_at_a_time.map(lambda student: mark(student, folder, tmp_path), slowest_first)
        given = dict(zip(slowest_first, scores, strict=True))

    assert given == {student: share * total for student, (_, share) in CLASS.items()}


def mark(student, folder, tmp_path):
    """The points that Otter gives; 0 where it reaches no end or writes no result."""
    place = tmp_path / student / LESSON.name
    hand_in(folder / LESSON.name, student, place)
    with contextlib.suppress(subprocess.TimeoutExpired):  # `otter run` itself has no limit
        run(
            "-m", "otter", "run", str(place), "-a", str(folder / "auto.zip"), "-o", ".",
            "--no-logo", cwd=place.parent, timeout=NOTEBOOK_S,
        )  # fmt: skip
    results = place.with_name("results.json")
    tests = json.loads(results.read_text("utf-8"))["tests"] if results.is_file() else []
    return sum(each.get("score", 0) for each in tests)
