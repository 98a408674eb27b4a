"""Every further lesson runs from top to bottom as it is.

They run beside other tests, so what they measure is not held against a prediction here: a machine
that is busy with other tests would be judged. `course.py run further` lists the claims that hold.
"""

import pytest
from lessons import NOTEBOOKS
from test_notebooks import alt_text_of, figures_of, problems_of

from kvstore.course.run_notebooks import execute
from kvstore.server.go_server import go_is_installed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "path",
    [path for path in NOTEBOOKS if path.parent.name == "further"],
    ids=lambda path: path.stem,
)
def test_an_untouched_further_lesson_runs(path, tmp_path, monkeypatch):
    if "serving_go" in path.read_text("utf-8") and not go_is_installed():
        pytest.skip("no go on this machine")
    monkeypatch.setenv("COURSE_MODE", "fast")
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite"))

    done = execute(path, timeout_s=120)

    assert done.error is None
    assert len(done.claims) >= 1
    assert len(figures_of(done.notebook)) >= 1
    assert [] == [each for each in figures_of(done.notebook) if not alt_text_of(each)]
    assert [] == problems_of(done.notebook)
