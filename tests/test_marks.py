"""A class of made-up students, marked by nbgrader and by Otter: `pip install -e '.[marks]'`."""

import contextlib
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from solutions import course_versions

from kvstore.course import judging, marking
from kvstore.course.exercises import every, solutions
from tools import marks, run_notebooks

ROOT = Path(__file__).resolve().parent.parent
(LESSON,) = run_notebooks.chosen(["03"])
TASKS = marks.tasks(nbformat.read(LESSON, as_version=4))
KEPT = list(every().values())[:2]
SOON = ("00.utilisation", "03.bounded", "10.once", "13.least")
"""Exercises with judges of four kinds; the long tests have all of them."""
NOTEBOOK_S = 300
"""For a whole notebook: a judge needs 20 s for an exercise, and several times that if busy."""

CHECKS = "from kvstore.course import check\ncheck('ID', NAME)\nawait NAME()"
"""What a student leaves in the cell: a check, and a line for IPython."""


RIGHT = {
    "bounded": """import threading


def bounded(stub, requests, in_flight):
    free = threading.Semaphore(in_flight)
    for request in requests:
        free.acquire()
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _: free.release())
    for _ in range(in_flight):
        free.acquire()""",
    "store": course_versions()["store.Store"][1],
}
WRONG = {
    "bounded": """def bounded(stub, requests, in_flight):
    for request in requests:
        method_of(stub, request)(request)""",
    "store": "class Store(OneLock):\n    pass",
}


def says(text):
    return lambda task: text.replace("NAME", task.variable).replace("ID", task.exercise_id)


FORGED = {
    "looked_up": "from kvstore.course.exercises import find\nNAME = find('ID').reference",
    "looked_up_in_my_code": (
        "from my_code import clients, store\nNAME = getattr(clients, 'NAME', None) or store.NAME"
    ),
    "looked_up_late": (
        "def NAME(*given):\n    from kvstore.course.exercises import find\n"
        "    return find('ID').reference(*given)"
    ),
    "patched_marks": (
        "import kvstore.course.checks as c\nc.marks = lambda i, a, points: points\n"
        "def NAME(*_):\n    return 1"
    ),
    "patched_judge": (
        "from kvstore.course import judging\nfrom kvstore.course.exercises import passed\n"
        "judging.judge = lambda *_: passed('yes')\ndef NAME(*_):\n    return 1"
    ),
    "patched_a_library": (
        "import math\nmath.isclose = lambda *_, **__: True\ndef NAME(*_):\n    return 1"
    ),
    "prints_a_verdict": "def NAME(*_):\n    return 1\nprint('✔ Passed.')\n10.0",
}
"""What gave full marks, or might, and takes two lines."""
CLASS = {
    "right_and_checks": (lambda task: f"{RIGHT[task.name]}\n{says(CHECKS)(task)}", 1),
    "wrong": (lambda task: WRONG[task.name], 0),
    "empty_stub": (lambda task: task.stub, 0),
    "no_python": (says("def NAME(:"), 0),
    "loop_inside": (says("def NAME(*_):\n    while True:\n        pass"), 0),
    "crash_outside": (says("1 / 0"), 0),
    "crash_kernel": (says("import os\n\n\nos._exit(3)"), 0),
    "looked_up": (says(FORGED["looked_up"]), 0),
    "patched_marks": (says(FORGED["patched_marks"]), 0),
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
        [sys.executable, *command],
        cwd=cwd,
        env=settings,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


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
@pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(each, id=name, marks=() if name in SOON else pytest.mark.long)
        for name, each in every().items()
    ],
)
def test_the_source_of_a_right_answer_gets_the_points(exercise, monkeypatch):
    """Where the course cannot be imported, every judge still judges."""
    patient = dataclasses.replace(exercise, timeout_s=200)
    monkeypatch.setattr(judging, "find", lambda _id: patient)  # this machine may be busy

    name = exercise.kept.partition(".")[2]
    made = marking.mark(exercise.id, name, [solutions.text_of(exercise)])

    assert made.verdict.passed, made
    assert 7 == made.points(7)


@pytest.mark.slow
@pytest.mark.parametrize("exercise", KEPT, ids=[each.id for each in KEPT])
def test_the_course_s_version_of_an_answer_is_not_there_to_be_imported(exercise):
    module, _, name = exercise.kept.partition(".")

    made = marking.mark(exercise.id, "mine", [f"from my_code.{module} import {name} as mine"])

    assert not made.verdict.passed


@pytest.mark.slow
@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED)
def test_a_mark_cannot_be_forged_in_two_lines(text):
    (task, *_) = TASKS

    made = marking.mark(task.exercise_id, task.variable, [says(text)(task)])

    assert 0 == made.points(10), made


def test_what_digs_in_the_process_is_shown_to_the_teacher():
    odd = "import gc\n\n\ndef bounded(*_):\n    return gc.get_objects()"
    plain = "import threading\nfrom kvstore.course import check\n\n\nclass A:\n    x = 1"

    assert ("`gc`",) == marking.mark("03.bounded", "bounded", [odd]).remarks
    assert () == marking.mark("03.bounded", "bounded", [plain, "bounded = None"]).remarks


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

    run("-m", "nbgrader", "autograde", LESSON.stem, cwd=tmp_path, timeout=1400)
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
        "-m",
        "otter",
        "generate",
        "-t",
        "tests",
        "-c",
        "otter_config.json",
        "-o",
        "auto.zip",
        "--no-requirements",
        "--no-environment",
        cwd=folder,
    )
    assert made.returncode == 0, made.stderr
    with ThreadPoolExecutor(2) as two_at_a_time:
        scores = two_at_a_time.map(lambda student: mark(student, folder, tmp_path), FEW)
        given = dict(zip(FEW, scores, strict=True))

    assert given == {student: CLASS[student][1] * total for student in FEW}


FEW = ("right_and_checks", "crash_kernel", "looked_up")
"""Otter takes long for each notebook, and judges it as nbgrader does."""


def mark(student, folder, tmp_path):
    """The points that Otter gives; 0 where it reaches no end or writes no result."""
    place = tmp_path / student / LESSON.name
    hand_in(folder / LESSON.name, student, place)
    with contextlib.suppress(subprocess.TimeoutExpired):  # `otter run` itself has no limit
        run(
            "-m",
            "otter",
            "run",
            str(place),
            "-a",
            str(folder / "auto.zip"),
            "-o",
            ".",
            "--no-logo",
            cwd=place.parent,
            timeout=NOTEBOOK_S,
        )
    results = place.with_name("results.json")
    tests = json.loads(results.read_text("utf-8"))["tests"] if results.is_file() else []
    return sum(each.get("score", 0) for each in tests)
