"""A lesson in a real browser: JupyterLab opens it, runs every cell, and shows no error.

The suite has the first lesson. COURSE_NIGHTLY=1 has every core lesson of the student's edition, as
it measures and in the recorded mode.
"""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from labs import CELLS, CHROMIUM, CONNECTED, browser_open, checked_out, git, lab_open, open_lesson

from tools import edition

pytest.importorskip("playwright.sync_api")

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(500),  # a lab, a browser and a lesson, beside other tests
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
    pytest.mark.skipif(shutil.which("git") is None, reason="no git"),
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return checked_out(tmp_path_factory.mktemp("lab") / "my courses")


@pytest.fixture(scope="module")
def lab(checkout):
    with lab_open(checkout) as address:
        yield address


@pytest.fixture(scope="module")
def page():
    with browser_open() as page:
        yield page


def run_all(page, lab, name, timeout_s=180):
    """Open a lesson, run all its cells, return the outputs once the kernel has become idle."""
    open_lesson(page, lab, name)
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    ends_s = time.monotonic() + timeout_s
    while time.monotonic() < ends_s:
        cells = [cell for cell in page.evaluate(CELLS) if cell["source"].strip()]
        outputs = [output for cell in cells for output in cell["outputs"]]
        errors = [output["evalue"] for output in outputs if output["output_type"] == "error"]
        assert [] == errors  # JupyterLab runs no further cell after one
        if all(cell["count"] for cell in cells) and page.evaluate(CONNECTED):
            return outputs
        time.sleep(0.25)
    left = [cell["id"] for cell in cells if not cell["count"]]
    pytest.fail(f"{name} was not done after {timeout_s} s: {left} have not run")


SAVED = """async () => {
  await window.jupyterapp.commands.execute('docmanager:save');
  return !window.jupyterapp.shell.currentWidget.context.model.dirty;
}"""


def test_a_lesson_runs_in_the_browser_and_is_saved_beside_the_course(page, lab, checkout):
    """After it, `course.py test` tests the same lessons, and an update meets no local change.

    It is the first page: its widgets work, and its map leads to another lesson.
    """
    (path,) = NOTEBOOKS.glob("00_*.ipynb")

    outputs = run_all(page, lab, path.name)

    assert any("image/png" in output.get("data", {}) for output in outputs)
    pictures = page.locator(".jp-OutputArea-output img")
    assert pictures.count() > 0  # the front end draws them, too

    assert page.evaluate(SAVED)
    assert git(checkout, "status", "--porcelain") == ""
    for original in sorted(NOTEBOOKS.rglob("*.ipynb")):
        used = checkout / "notebooks" / original.relative_to(NOTEBOOKS)
        assert used.read_bytes() == original.read_bytes(), original.name
    mine = json.loads((checkout / "my_lessons" / path.name).read_text("utf-8"))
    assert len(outputs) == sum(len(cell.get("outputs", ())) for cell in mine["cells"])

    page.locator("a[href*='01_blocking']").first.click()

    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.path === '01_blocking.ipynb'",
        timeout=30_000,
    )
    page.wait_for_function(CONNECTED, timeout=180_000)  # its kernel is not starting any more


@pytest.mark.skipif("COURSE_NIGHTLY" not in os.environ, reason="14 lessons: COURSE_NIGHTLY=1")
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("mode", ["fast", "recorded"])
def test_every_core_lesson_of_the_students_edition_runs(mode, page, tmp_path, monkeypatch):
    students = edition.student(tmp_path / "student")
    monkeypatch.setenv("PYTHONPATH", str(students))
    labelled = {}
    with lab_open(students, mode) as address:
        for path in sorted((students / "notebooks").glob("[01][0-9]_*.ipynb")):
            outputs = run_all(page, address, path.name)
            assert "image/png" in {kind for output in outputs for kind in output.get("data", ())}
            labelled[path.stem] = "Recorded run, not of this machine" in json.dumps(outputs)

    assert {mode == "recorded"} == set(labelled.values()), labelled
    assert len(labelled) == 14
