"""What a lesson does in its kernel: its symbols, and in the recorded mode its recorded runs.

With COURSE_MODE=recorded a lesson runs to its end without a server, for a machine that may start no
programs, a tablet on a shared hub, or a projector. A cell that measured when the recording was made
is not executed: its outputs appear under a label that names their machine, and its variables get
the recorded values. All other cells run as ever, so predictions, tables and figures work.

`python3 course.py build recordings` makes the recordings, one archive for each lesson in
`recordings/`: see `tools/record.py`. A cell is found by its code without comments and layout, so a
cell that was changed runs on this machine, and says so. A line that needs what no file can hold,
such as an open service, is left out, and says so.
"""

import ast
import hashlib
import json
import os
import re
import sys
import tarfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from IPython.core.getipython import get_ipython
from IPython.core.inputtransformer2 import TransformerManager
from IPython.display import display

from kvstore.client import workload
from kvstore.course import messages, mode, progress, rendering
from kvstore.course.checks import check, hint, solution
from kvstore.course.comparisons import compare
from kvstore.course.lessons import LESSONS
from kvstore.course.predictions import again, predict, quiz
from kvstore.course.recorded_values import dumped, loaded

GLOSSARY: Final = messages.NOTEBOOKS.parent / "docs" / "glossary.md"


RECOMMENDED: Final = {
    **{f.__name__: f for f in (again, check, compare, hint, predict, quiz, solution)},
    "workload": workload,
}
"""What messages recommend to call."""


def lesson(name: str) -> None:
    """Show the symbol sheet, folded; a missing name is answered with the cell to run first.

    In the recorded mode, the cells after this one show recorded
    runs. It also makes the functions that messages recommend (`RECOMMENDED`) available in the
    notebook, unless a cell has given the name to something else. `name` is that of the notebook or
    its beginning: "03" is the core lesson 03, "03_hot_keys" a further one. Raises LookupError
    when the name fits no notebook, or several.
    """
    notebook = sys._getframe(1).f_globals
    for each, thing in RECOMMENDED.items():
        notebook.setdefault(each, thing)
    messages.install(name)
    path = messages.notebook_of(name)
    if get_ipython() is not None and path is not None:
        _show_symbols(path.stem[:2])
        begin(path.stem, [cell.source for cell in messages.cells_of(path)])


def _show_symbols(number: str) -> None:
    """Show the symbols that this lesson and those before it use, from the glossary, if it is here.

    `number` is the lesson's, such as "03"; a lesson of a teacher's own shows all symbols.
    """
    if not GLOSSARY.is_file():
        return
    row = r"^\| (\S+) \| ([^|]+) \| (\S+) \| (\d\d) \|$"
    known = list(LESSONS)
    if number in known:
        known = known[: known.index(number) + 1]
    rows = [
        [symbol.replace("\\", ""), *others]
        for symbol, *others, first in re.findall(row, GLOSSARY.read_text("utf-8"), re.MULTILINE)
        if first in known
    ]
    sheet = rendering.table(["symbol", "quantity", "unit"], rows)
    rendering.show(
        {
            "text/plain": "Symbols: " + ", ".join(f"{row[0]} {row[1]}" for row in rows),
            "text/html": f"<details><summary>Symbols</summary>{sheet}</details>",
        }
    )


# ---- recorded mode ------------------------------------------------------------------------------


FOLDER: Final = Path(__file__).resolve().parents[2] / "recordings"
RECORD_TO: Final = "COURSE_RECORD_TO"
"""The environment variable that names the folder into which a kernel records."""
MANIFEST: Final = "manifest.json"
SUFFIX: Final = ".tar.xz"


def begin(lesson: str, originals: Sequence[str]) -> None:
    """Replay or record the cells after this one, if the environment says so; else do nothing.

    `lesson` is the name of the notebook, and `originals` has the code of its cells.
    """
    shell = get_ipython()
    if shell is None:
        return
    if folder := os.environ.get(RECORD_TO):
        _Recording(shell, Path(folder)).begin()
    elif mode.name() == "recorded":
        replay = _Replay(shell, lesson, originals)
        shell.input_transformers_post[:] = [replay]
        replay.say()


def digest(source: str) -> str:
    """Return a name for the code of a cell, the same for another layout and other comments.

    It is the same in each version of Python, as `ast.dump` is not. Raises SyntaxError.
    """
    return hashlib.sha256(_written(_parsed(source)).encode()).hexdigest()[:16]


def _written(part: object) -> str:
    """A part of the syntax tree as text, without the fields that are not set."""
    if isinstance(part, list):
        return f"[{', '.join(map(_written, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = [(name, value) for name, value in ast.iter_fields(part) if value not in (None, [])]
    return f"{type(part).__name__}({', '.join(f'{n}={_written(v)}' for n, v in fields)})"


def parts(archive: Path) -> dict[str, bytes]:
    """Return the files in a recording. They are compressed together: cells share runs."""
    with tarfile.open(archive) as opened:
        files = ((each.name, opened.extractfile(each)) for each in opened)
        return {name: file.read() for name, file in files if file}


# ---- replaying ----------------------------------------------------------------------------------


class _Replay:
    """Gives IPython another cell in place of one that was recorded."""

    def __init__(self, shell: Any, lesson: str, originals: Sequence[str]) -> None:
        self._shell, self._originals = shell, originals
        archive = FOLDER / f"{lesson}{SUFFIX}"
        self._cells: Mapping[str, Any] = {}
        self._made: Mapping[str, str] = {}
        self._lost: set[str] = set()
        """Variables that were set where the runs were made, and that a recording cannot hold."""
        if archive.is_file():
            self._parts = parts(archive)
            manifest = json.loads(self._parts[MANIFEST])
            self._cells, self._made = manifest["cells"], manifest["made"]
        shell.user_ns.update(__replay__=self.show, __left_out__=_label)

    def say(self) -> None:
        """Show at the beginning of the lesson what this mode does."""
        if self._cells:
            text = f"Recorded mode: no run is made on this machine. The runs are from {self._from}."
        elif self._made:
            text = "Recorded mode: this lesson makes no run."
        else:
            text = (
                f"Recorded mode: no recording of this lesson is in {FOLDER.name}/, so its cells "
                "run on this machine. `python3 course.py build recordings` makes one."
            )
        _label(text)

    @property
    def _from(self) -> str:
        return f"{self._made['made_at'][:10]}, on {self._made['machine']}"

    def __call__(self, lines: list[str]) -> list[str]:
        source = "".join(lines)
        try:
            name = digest(source)
        except SyntaxError:
            return lines
        if name in self._cells:
            self._lost |= _variables_set(_parsed(source)) - set(self._cells[name]["names"])
            return [self._still_executed(source, name)]
        if self._replaces(source, name):
            return ["__replay__(None)\n", *lines]
        return self._without_lost(lines)

    def _still_executed(self, source: str, name: str) -> str:
        """Return the code in place of a recorded cell: definitions, the replay, comparisons."""
        body, nowhere = _parsed(source).body, self._nowhere()
        before = [each for each in body if isinstance(each, _DEFINES)]
        after = [each for each in body if isinstance(each, ast.Expr) and "compare" in _calls(each)]
        after = [each for each in after if not _needs(each) & nowhere]
        replay = ast.parse(f"__replay__({name!r})").body
        return ast.unparse(ast.Module([*before, *replay, *after], [])) + "\n"

    def _without_lost(self, lines: list[str]) -> list[str]:
        """Return the code of a cell without the statements that need a lost variable."""
        body, nowhere = _parsed("".join(lines)).body, self._nowhere()
        kept: list[ast.stmt] = []
        for each in body:
            if lost := sorted(_needs(each) & nowhere):
                nowhere |= _variables_set(each)
                self._lost |= _variables_set(each)
                said = f"`{lost[0]}` exists only where the runs are made. Left out: "
                said += f"`{ast.unparse(each).splitlines()[0]}`"
                kept += ast.parse(f"__left_out__({said!r})").body
            else:
                nowhere -= _variables_set(each)
                kept.append(each)
        return lines if kept == body else [ast.unparse(ast.Module(kept, [])) + "\n"]

    def _nowhere(self) -> set[str]:
        return {name for name in self._lost if name not in self._shell.user_ns}

    def _replaces(self, source: str, name: str) -> bool:
        """Whether a cell that the lesson does not have sets a variable of a recorded one."""
        recorded = {each for cell in self._cells.values() for each in cell["names"]}
        if not _variables_set(_parsed(source)) & recorded:
            return False
        cells = TransformerManager()  # type: ignore[no-untyped-call]
        return name not in {digest(cells.transform_cell(each)) for each in self._originals}

    def show(self, name: str | None) -> None:
        """Show the outputs of a recorded cell and set its variables; None for a changed cell."""
        if name is None:
            _label("This cell was changed, so it runs on this machine: its result is not recorded.")
            return
        cell = self._cells[name]
        values = loaded(self._parts[cell["values"]])
        outputs = json.loads(self._parts[cell["outputs"]])
        for question_id in cell["closes"]:
            progress.close(question_id)
        self._shell.user_ns.update(values)
        _label(f"Recorded run, not of this machine: {self._from}.")
        for output in outputs:
            if output["output_type"] == "stream":
                print(output["text"], end="", file=getattr(sys, output["name"]))
            else:
                display(output["data"], raw=True, metadata=output["metadata"])  # type: ignore[no-untyped-call]


_DEFINES: Final = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
)  # fmt: skip


def _variables_set(tree: ast.AST) -> set[str]:
    """The variables that some code sets."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _needs(statement: ast.stmt) -> set[str]:
    """The variables that a statement reads and does not set; a definition reads none yet."""
    if isinstance(statement, _DEFINES):
        return set()
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    read = {name.id for name in names if isinstance(name.ctx, ast.Load)}
    return read - _variables_set(statement)


def _label(text: str) -> None:
    rendering.show(
        {
            "text/plain": f"▶ {text}",
            "text/html": f'<p style="border-left: 6px solid #E69F00; padding: 2px 8px">'
            f"<b>▶</b> {rendering.inline(text)}</p>",
        }
    )


def _parsed(source: str) -> ast.Module:
    """The code of a cell. Raises SyntaxError."""
    tree = compile(source, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(tree, ast.Module)
    return tree


def _calls(tree: ast.AST) -> set[str]:
    """The plain functions that some code calls."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {call.id for call in calls if isinstance(call, ast.Name)}


# ---- recording ----------------------------------------------------------------------------------


class _Recording:
    """Writes the variables of each cell that measures: one that starts a process or uses gRPC."""

    def __init__(self, shell: Any, folder: Path) -> None:
        self._shell, self._folder = shell, folder
        self._measured = False
        self._closed: list[str] = []
        self._before: dict[str, bytes | None] = {}

    def begin(self) -> None:
        """Watch the cells after this one."""
        sys.addaudithook(self._audit)
        for api in (grpc, grpc.aio):
            for name in ("server", "insecure_channel", "secure_channel"):
                setattr(api, name, self._noticed(getattr(api, name)))
        keep = progress.close

        def close(question_id: str) -> progress.Question:
            self._closed.append(question_id)
            return keep(question_id)

        progress.close = close
        self._shell.events.register("pre_run_cell", self._start)
        self._shell.events.register("post_run_cell", self._end)

    def _audit(self, event: str, _arguments: object) -> None:
        if event in ("subprocess.Popen", "os.posix_spawn", "os.fork"):
            self._measured = True

    def _noticed(self, make: Any) -> Any:
        def made(*arguments: Any, **named: Any) -> Any:
            self._measured = True
            return make(*arguments, **named)

        return made

    def _start(self, info: Any) -> None:
        self._measured, self._closed[:] = False, []
        self._before = {name: self._dumped(name) for name in _names(info.raw_cell)}

    def _dumped(self, name: str) -> bytes | None:
        value = self._shell.user_ns.get(name, self)
        if value is self or isinstance(value, types.ModuleType | types.FunctionType | type):
            return None
        try:
            data = dumped({name: value})
            loaded(data)
        except Exception:
            return None  # such as a server: it means nothing to another process
        return data

    def _end(self, result: Any) -> None:
        if not self._measured or not result.success:
            return
        source = self._shell.transform_cell(result.info.raw_cell)
        after = {name: self._dumped(name) for name in _names(source)}
        changed = [name for name, now in after.items() if now and now != self._before.get(name)]
        values = {name: self._shell.user_ns[name] for name in changed}
        name = digest(source)
        (self._folder / f"{name}.values").write_bytes(dumped(values))
        facts = {"closes": self._closed, "calls": sorted(_calls(_parsed(source))), "names": changed}
        (self._folder / f"{name}.json").write_text(json.dumps(facts), "utf-8")


def _names(source: str) -> set[str]:
    """The variables that a cell names."""
    try:
        tree = _parsed(source)
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
