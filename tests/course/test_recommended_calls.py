"""Calls that a message tells the learner to type work in every notebook as it stands."""

import ast
import functools
import re
import sys
from pathlib import Path

import pytest
from failures import failures
from lessons import NOTEBOOKS, cells_of

import kvstore
from kvstore.course import progress
from kvstore.course.exercises import every
from kvstore.course.questions import predictions_of

PACKAGE = Path(kvstore.__file__).parent
SHOWN_IN = {
    "client": r"\b(load|live|run_in_process)\b",
    "server": r"\b(load|live|run_in_process)\b",
    "course/noise.py": r"\b(noise|machine)\.noise\b",
    "course/lessons/lesson_15/capstone": r"\bopen_service\b",
    "": "",
}
"""What a notebook uses when it can show the messages of a module; all can show the others."""


def _texts(tree):
    """All texts of a module but its docstrings; what a message fills in becomes `x`."""
    passed_over = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):  # a docstring
            passed_over.add(node.value)
        elif isinstance(node, ast.JoinedStr) and node not in passed_over:
            passed_over.update(node.values)
            yield "".join(v.value if isinstance(v, ast.Constant) else "x" for v in node.values)
        elif node not in passed_over and isinstance(getattr(node, "value", None), str):
            yield node.value


@functools.cache
def recommended():
    """Each call between backticks in a message, and the module that has it.

    Exercises are left out: what they name between backticks is for the learner to write.
    """
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        own = ("course/exercises/__init__.py", "course/exercises/grading.py")
        task = module.startswith(("course/exercises/", "v1/")) or "/exercises" in module
        if module in own or not task:
            for text in _texts(ast.parse(path.read_text("utf-8"))):
                found.update((call, module) for call in re.findall(r"`([^`]*\w\([^`]*)`", text))
    return sorted(found)


def _names(call):
    """The names that must be there for it; a `with` line gets a body."""
    tree = ast.parse(call + " pass" if call.endswith(":") else call)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return {name.id for name in found if isinstance(name.ctx, ast.Load)} - {"x"}


def _shown_in(module, source):
    """Whether a lesson with this source can show the messages of the module."""
    return re.search(
        next(SHOWN_IN[start] for start in SHOWN_IN if module.startswith(start)), source
    )


@pytest.fixture(scope="module")
def namespaces():
    """The names after the first cell of each lesson."""
    made = {}
    for path in NOTEBOOKS:
        made[path] = {"__name__": "__main__"}
        exec(compile(cells_of(path)[0].source, path.name, "exec"), made[path])
    return made


def test_messages_recommend_calls():
    """Without any, the tests below would pass."""
    names = {name for call, _ in recommended() for name in _names(call)}

    assert {"again", "solution", "predict", "serving", "keeping_awake", "open_service"} <= names


def test_every_recommended_call_finds_its_names_in_its_lessons(namespaces):
    def check(path):
        cells = cells_of(path)
        source = "\n".join(cell.source for cell in cells)
        shown = [call for call, module in recommended() if _shown_in(module, source)]
        wanted = {name for call in shown for name in _names(call)}
        assert {"again", "solution", "predict"} <= wanted
        missing = [n for n in wanted if not callable_or_module(namespaces[path].get(n))]
        assert not missing, missing
        rebound = {cell.id: wanted & cell.names_made(imported=False) for cell in cells[1:]}
        hidden = {cell: names for cell, names in rebound.items() if names}
        assert not hidden, hidden  # a later cell that reuses the name would hide the call

    assert {} == failures(check, NOTEBOOKS)


def callable_or_module(thing):
    return callable(thing) or isinstance(thing, type(sys))


def test_the_calls_in_the_messages_after_a_late_prediction_and_the_last_hint_work(
    namespaces, capsys, monkeypatch, tmp_path
):
    def check(path):
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / f"{path.stem}.sqlite3"))
        names, lesson = namespaces[path], path.name[:2]
        question = predictions_of(lesson)[0].id
        names["predict"](question, 0.5)
        progress.reveal(question, 20.0, 0.3)
        guess = names["predict"](question, 0.25)
        (typed,) = re.findall(r"`([^`]+)`", guess.message)
        exec(typed, names)
        assert "Attempt 2" in capsys.readouterr().out
        assert names["predict"](question, 0.25).status == "kept"

        exercise = next(each for each in every() if each.startswith(path.name[:2]))
        capsys.readouterr()
        for _ in every()[exercise].hints:
            exec(f'hint("{exercise}")', names)
        (typed,) = re.findall(r"`(solution[^`]+)`", capsys.readouterr().out)
        exec(typed, names)
        assert "one way to solve" in capsys.readouterr().out

    assert {} == failures(check, NOTEBOOKS)
