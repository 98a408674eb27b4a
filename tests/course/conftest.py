"""Every test keeps progress in a file of its own, and sees what is put on the page."""

from collections.abc import Iterator, Mapping
from typing import Any

import matplotlib as mpl
import pytest

from kvstore.course import rendering


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
