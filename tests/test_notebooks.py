"""Every lesson runs from top to bottom as it is, and shows what it promises."""

import json
import re
from pathlib import Path

import pytest

from kvstore.course.execute import execute

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.slow


def test_there_are_lessons():
    """An empty list would make every test below pass."""
    expected = {"00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10"}
    assert expected <= {path.name[:2] for path in NOTEBOOKS}


@pytest.mark.usefixtures("cores_awake")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_untouched_lesson_runs_and_its_claims_hold(path, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_MODE", "fast")
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite"))

    done = execute(path, timeout_s=120)

    assert done.error is None
    assert [] == [claim.sentence for claim in done.claims if not claim.holds]
    assert len(done.claims) >= 3
    assert len(done.agreements) >= 1
    assert len(_figures(done.notebook)) >= 3
    assert [] == _problems(done.notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_is_committed_without_outputs(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]

    assert [] == [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"]]
    assert len(cells) == len({cell["id"] for cell in cells})


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_cell_is_allowed_to_fail(path):
    """A tag that tolerates one error hides every other error of the cell."""
    cells = json.loads(path.read_text("utf-8"))["cells"]

    assert [] == [
        cell["id"]
        for cell in cells
        if {"raises-exception", "skip-execution"} & set(cell["metadata"].get("tags", ()))
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_teacher_asks_before_a_run_stands_before_it(path):
    """Of the section it stands in, a run is still to come; the opening speaks of all of them."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    too_late = []
    for place, cell in enumerate(cells):
        note = "".join(cell["source"]).partition("For the teacher")[2]
        if cell["id"] != "goals" and re.search(
            r"before the (run|sweep|ends|first run)", note, re.I
        ):
            ahead = "\n\n".join("".join(each["source"]) for each in cells[place + 1 :])
            section = re.split(r"^#{1,2} ", ahead, maxsplit=1, flags=re.M)[0]
            if "serving(" not in section and "predict(" not in section:
                too_late.append(cell["id"])

    assert [] == too_late


def _figures(notebook):
    return [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]


def _problems(notebook):
    """Errors, and anything written to standard error: a warning a student would trip over."""
    return [
        output.get("text", output.get("evalue"))
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "error" or output.get("name") == "stderr"
    ]
