"""The page for a teacher who writes: its examples run, and a mistake is named with its cell."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kvstore.course import in_class, questions

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "write_your_own.md").read_text("utf-8")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def cells_below(heading):
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)\n```", section, re.DOTALL)


def validated(folder, sources):
    """What `pytest` says of a notebook with these cells, and its exit status."""
    path = folder / "17_mine.ipynb"
    cells = [new_code_cell(each, id=f"cell-{n}") for n, each in enumerate(sources)]
    nbformat.write(new_notebook(cells=cells), path)
    settings = {**os.environ, "COURSE_MY_CODE": str(folder / "my_code")}
    ours = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "-p", "conftest"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *ours, str(path)],
        cwd=ROOT,
        env=settings,
        capture_output=True,
        text=True,
    )
    return done.stdout, done.returncode


def test_the_examples_of_the_page_run(tmp_path):
    """A changed number, a question of one's own and a whole lesson, as one notebook."""
    lesson = cells_below("Write a lesson")
    (number,), (question,) = cells_below("Change a number"), cells_below("Add a question")
    changed = ['predict("03.global_lock")', number, 'compare("03.global_lock", one_lock)']
    asked = question.replace("17.my_lock", "17.another")
    mine = ['predict("17.another")', 'compare("17.another", one_lock)']

    said, status = validated(tmp_path, [*lesson, *changed, asked, *mine])

    assert (0, True) == (status, "1 passed" in said), said


def test_each_mistake_is_named_with_its_cell(tmp_path):
    imports, _, _ = cells_below("Write a lesson")[0].partition("\n\n")
    said, status = validated(
        tmp_path,
        [
            f"{imports}\n\nCALLERS = 40",
            'claim("a bottle holds more than a lake", 1 > 2)',
            'predict("03.global_lock")',
            "rate = 1\nraet + 1",
            'print("never reached")',
        ],
    )

    assert status == 1
    assert "cell 2 of 5 (cell-1): a claim does not hold: a bottle holds" in said
    assert "cell 4 of 5 (cell-3): NameError" in said


def test_a_question_that_is_never_compared_is_named(tmp_path):
    said, status = validated(tmp_path, ["from kvstore.course import predict", 'predict("01.mix")'])

    assert (1, True) == (status, 'predict("01.mix") is never compared' in said), said


def test_an_unknown_question_says_how_to_make_one():
    with pytest.raises(LookupError, match="`ask` makes a new one"):
        questions.registered("17.unknown")
    with pytest.raises(ValueError, match="choose another name"):
        questions.ask(questions.predictions_of("01")[0].id, "How many?")


def test_a_class_finds_the_questions_of_a_notebook(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    cells = [new_code_cell(each) for each in cells_below("Write a lesson")]
    nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks" / "17_mine.ipynb")
    monkeypatch.setattr(in_class, "ROOT", tmp_path)

    (question,) = in_class.catalogue(["17"])["questions"]

    assert question["id"] == "17.my_lock"
    assert "one lock: how many calls per second?" in question["text"]
