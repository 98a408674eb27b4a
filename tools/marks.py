"""Write the exercises as assignments for nbgrader or Otter: `course.py build nbgrader|otter`.

Each lesson with exercises becomes one assignment: its imports, its tasks, and a cell for each
answer, which the course's own judge marks from its source. Runs and predictions are not in it, so a
class is marked in minutes. docs/a_class.md says how, and what a mark is worth.
"""

import ast
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools import pages

POINTS: Final = 10
"""For each exercise: all or nothing, because an answer is right for every input or it is not."""
COURSE_ID: Final = "rpc-throughput"

_CONFIG: Final = f'''\
"""Settings of nbgrader for this folder; `nbgrader quickstart` is not needed."""

from nbgrader.converters import Autograde
from nbgrader.preprocessors import Execute, NbGraderPreprocessor

from kvstore.course import marking

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "{COURSE_ID}"
c.ClearSolutions.code_stub = {{"python": "# Write your answer above this line."}}


class Judged(NbGraderPreprocessor):
    """In place of executing a notebook in a kernel: judge the source of its answers."""

    def preprocess(self, notebook, resources):
        marking.fill_in(notebook)
        return notebook, resources


steps = Autograde.autograde_preprocessors.default_args[0]
c.Autograde.autograde_preprocessors = [Judged if each is Execute else each for each in steps]
'''

_OTTER_TEST: Final = """\
from otter.test_files import test_case

OK_FORMAT = False

name = "{name}"
points = {points}


@test_case(points={points})
def test_{name}(env):
    from kvstore.course.checks import marks

    assert marks("{exercise_id}", env.get("{variable}"), 1) == 1
"""


@dataclass(frozen=True)
class Task:
    """One exercise of a lesson: what it asks, the cell for the answer, and the variable judged."""

    exercise_id: str
    words: str
    stub: str
    variable: str

    @property
    def name(self) -> str:
        """The name without the lesson."""
        return self.exercise_id.partition(".")[2]


def tasks(notebook: NotebookNode) -> list[Task]:
    """Return the exercises of a lesson in order.

    ValueError if the cell of an answer cannot be found.
    """
    in_order = []
    for place, cell in enumerate(notebook.cells):
        for exercise_id, variable in _checks(cell):
            above = list(notebook.cells[: place + 1])  # the check may stand in the cell of the stub
            stubs = [i for i, each in enumerate(above) if _is_stub(each, variable)]
            if not stubs:
                raise ValueError(f"{exercise_id}: no cell above has {variable} to be written")
            words = [each.source for each in above[: stubs[-1]] if each.cell_type == "markdown"]
            stub = _only_stub(above[stubs[-1]].source)
            in_order.append(Task(exercise_id, words[-1], stub, variable))
    return in_order


def _checks(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """The exercise and the variable of each `check("03.bounded", bounded)` in a cell."""
    if not pages.checked_in(cell):
        return
    for node in ast.parse(cell.source).body:
        match node:
            case ast.Expr(
                ast.Call(
                    ast.Name("check"), [ast.Constant(str() as exercise_id), ast.Name(variable)]
                )
            ):
                yield exercise_id, variable


def _only_stub(source: str) -> str:
    """The cell without what uses the answer, such as its check and the run that it goes into."""
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        stub = isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef)
        stub = stub or "NOT_ATTEMPTED" in ast.unparse(node)
        if not stub:
            del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines).strip()


def _is_stub(cell: NotebookNode, variable: str) -> bool:
    """Return whether the answer is written in this cell: a function, or a class to be changed."""
    if cell.cell_type != "code":
        return False
    tree = ast.parse(cell.source) if "await" not in cell.source else ast.Module([], [])
    if any(isinstance(each, ast.ClassDef) and each.name == variable for each in tree.body):
        return True
    if "NOT_ATTEMPTED" not in cell.source:
        return False
    tree = ast.parse(cell.source)
    names = [getattr(each, "name", "") for each in tree.body]
    names += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return variable in names


def imports(notebook: NotebookNode) -> str:
    """Return the import lines of all cells of a lesson, each once; of the course only the stub's.

    What an answer needs is not there: a mark is given where nothing of it can be imported.
    """
    lines: dict[str, None] = {"from kvstore.course import NOT_ATTEMPTED": None}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            body = ast.parse(cell.source).body if "await" not in cell.source else []
            statements = [
                ast.unparse(n) for n in body if isinstance(n, ast.Import | ast.ImportFrom)
            ]
            lines |= dict.fromkeys(each for each in statements if "kvstore.course" not in each)
    return "\n".join(lines)


def _opening(notebook: NotebookNode) -> list[NotebookNode]:
    words = f"# Exercises of lesson {pages.title(notebook)}\n\nWrite each answer in place of "
    words += "`NOT_ATTEMPTED`. Do not change the names of functions and variables."
    return [
        new_markdown_cell(words, id="title"),
        new_code_cell(imports(notebook), id="imports"),
    ]


def _sheet(cells: Sequence[NotebookNode]) -> NotebookNode:
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    sheet: NotebookNode = new_notebook(cells=list(cells), metadata={"kernelspec": kernel})
    return sheet


def _id(kind: str, task: Task) -> str:
    return f"{kind}-{task.name.replace('_', '-')}"[:64]


def for_nbgrader(lesson: Path, out: Path) -> int:
    """Write `source/NAME/NAME.ipynb` and the settings into `out`; return the points.

    The source holds the reference answers between nbgrader's marks for solutions, which
    `nbgrader generate_assignment` takes out.
    """
    notebook = nbformat.read(lesson, as_version=4)
    exercises = tasks(notebook)
    if not exercises:
        return 0
    cells = _opening(notebook)
    for task in exercises:
        answer = (
            f"{task.stub}\n\n### BEGIN SOLUTION\nfrom kvstore.course.exercises import find\n\n"
            f'{task.variable} = find("{task.exercise_id}").reference\n### END SOLUTION'
        )
        judge = (
            "from kvstore.course.checks import marks\n\n"
            f'marks("{task.exercise_id}", {task.variable}, {POINTS})'
        )
        cells += [
            new_markdown_cell(task.words, id=_id("task", task)),
            new_code_cell(answer, id=_id("answer", task), metadata=_nbgrader(task, "answer")),
            new_code_cell(judge, id=_id("check", task), metadata=_nbgrader(task, "check")),
        ]
    place = out / "source" / lesson.stem / lesson.name
    place.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(_sheet(cells), place)
    (out / "nbgrader_config.py").write_text(_CONFIG, "utf-8")
    return POINTS * len(exercises)


def _nbgrader(task: Task, kind: str) -> dict[str, Any]:
    """The metadata of nbgrader 0.9 for a cell: its schema version is 3."""
    judges = kind == "check"
    facts: dict[str, Any] = {
        "schema_version": 3,
        "grade_id": _id(kind, task),
        "grade": judges,
        "solution": not judges,
        "locked": judges,
        "task": False,
    }
    return {"nbgrader": {**facts, **({"points": POINTS} if judges else {})}}


def for_otter(lesson: Path, out: Path) -> int:
    """Write the student's notebook, its tests and the settings into `out/NAME`; return the points.

    `otter generate -t tests -c otter_config.json` in that folder makes the archive for Otter.
    """
    notebook = nbformat.read(lesson, as_version=4)
    exercises = tasks(notebook)
    if not exercises:
        return 0
    folder = out / lesson.stem
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tests").mkdir(parents=True)
    start = f'import otter\n\ngrader = otter.Notebook("{lesson.name}")'
    cells = [*_opening(notebook), new_code_cell(start, id="otter")]
    for task in exercises:
        cells += [
            new_markdown_cell(task.words, id=_id("task", task)),
            new_code_cell(task.stub, id=_id("answer", task)),
            new_code_cell(f'grader.check("{task.name}")', id=_id("check", task)),
        ]
        test = _OTTER_TEST.format(
            name=task.name, points=POINTS, exercise_id=task.exercise_id, variable=task.variable
        )
        (folder / "tests" / f"{task.name}.py").write_text(test, "utf-8")
    sheet = _sheet(cells)
    sheet.metadata["otter"] = {"assignment_name": lesson.stem}
    nbformat.write(sheet, folder / lesson.name)
    tests = {
        task.name: {
            "exercise": task.exercise_id,
            "variable": task.variable,
            "cell": _id("answer", task),
            "points": POINTS,
        }
        for task in exercises
    }
    settings = {"assignment_name": lesson.stem, "lang": "python", "print_summary": False}
    settings["plugins"] = [{"kvstore.course.marking.Otter": tests}]
    (folder / "otter_config.json").write_text(json.dumps(settings, indent=1), "utf-8")
    return POINTS * len(exercises)
