"""Marks of answers that were handed in: judged from the source of their cells.

A grader such as nbgrader or Otter executes a notebook in a kernel, and code in a kernel can change
whatever gives the marks there. So no kernel runs these cells. Their source goes to the process of
the judge, `judging`, which began before; only its child for this one answer runs them. In this
child the modules of the course cannot be imported, so neither the right answers nor the judge are
a line away. `mark` has the rest of what it refuses, and what a teacher is told to look at.
"""

import ast
import inspect
import linecache
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nbformat.v4 import new_output

from kvstore.course import judging, my_code
from kvstore.course.exercises import NOT_ATTEMPTED, Verdict, not_yet

COURSE: Final = "kvstore.course"
MODULES: Final = frozenset(
    {"builtins", "ctypes", "gc", "importlib", "inspect", "marshal", "pickle"}
)
"""With these, code finds or changes what it was not given."""
NAMES: Final = frozenset(
    {
        *("exec", "eval", "compile", "open", "globals", "vars", "setattr", "delattr", "__import__"),
        *("__builtins__", "__globals__", "__dict__", "__closure__", "__subclasses__", "__main__"),
        *("_getframe", "_current_frames", "f_back", "f_globals", "f_locals", "modules", "_exit"),
    }
)
COMPARING: Final = frozenset(
    f"__{each}__"
    for each in (
        *("eq", "ne", "lt", "le", "gt", "ge", "bool", "add", "radd", "sub", "rsub", "mul", "rmul"),
        *("truediv", "rtruediv", "abs", "float", "hash", "instancecheck", "reduce"),
    )
)
"""With such a method, an object can be equal to every right answer."""


@dataclass(frozen=True)
class Mark:
    """The verdict on one answer; `remarks` is what a teacher should look at in its source."""

    verdict: Verdict
    remarks: tuple[str, ...] = ()

    def points(self, most: float) -> float:
        """Return all points for a right answer, and 0 for any other."""
        return most if self.verdict.passed else 0.0

    def __str__(self) -> str:
        look = f"\nLook at this answer: it names {', '.join(self.remarks)}." if self.remarks else ""
        return f"{self.verdict}{look}"


def mark(exercise_id: str, variable: str, cells: Sequence[str]) -> Mark:
    """Judge what these cells bind to `variable`; each is the source of a cell, in their order.

    As in a notebook, an error ends its cell and not the next one. An `await` at the top level is
    left out. An answer that sets a name of an imported module is refused: it would change the
    judge. Raise LookupError for an unknown exercise.
    """
    trees = [tree for tree in map(_parsed, cells) if tree is not None]
    remarks = tuple(sorted({each for tree in trees for each in _looked_at(tree)}))
    if changed := sorted({each for tree in trees for each in _changed(trees, tree)}):
        return Mark(
            not_yet(f"it sets `{changed[0]}`: an answer leaves modules as they are"), remarks
        )
    answer = _Source(exercise_id, variable, tuple(cells))
    return Mark(judging.judge(exercise_id, answer), remarks)


def _parsed(cell: str) -> ast.Module | None:
    try:
        return ast.parse(cell)
    except (SyntaxError, ValueError):
        return None


def _looked_at(tree: ast.AST) -> Iterator[str]:
    """What the code names that an answer does not need."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (f"`{each.name}`" for each in names if _is_odd(each.name))
            case ast.ImportFrom(module=str() as module, names=names):
                for_cells = module == COURSE and {each.name for each in names} <= LESSON
                if _is_odd(module) and not for_cells:
                    yield f"`{module}`"
                yield from (f"`{each.name}`" for each in names if each.name in NAMES)
            case ast.Name(name) | ast.Attribute(attr=name) if name in NAMES:
                yield f"`{name}`"
            case ast.FunctionDef(name) if name in COMPARING:
                yield f"`{name}`"


def _is_odd(module: str) -> bool:
    return module.partition(".")[0] in MODULES or f"{module}.".startswith(f"{COURSE}.")


def _changed(trees: Sequence[ast.AST], tree: ast.AST) -> Iterator[str]:
    """The parts of imported modules and classes that the code sets or deletes."""
    imported = {"__builtins__"}
    for node in (node for each in trees for node in ast.walk(each)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {(each.asname or each.name).partition(".")[0] for each in node.names}
    for node in ast.walk(tree):
        target = node
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if (
            isinstance(node, ast.Attribute | ast.Subscript)
            and not isinstance(node.ctx, ast.Load)
            and isinstance(target, ast.Name)
            and target.id in imported
        ):
            yield ast.unparse(node)


@dataclass(frozen=True)
class _Source:
    """An answer that is made where it is judged: unpickled, it is what its cells bind."""

    exercise_id: str
    variable: str
    cells: tuple[str, ...]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _bound, (self.variable, self.cells)


LESSON: Final = frozenset({"NOT_ATTEMPTED", "check", "hint", "solution"})
"""The names that a cell may import from the course; the verbs do nothing here."""


def _bound(variable: str, cells: Sequence[str]) -> Any:
    """Run the cells in this process, and return what they bind to the variable."""
    is_stub = judging._is_stub
    beside = Path(tempfile.mkdtemp())
    my_code.write_without_answers(beside)
    sys.meta_path[:] = [each for each in sys.meta_path if type(each).__module__ != my_code.__name__]
    sys.path.insert(0, str(beside))
    gone = (f"{COURSE}.", f"{my_code.PACKAGE}.")
    for name in [each for each in sys.modules if f"{each}.".startswith(gone)]:
        del sys.modules[name]
    course = types.ModuleType(COURSE)  # no package: nothing can be imported from inside it
    vars(course).update(dict.fromkeys(LESSON, lambda *_: None), NOT_ATTEMPTED=NOT_ATTEMPTED)
    sys.modules[COURSE] = sys.modules["kvstore"].course = course  # type: ignore[attr-defined]
    scope: dict[str, Any] = {"__name__": "__main__"}
    sys.modules["__main__"] = types.ModuleType("__main__")
    failed: BaseException | None = None
    for number, cell in enumerate(cells, start=1):
        try:
            _run(cell, f"<cell {number}>", scope)
        except BaseException as error:  # SystemExit too: the next cell goes on
            failed = error
    if variable not in scope:
        why = failed or NameError(f"no cell binds {variable}")

        def absent(*_: Any, **__: Any) -> None:
            raise RuntimeError(f"{type(why).__name__}: {why}") from None

        return absent
    answer = scope[variable]
    return NOT_ATTEMPTED if is_stub(answer) else answer


def _run(cell: str, file: str, scope: dict[str, Any]) -> None:
    linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
    for statement in ast.parse(cell).body:
        module = ast.Module([statement], [])
        code = compile(module, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if not code.co_flags & inspect.CO_COROUTINE:
            exec(code, scope)


MAGIC: Final = ("%", "!", "?")


def cells_for(notebook: Any, answer_id: str) -> tuple[str, ...]:
    """Return the sources of the cells that make one answer, of a notebook that was handed in.

    These are the code cells without the answers to the other exercises, the checks, and the first
    cell of Otter. Lines for IPython alone are empty.
    """
    kept = []
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", "")
        other = name.startswith(("answer-", "check-")) and name != answer_id
        if cell.cell_type == "code" and not other and name != "otter":
            lines = cell.source.splitlines()
            kept.append("\n".join("" if each[:1] in MAGIC else each for each in lines))
    return tuple(kept)


def fill_in(notebook: Any) -> None:
    """Judge the answers of a notebook of nbgrader; a check's output is the verdict and the mark."""
    for cell in notebook.cells:
        facts = cell.metadata.get("nbgrader", {})
        if not (facts.get("grade") and facts.get("locked")):
            continue
        call = next(n for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Call))
        exercise_id, variable, points = (ast.unparse(each) for each in call.args)
        answer_id = facts["grade_id"].replace("check-", "answer-", 1)
        answer_mark = mark(ast.literal_eval(exercise_id), variable, cells_for(notebook, answer_id))
        points_data = {"text/plain": str(answer_mark.points(float(points)))}
        cell.outputs = [
            new_output("stream", name="stdout", text=f"{answer_mark}\n"),
            new_output("execute_result", data=points_data, execution_count=1),
        ]


class Otter:
    """A plug-in of Otter 7: it marks the source, and gives Otter no code of the student to run.

    `otter_config.json` has for each test the exercise, the variable, the id of the answer's cell
    and the points.
    """

    def __init__(self, _path: str, _facts: Any, tests: Mapping[str, Mapping[str, Any]]) -> None:
        self._tests = tests
        self._marks: dict[str, Mark] = {}

    def before_grading(self, _settings: Any) -> None:
        """Do nothing."""

    def before_execution(self, notebook: Any) -> Any:
        """Judge the answers; return the notebook without code."""
        for name, test in self._tests.items():
            cells = cells_for(notebook, test["cell"])
            self._marks[name] = mark(test["exercise"], test["variable"], cells)
        notebook.cells = []
        return notebook

    def after_grading(self, results: Any) -> None:
        """Set the marks."""
        for name, answer_mark in self._marks.items():
            results.update_score(name, answer_mark.points(self._tests[name]["points"]))

    def generate_report(self) -> str:
        """Return the verdicts."""
        return "\n".join(f"{name}: {answer_mark}" for name, answer_mark in self._marks.items())
