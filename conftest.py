"""For `pytest notebooks/01_blocking.ipynb`: a lesson is a test, executed from top to bottom.

It fails with the cell that raised an error, or with the claims that do not hold. Plain `pytest`
runs tests/ and no lesson. Where nbmake or nbval executes notebooks, this file does nothing;
COURSE_STRICT=1 lets a claim that does not hold fail there, too.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

OTHERS = ("nbmake", "nbval", "nbval_lax")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take a notebook that was named, unless another plugin does."""
    taken = any(parent.config.getoption(each, default=False) for each in OTHERS)
    return (
        None
        if taken or file_path.suffix != ".ipynb"
        else Lesson.from_parent(parent, path=file_path)
    )


class Lesson(pytest.File):
    """A notebook with one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the one test."""
        yield Execution.from_parent(self, name="runs and its claims hold")


class DoesNotRun(Exception):
    """What is wrong in which cell."""


class Execution(pytest.Item):
    """Executes the notebook in the fast mode, or in the one that COURSE_MODE names."""

    def runtest(self) -> None:
        """Raise DoesNotRun with one line for each thing that is wrong."""
        from tools.run_notebooks import execute

        os.environ.setdefault("COURSE_MODE", "fast")
        done = execute(self.path)
        wrong = [done.error] if done.error else list(_never_compared(done.notebook))
        wrong += _claims_that_do_not_hold(done.notebook)
        if wrong:
            raise DoesNotRun("\n".join(wrong))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """Return the lines of DoesNotRun without a traceback."""
        if isinstance(excinfo.value, DoesNotRun):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the notebook, for the head of the failure."""
        return self.path, None, self.path.name


def _claims_that_do_not_hold(notebook: Any) -> Iterator[str]:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, start=1):
        for output in cell.get("outputs", ()):
            claim = output.get("data", {}).get("application/vnd.kvstore.claim+json")
            if claim and not claim["holds"]:
                where = f"cell {number} of {len(cells)} ({cell.id})"
                yield f"{where}: a claim does not hold: {claim['sentence']}"


def _never_compared(notebook: Any) -> Iterator[str]:
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    asked, compared = (
        re.findall(rf"\b{name}\(\s*[\"']([^\"']+)", code) for name in ("predict", "compare")
    )
    for question in dict.fromkeys(asked):
        if question not in compared:
            yield f'predict("{question}") is never compared with a run'
