"""Every test keeps progress in a file of its own, and sees what is put on the page."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from kvstore.course import questions, rendering


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    """No test touches the learner's progress, nor is changed by COURSE_MODE."""
    file = tmp_path / "progress.sqlite3"
    monkeypatch.setenv("COURSE_PROGRESS", str(file))
    monkeypatch.delenv("COURSE_MODE", raising=False)
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


@pytest.fixture
def lesson_97(tmp_path, monkeypatch):
    """The questions of tests/course/made_lesson.py, as those of a lesson 97; yields that module."""
    source = Path(__file__).with_name("made_lesson.py").read_text("utf-8")
    (tmp_path / "lesson_97.py").write_text(source, "utf-8")
    monkeypatch.setattr(questions, "__path__", [*questions.__path__, str(tmp_path)])
    questions._checked.cache_clear()
    yield importlib.import_module("kvstore.course.questions.lesson_97")
    questions._checked.cache_clear()
    del sys.modules["kvstore.course.questions.lesson_97"]


@pytest.fixture
def repo_root() -> Path:
    """The checkout: kernels import the course from it, for it may not be installed."""
    return Path(__file__).parents[2]
