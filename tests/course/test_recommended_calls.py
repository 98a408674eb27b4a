"""Calls that a message tells the learner to type work in every notebook as it stands."""

import re
import sys

import pytest
from lessons import NOTEBOOKS, cells_of

from kvstore.course import progress
from kvstore.course.exercises import every
from kvstore.course.questions import predictions_of


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory):
    """The names after the first cells of each lesson, up to `lesson(...)`."""
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_MY_CODE", str(tmp_path_factory.mktemp("learner") / "my_code"))
        for path in NOTEBOOKS:
            made[path] = {"__name__": "__main__"}
            for cell in cells_of(path):
                exec(compile(cell.source, path.name, "exec"), made[path])
                if "lesson(" in cell.source:
                    break
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_code"]:
        del sys.modules[name]
    return made


def test_the_calls_in_the_messages_after_a_late_prediction_and_the_last_hint_work(
    namespaces, capsys, monkeypatch, tmp_path
):
    for path in NOTEBOOKS:
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / f"{path.stem}.sqlite3"))
        names, lesson = namespaces[path], path.name[:2]
        question = predictions_of(lesson)[0].id
        names["predict"](question, 0.5)
        progress.settle(question, 20.0, lambda *_: 0.3)
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
