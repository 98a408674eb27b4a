"""Every test keeps progress in a file of its own, and sees what is put on the page."""

import importlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from kvstore.course import lessons, progress, questions, rendering


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    """No test touches the learner's progress or code, nor is changed by COURSE_MODE."""
    file = tmp_path / "progress.sqlite3"
    monkeypatch.setenv("COURSE_PROGRESS", str(file))
    monkeypatch.setenv("COURSE_MY_CODE", str(tmp_path / "my_code"))
    monkeypatch.delenv("COURSE_MODE", raising=False)
    monkeypatch.setattr(progress, "_typed", True)  # a learner is here, unless a test says otherwise
    return file


@pytest.fixture
def page(monkeypatch) -> list[Mapping[str, Any]]:
    """The bundles that were put on the page, in their order."""
    bundles: list[Mapping[str, Any]] = []
    monkeypatch.setattr(rendering, "show", bundles.append)
    return bundles


@pytest.fixture
def no_windows() -> Iterator[None]:
    """Figures are drawn into memory and closed again."""
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def write_lesson_97(folder: Path) -> None:
    """Write the questions of tests/course/made_lesson.* as those of a lesson 97."""
    room = folder / "lesson_97"
    room.mkdir(exist_ok=True)
    (room / "__init__.py").touch()
    for made, name in (("made_lesson.py", "questions.py"), ("made_lesson.toml", "lesson.toml")):
        shutil.copy(Path(__file__).with_name(made), room / name)


@pytest.fixture
def lesson_97(tmp_path, monkeypatch):
    """A made-up lesson 97; yields the module of its questions."""
    write_lesson_97(tmp_path)
    monkeypatch.setattr(lessons, "__path__", [*lessons.__path__, str(tmp_path)])
    read = (lessons._written, questions.predictions_of, questions._quizzes_of)
    for each in read:
        each.cache_clear()
    yield importlib.import_module("kvstore.course.lessons.lesson_97.questions")
    for each in read:
        each.cache_clear()
    for name in ("kvstore.course.lessons.lesson_97", "kvstore.course.lessons.lesson_97.questions"):
        del sys.modules[name]


@pytest.fixture
def repo_root() -> Path:
    """The checkout: kernels import the course from it, for it may not be installed."""
    return Path(__file__).parents[2]
