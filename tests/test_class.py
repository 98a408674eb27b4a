"""What a teacher does with a class: editions, and the class's progress."""

import ast
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from lessons import NOTEBOOKS, cells_of

from kvstore.course import progress, questions
from kvstore.course.views import calibration
from tools import build, collect, edition, marks, run_notebooks

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    return edition.student(tmp_path_factory.mktemp("edition") / "student")


def test_students_get_no_solution_no_notes_and_no_outputs(students, tmp_path):
    """The exercises of a lesson still judge, and `solution` says who has the answer."""
    for name in ("docs/teaching", "tests", "executed"):
        assert not (students / name).exists()
    lessons = run_notebooks.lessons_in(students / "notebooks")
    names = {path.relative_to(students) for path in lessons}
    assert names == {path.relative_to(ROOT) for path in run_notebooks.lessons_in()}
    assert not [path for path in lessons if '"output_type"' in path.read_text("utf-8")]
    course = students / "kvstore" / "course"
    modules = [*course.rglob("*.py"), *course.rglob("*.toml")]
    answers = re.compile(r"reference=\w|\bright = ?true")
    assert not [path for path in modules if answers.search(path.read_text("utf-8"))]
    program = (
        "from kvstore.course import check, exercises, solution\n"
        "for each in ('00.utilisation', '03.hot_key'):\n"
        "    found = exercises.find(each)\n"
        "    wrong, *_ = dict(found.judge.mistakes).values()\n"
        "    check(each, found.reference); check(each, wrong); solution(each)\n"
    )
    settings = {**os.environ, "PYTHONPATH": str(students), "COURSE_PROGRESS": str(tmp_path / "p")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=students,
        env=settings,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert done.stderr == ""
    assert done.stdout.count("Passed.") == 2
    assert done.stdout.count("Not yet.") == 2
    assert done.stdout.count("your teacher has them") == 2


def test_students_see_every_source_that_a_lesson_shows(students, tmp_path):
    """What it shows must not lie beside the answers, which are packed in their edition."""
    shown = {}
    for path in NOTEBOOKS:
        nodes = [node for cell in cells_of(path) for node in cell.tree.body]
        lines = [ast.unparse(n) for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]
        calls = [line for line in map(ast.unparse, nodes) if line.startswith("show_source(")]
        if calls:
            shown[path.stem] = "\n".join([*lines, *calls])
    program = tmp_path / "shown.py"
    program.write_text("\n".join(shown.values()), "utf-8")

    settings = {**os.environ, "PYTHONPATH": str(students)}
    done = subprocess.run([sys.executable, program], cwd=students, env=settings, timeout=100)

    assert shown
    assert 0 == done.returncode


def test_what_the_readme_of_students_says_works_there(students):
    text = (students / "README.md").read_text("utf-8")

    commands = (students / "docs" / "commands.md").read_text("utf-8")
    assert not re.search(r"course\.py (test|check)", text + commands)
    (command,) = re.findall(r"^python3 course.py (run --fast .*)$", text, re.MULTILINE)
    assert run_notebooks.chosen(command.split()[2:], students / "notebooks")
    dead = [
        (page.name, target)
        for page in students.rglob("*.md")
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert dead == []


def test_teachers_get_notes_solutions_and_outputs(tmp_path, monkeypatch):
    (lesson,) = run_notebooks.chosen(["03_bounded"])
    notebook = run_notebooks.nbformat.read(lesson, as_version=4)
    notebook.metadata["course"] = {"mode": "class", "machine": "m", "made_at": "2026-01-01T00"}
    monkeypatch.setattr(edition.pages, "executed", lambda _lesson: notebook)

    assert build.main(["teacher", "--out", str(tmp_path / "teacher"), "--zip", "03_bounded"]) == 0

    text = (tmp_path / "teacher" / "reference" / lesson.name).read_text("utf-8")
    assert "Run sheet" in text
    assert text.count("One way to solve") == len(marks.tasks(notebook))
    assert (tmp_path / "teacher" / "docs" / "teaching" / "03.md").is_file()
    assert (tmp_path / "teacher" / "tests").is_dir()
    with zipfile.ZipFile(tmp_path / "teacher.zip") as archive:
        assert "teacher/course.py" in archive.namelist()


@pytest.fixture
def hand_ins(tmp_path, monkeypatch):
    """Three students, who predicted 50, 25 and 25; the third then tried again."""
    files = []
    options = questions.registered_quiz("03.double").lettered
    choices = {
        each.right is False: (letter, each.right) for letter, each in options.items()
    }  # one right, one wrong
    for name, value in (("ada", 50.0), ("ben", 25.0), ("eva", 25.0)):
        files.append(tmp_path / f"{name}.sqlite3")
        monkeypatch.setenv(progress.VARIABLE, str(files[-1]))
        progress.keep_prediction("03.global_lock", value, "calls/s")
        progress.settle("03.global_lock", 25.0, lambda *_: 0.0)
        progress.keep_choice("03.double", *choices[name == "ben"])
        progress.record_answer("03.bounded", "passed", "yes")
    progress.keep_prediction("03.curve", 9.0, "calls/s", {1: 5.0, 100: 9.0})
    progress.start_again("03.global_lock")
    progress.keep_prediction("03.global_lock", 1000.0, "calls/s")
    progress.settle("03.global_lock", 25.0, lambda *_: 1.6)
    monkeypatch.setenv(progress.VARIABLE, str(tmp_path / "the teachers own"))
    return files


def test_a_class_is_merged_into_tables_and_a_figure(tmp_path, hand_ins, capsys, no_own_backend):
    mine = tmp_path / "the teachers own"
    nested = tmp_path / "dan" / "progress.sqlite3"
    nested.parent.mkdir()
    shutil.copy(hand_ins[0], nested)
    with closing(sqlite3.connect(nested)) as made:
        made.execute("UPDATE questions SET predicted_at = predicted_at + 1")
        made.commit()

    status = collect.main(["--out", str(tmp_path / "out"), *map(str, [*hand_ins, nested])])

    assert status == 0
    lessons = pd.read_csv(tmp_path / "out" / "lessons.csv")
    assert list(lessons["student"]) == ["ada", "ben", "eva", "dan"]
    assert set(lessons["exercises passed"]) == {"1 of 1"}
    made = pd.read_csv(tmp_path / "out" / "predictions.csv")
    assert list(made["predicted"]) == [50, 25, 9, 25, 1000, 50]
    assert [5, 9] == list(pd.read_csv(tmp_path / "out" / "curves.csv")["predicted"])
    quizzes = pd.read_csv(tmp_path / "out" / "quizzes.csv").set_index("student")
    assert set(quizzes["question"]) == {"03.double"}
    assert dict(quizzes["right"]) == {"ada": True, "ben": False, "eva": True, "dan": True}
    assert (tmp_path / "out" / "predictions.png").stat().st_size > 5000
    assert not mine.exists(), "the teacher's own progress is left alone"
    ax = calibration.plot_class(made)
    students = np.concatenate([line.get_xdata() for line in ax.lines if line.get_marker() == "o"])
    assert sorted(students) == [1, 1, 2, 2], "the first attempt of each student"
    assert [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "D"] == [1.5]


def another_program(file):
    file.unlink()
    with closing(sqlite3.connect(file)) as made:
        made.execute("CREATE TABLE history (url TEXT)")


def cut_off(file):
    """The second half did not arrive."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def with_odd_bytes(file):
    file.write_bytes(file.read_bytes().replace(b"03.global_lock", b"\xff\xfe\xfd\xfcglobal_lock"))


@pytest.mark.parametrize(
    "damage",
    [cut_off, with_odd_bytes, another_program],
)
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_merged(
    damage, tmp_path, hand_ins, capsys, no_own_backend
):
    damage(hand_ins[0])

    assert collect.main(["--out", str(tmp_path / "out"), *map(str, hand_ins)]) == 1

    assert "ada.sqlite3" in capsys.readouterr().err
    assert set(pd.read_csv(tmp_path / "out" / "lessons.csv")["student"]) == {"ben", "eva"}


def with_what_is_unknown(file):
    with closing(sqlite3.connect(file)) as made:
        made.execute("ALTER TABLE questions ADD COLUMN confidence TEXT")
        made.execute("CREATE TABLE later (x TEXT)")


def students_in(tmp_path):
    return [*dict.fromkeys(pd.read_csv(tmp_path / "out" / "lessons.csv")["student"])]


def test_the_file_of_a_later_edition_is_read(tmp_path, hand_ins, capsys, no_own_backend):
    with_what_is_unknown(hand_ins[0])

    assert collect.main(["--out", str(tmp_path / "out"), *map(str, hand_ins)]) == 0

    assert students_in(tmp_path) == ["ada", "ben", "eva"]
    assert 50 in set(pd.read_csv(tmp_path / "out" / "predictions.csv")["predicted"])


@pytest.mark.parametrize("place", [".", "*.sqlite3"])
def test_a_folder_and_a_quoted_pattern_stand_for_their_files(
    place, tmp_path, hand_ins, capsys, no_own_backend
):
    assert collect.main(["--out", str(tmp_path / "out"), str(tmp_path / place)]) == 0

    assert students_in(tmp_path) == ["ada", "ben", "eva"]


def test_what_matches_nothing_is_named(tmp_path, hand_ins, capsys, no_own_backend):
    (tmp_path / "empty").mkdir()
    given = [tmp_path / "empty", tmp_path / "x*.sqlite3", hand_ins[0]]

    assert collect.main(["--out", str(tmp_path / "out"), *map(str, given)]) == 1

    said = capsys.readouterr().err
    assert "empty" in said
    assert "x*.sqlite3" in said
    assert students_in(tmp_path) == ["ada"]


def test_equal_files_count_once_and_equal_names_are_told_apart(
    tmp_path, hand_ins, capsys, no_own_backend
):
    shutil.copy(hand_ins[0], tmp_path / "ada (1).sqlite3")
    for name, file in ("home1", hand_ins[1]), ("home2", hand_ins[2]):
        (tmp_path / name / "share").mkdir(parents=True)
        file.rename(tmp_path / name / "share" / "progress.sqlite3")

    assert collect.main(["--out", str(tmp_path / "out"), str(tmp_path)]) == 1

    said = capsys.readouterr().err
    assert "ada (1).sqlite3" in said
    assert "ada.sqlite3" in said
    made = students_in(tmp_path)
    assert len(made) == 3
    assert {"share (home1)", "share (home2)"} < set(made)


def test_the_coverage_of_each_student_is_counted(
    tmp_path, hand_ins, monkeypatch, capsys, no_own_backend
):
    """Of what was measured, first attempts only."""
    monkeypatch.setenv(progress.VARIABLE, str(hand_ins[0]))
    for question, low, high, measured in (
        ("01.mix", 20, 40, 23),
        ("03.per_key", 1000, 2000, 2400),
        ("01.reads_only", 90, 110, None),
    ):
        progress.keep_prediction(question, (low * high) ** 0.5, "calls/s", interval=(low, high))
        if measured:
            progress.settle(question, measured, lambda *_: 0.1)
    progress.start_again("03.per_key")
    progress.keep_prediction("03.per_key", 2400, "calls/s", interval=(2000, 3000))
    progress.settle("03.per_key", 2400, lambda *_: 0.0)

    assert collect.main(["--out", str(tmp_path / "out"), *map(str, hand_ins)]) == 0

    (row,) = pd.read_csv(tmp_path / "out" / "coverage.csv").to_dict("records")
    assert row == {"student": "ada", "held": 1, "intervals": 2, "share": 0.5, "width": 2.0}
    assert len(pd.read_csv(tmp_path / "out" / "intervals.csv")) == 4


def test_a_quiz_is_judged_by_its_choices_and_a_contradiction_is_named(
    tmp_path, hand_ins, capsys, no_own_backend
):
    with closing(sqlite3.connect(hand_ins[1])) as made:
        made.execute("UPDATE choices SET is_right = 1")
        made.commit()

    assert collect.main(["--out", str(tmp_path / "out"), *map(str, hand_ins)]) == 1

    assert "ben.sqlite3" in capsys.readouterr().err
    lessons = pd.read_csv(tmp_path / "out" / "lessons.csv").set_index("student")
    assert list(lessons["quiz right at first"]) == ["1 of 1", "0 of 1", "1 of 1"]


@pytest.fixture
def no_own_backend():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")
