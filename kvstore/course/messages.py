"""One line in place of a traceback: a name that is missing, ■, a call that was written wrongly.

`install` is called when the course is imported. An error of the learner's own code, and one of the
course that is no message, keep their traceback.
"""

import ast
import asyncio
import dis
import inspect
import json
import linecache
import os
import re
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import TracebackType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from IPython.core.getipython import get_ipython
from IPython.core.inputtransformer2 import TransformerManager

from kvstore import numbers

NOTEBOOKS: Final = Path(__file__).resolve().parents[2] / "notebooks"
_PACKAGE: Final = str(Path(__file__).resolve().parents[1])


@dataclass(frozen=True)
class Cell:
    """A code cell of the original notebook; `number` counts the code cells from 1."""

    id: str
    number: int
    source: str
    heading: str
    folded: bool = False

    @cached_property
    def binds(self) -> frozenset[str]:
        """The names that exist once the cell was run."""
        python = TransformerManager().transform_cell(self.source)  # type: ignore[no-untyped-call]
        try:
            code = compile(python, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError:
            return frozenset()  # such as a cell of another language
        instructions = dis.get_instructions(code)
        return frozenset(each.argval for each in instructions if each.opname == "STORE_NAME")


def notebook_of(name: str, folder: Path = NOTEBOOKS) -> Path | None:
    """The original notebook with this name, or with the only one that begins so."""
    if not isinstance(name, str):
        raise TypeError(f'write the name of the lesson in quotes, such as "03", got {name!r}')
    if not folder.is_dir():
        return None
    start = Path(name).name.removesuffix(".ipynb")
    for place in (folder, folder / "further"):
        fitting = sorted(place.glob(f"{start}*.ipynb"))
        exact = [path for path in fitting if path.stem == start]
        if len(exact or fitting) == 1:
            return (exact or fitting)[0]
        if fitting:
            break
    raise LookupError(
        f"{name!r} fits {len(fitting)} notebooks: write the number of a core lesson, such as '03', "
        "or the whole name of a further one"
    )


def cells_of(path: Path) -> list[Cell]:
    """The code cells of a notebook, each with the heading that it stands under."""
    cells: list[Cell] = []
    heading = ""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            folded = cell["metadata"].get("jupyter", {}).get("source_hidden", False)
            cells.append(Cell(cell["id"], len(cells) + 1, source, heading, folded))
        elif headings := re.findall(r"^#{1,6}\s+(.+?)\s*$", source, flags=re.MULTILINE):
            heading = headings[-1]
    return cells


def answer(name: str, cells: Sequence[Cell], here: Cell | None) -> str | None:
    """Which cell binds the name, in words; None where no cell above `here` does."""
    above = [cell for cell in cells if here is None or cell.number < here.number]
    binding = [cell for cell in above if name in cell.binds]
    if not binding:
        return None
    cell = binding[-1] if here else binding[0]
    same = [each for each in cells if each.heading == cell.heading]
    place = f"code cell {same.index(cell) + 1} of {len(same)} under '{cell.heading}'"
    first_line = cell.source.strip().partition("\n")[0]
    folded = " Its code is folded: click the dots to open it." if cell.folded else ""
    return (
        f"`{name}` is made in {place if cell.heading else f'code cell {cell.number}'}: "
        f"run it first, to its end. It begins with: {first_line}{folded}\n"
        "To run all cells above this one: menu Run, Run All Above Selected Cell."
    )


class _OneLine:
    """What IPython calls for an error, in place of showing the traceback itself."""

    cells: Sequence[Cell] = ()
    """Those of the lesson, once `lesson` has named it."""

    def __call__(
        self,
        shell: Any,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
        tb_offset: int | None = None,
    ) -> list[str] | None:
        """Show one line, or the traceback as ever; return the line."""
        mark, text = "", None
        if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
            mark, text = "Stopped.", _stopped(error)
        elif kind is NameError and _innermost(trace).tb_frame.f_globals is shell.user_ns:
            mark, text = "Not yet:", self._missing(shell, getattr(error, "name", "") or "")
        elif _is_message(error, trace):
            mark, text = f"{kind.__name__}:", str(error)
        elif isinstance(error, TypeError | AttributeError | ValueError):
            mark, text = f"{kind.__name__}:", _wrong_arguments(shell, error, trace)
        if text is None:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
            return None
        lines = [f"\x1b[1m{mark}\x1b[0m {text}"]
        shell._showtraceback(kind, error, lines)
        return lines

    def _missing(self, shell: Any, name: str) -> str | None:
        kernel = getattr(shell, "kernel", None)  # plain IPython has none
        message = kernel.get_parent("shell") if kernel else {}
        here = message.get("metadata", {}).get("cellId")
        source = str(shell.user_ns.get("In", [""])[-1]).strip()
        cells = self.cells or _cells_around(source)
        by_id = [cell for cell in cells if cell.id == here]
        by_source = [cell for cell in cells if cell.source.strip() == source]
        return answer(name, cells, next(iter(by_source or by_id), None))


_handler: Final = _OneLine()


def install(name: str = "") -> None:
    """Show one line for errors of the kinds above; `name` is the notebook, where it is known.

    Nothing happens outside IPython. LookupError when the name fits no notebook, or several.
    """
    shell = get_ipython()
    path = notebook_of(name) if name else None
    if path is not None:
        _handler.cells = cells_of(path)
    if shell is not None:
        kinds = (Exception, KeyboardInterrupt, asyncio.CancelledError)
        shell.set_custom_exc(kinds, _handler)  # type: ignore[no-untyped-call]
        _wake_for_signals()


@cache
def _wake_for_signals() -> tuple[socket.socket, ...]:
    """Let a signal wake the kernel's event loop, so that ■ stops a cell that awaits, at once.

    ipykernel's handler only asks the loop to cancel the cell, and Python sleeps on after a handler:
    the loop would see it with its next event, such as the end of the sleep.
    """
    try:
        loop = asyncio.get_running_loop()
        woken, wakes = socket.socketpair()
        woken.setblocking(False)
        wakes.setblocking(False)
        loop.add_reader(woken, woken.recv, 4096)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    except (RuntimeError, NotImplementedError, ValueError):
        return ()  # no loop, one that cannot wait for sockets, or not the main thread
    return woken, wakes


def _cells_around(source: str) -> list[Cell]:
    """The cells of the notebook that has this cell, where no cell has named the lesson yet."""
    named = os.environ.get("JPY_SESSION_NAME", "")  # set by Jupyter for each kernel
    for path in sorted(NOTEBOOKS.rglob("*.ipynb")):
        if named and path.name != Path(named).name:
            continue
        cells = cells_of(path)
        if any(cell.source.strip() == source for cell in cells) or named:
            return cells
    return []


def _stopped(error: BaseException) -> str:
    run = getattr(error, "run", None)  # of RunInterrupted, whose module loads gRPC
    if run is None:
        return "Nothing of this cell goes on; run it again when you like."
    calls = numbers.count(len(run.records), "call")
    return (
        f"The run ended after {numbers.seconds(run.window_s)} with {calls}, every one accounted "
        "for. Run the cell again for a whole run."
    )


def _innermost(trace: TracebackType | None) -> TracebackType:
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _is_message(error: BaseException, trace: TracebackType | None) -> bool:
    """Whether the course raised it with a text for the learner, and not the learner's own code."""
    if trace is None or not str(error) or not _in_course(trace, raised=True):
        return False
    cause = error.__cause__
    return cause is None or cause.__traceback__ is None or _in_course(cause.__traceback__)


def _in_course(trace: TracebackType, *, raised: bool = False) -> bool:
    """Whether the innermost line is of the package; if `raised`, whether it is a `raise` there."""
    last = _innermost(trace)
    if not last.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        return False
    instructions = {i.offset: i.opname for i in dis.get_instructions(last.tb_frame.f_code)}
    return not raised or instructions.get(last.tb_lasti) == "RAISE_VARARGS"


def _wrong_arguments(shell: Any, error: Exception, trace: TracebackType | None) -> str | None:
    """What a function of the course takes; None if the learner's call of one has what it takes."""
    learner_steps = [step for step in _steps(trace) if step.tb_frame.f_globals is shell.user_ns]
    call = _call(learner_steps[-1]) if learner_steps else None
    function = _of_course(call, learner_steps[-1]) if call else None
    if call is None or function is None:
        return None
    name = ast.unparse(call.func)
    made_by = inspect.getattr_static(function, "__init__")
    plain = inspect.unwrap(made_by if inspect.isclass(function) else function)
    code = getattr(plain, "__code__", None)
    inside = [step.tb_frame for step in _steps(learner_steps[-1]) if step.tb_frame.f_code is code]
    if misfit := _misfit(plain, inside[0].f_locals) if inside else "":
        return f"{name}() {misfit}. To read what it takes, run: {name}?"
    refused = re.match(r"([\w.<>]+)\(\) (?:missing|takes|got) ", str(error))
    if refused is None:
        return None
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    called = {function.__qualname__, f"{function.__qualname__}.__init__"}
    if refused[1] not in called and not (unknown and unknown[1] in {k.arg for k in call.keywords}):
        return None
    return f"{error}. Write {name}{_parameters(function)}. To read what it takes, run: {name}?"


def _steps(trace: TracebackType | None) -> list[TracebackType]:
    steps = []
    while trace is not None:
        steps.append(trace)
        trace = trace.tb_next
    return steps


def _call(step: TracebackType) -> ast.Call | None:
    """The call in the source of a cell that this step of a traceback is in."""
    code = step.tb_frame.f_code
    source = "".join(linecache.getlines(code.co_filename))
    tree = compile(source, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    first, last, column, end = list(code.co_positions())[step.tb_lasti // 2]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (
            (node.lineno, node.end_lineno) == (first, last)
            and (node.col_offset, node.end_col_offset) == (column, end)
        ):
            return node
    return None


def _of_course(call: ast.Call, step: TracebackType) -> Any:
    """The function or class of the package that is called by its name; None if it is another."""
    frame = step.tb_frame
    names = ast.unparse(call.func).split(".")
    target = {**frame.f_globals, **frame.f_locals}.get(names[0])
    for each in names[1:]:
        target = getattr(target, each, None)
    module = getattr(target, "__module__", None) or ""
    return target if callable(target) and module.partition(".")[0] == "kvstore" else None


def _misfit(function: Any, values: Mapping[str, Any]) -> str:
    """The argument that is not of its annotated type, in words; "" if all are."""
    hints = get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in hints or name not in values:
            continue
        arguments = [values[name]]
        if parameter.kind is parameter.VAR_POSITIONAL:
            arguments = list(values[name])
        elif parameter.kind is parameter.VAR_KEYWORD:
            arguments = list(values[name].values())
        for value in arguments:
            if not _fits(value, hints[name]):
                kind = re.sub(r"\b[\w.]+\.(?=\w)", "", inspect.formatannotation(hints[name]))
                return f"takes {kind} as {name}, got {value!r:.80}"
    return ""


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value can be of an annotated type; True where that cannot be decided."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    kind = get_origin(hint) or hint
    try:
        return isinstance(value, (int, float) if kind is float else kind)
    except TypeError:  # such as Any, or a protocol
        return True


def _parameters(function: Any) -> str:
    signature = inspect.signature(function)
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
