"""Every core lesson runs from top to bottom as it is, and shows what it promises."""

import json
import re
from pathlib import Path

import pytest
from lessons import NOTEBOOKS
from tables import for_each

from kvstore.course.run_notebooks import execute
from tools import lesson_size

FOLDER = Path(__file__).parent.parent / "notebooks"

pytestmark = pytest.mark.slow


def test_there_are_lessons():
    """An empty list would make every test below pass."""
    expected = {f"{number:02}" for number in range(14)}
    assert expected <= {path.name[:2] for path in NOTEBOOKS}


CORE = [path for path in NOTEBOOKS if path.parent.name != "further"]
"""Further lessons run in one kernel, see test_further_notebooks.py."""


@pytest.mark.usefixtures("cores_awake")
@pytest.mark.parametrize("path", CORE, ids=lambda path: path.stem)
def test_an_untouched_lesson_runs_and_its_claims_hold(path, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_MODE", "fast")
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite"))

    done = execute(path, timeout_s=120)

    assert done.error is None
    assert [] == [claim.sentence for claim in done.claims if not claim.holds]
    first_edition = path.stem in lesson_size.FIRST_EDITION
    assert len(done.claims) >= (3 if first_edition else 1)
    assert len(done.agreements) >= 1
    assert len(figures_of(done.notebook)) >= (3 if first_edition else 1)
    assert [] == [each for each in figures_of(done.notebook) if not alt_text_of(each)]
    assert [] == problems_of(done.notebook)


@for_each("path", NOTEBOOKS)
def test_a_lesson_is_committed_without_outputs(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]

    assert [] == [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"]]
    assert len(cells) == len({cell["id"] for cell in cells})


@for_each("path", NOTEBOOKS)
def test_a_formula_has_one_backslash_before_a_word(path):
    """Two of them begin a new line, and the word is shown as it stands."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    prose = "".join("".join(each["source"]) for each in cells if each["cell_type"] == "markdown")

    assert [] == re.findall(r"\\\\[a-z]+", prose)


@for_each("path", NOTEBOOKS)
def test_no_cell_is_allowed_to_fail(path):
    """A tag that tolerates one error hides every other error of the cell."""
    cells = json.loads(path.read_text("utf-8"))["cells"]

    assert [] == [
        cell["id"]
        for cell in cells
        if {"raises-exception", "skip-execution"} & set(cell["metadata"].get("tags", ()))
    ]


@for_each("path", NOTEBOOKS)
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


@for_each("path", NOTEBOOKS)
def test_links_between_lessons_lead_somewhere_in_the_learners_copies_too(path):
    """A learner's folder holds the notebooks as they lie here, and nothing else of the checkout."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    targets = re.findall(r"\]\((?!https?:|#|attachment:)([^)\s#]+)", text)

    linked = [(path.parent / target).resolve() for target in targets]
    assert [] == [str(each) for each in linked if each not in NOTEBOOKS]


def test_every_further_lesson_is_linked_from_a_core_lesson_and_back():
    core = [path for path in NOTEBOOKS if path.parent == FOLDER]
    text = "\n".join(path.read_text("utf-8") for path in core)

    for path in NOTEBOOKS:
        if path not in core:
            assert f"(further/{path.name})" in text, f"no core lesson links to {path.stem}"
            assert "](../" in path.read_text("utf-8"), f"{path.stem} links to no core lesson"


def alt_text_of(figure):
    return figure["metadata"].get("image/png", {}).get("alt", "").strip()


def figures_of(notebook):
    return [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]


def problems_of(notebook):
    """Errors, and anything written to standard error: a warning a student would trip over."""
    return [
        output.get("text", output.get("evalue"))
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "error" or output.get("name") == "stderr"
    ]
