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


def test_a_lesson_is_a_test(tmp_path):
    for name, code in {"right": "1 + 1", "error": "1 / 0", "claim": CLAIM.format(False)}.items():
        cell = nbformat.v4.new_code_cell(code, id="of-this-test")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / f"{name}.ipynb")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", *tmp_path.glob("*.ipynb")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert ended.returncode == 1, ended.stdout
    assert "2 failed, 1 passed" in ended.stdout
    assert "cell 1 of 1 (of-this-test): ZeroDivisionError: division by zero" in ended.stdout
    assert "a claim does not hold: x is small" in ended.stdout
