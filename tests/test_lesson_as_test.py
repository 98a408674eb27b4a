"""`pytest a_lesson.ipynb`: what is wrong is said in one line, with its cell."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
CLAIM = "from kvstore.course import claim\nclaim('x is small', {})"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("1 + 1", 0, "1 passed"),
        ("1 / 0", 1, "cell 1 of 1 (of-this-test): ZeroDivisionError: division by zero"),
        (CLAIM.format(False), 1, "a claim does not hold: x is small"),
    ],
)
def test_a_lesson_is_a_test(code, status, said, tmp_path):
    cell = nbformat.v4.new_code_cell(code, id="of-this-test")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "a_lesson.ipynb")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", tmp_path / "a_lesson.ipynb"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert ended.returncode == status, ended.stdout
    assert said in ended.stdout
