"""A NameError in a lesson, answered with the cell that has to be run first."""

import dis
import json
import re
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from IPython.core.getipython import get_ipython
from IPython.core.inputtransformer2 import TransformerManager

from kvstore import course
from kvstore.client import workload
from kvstore.course import recorded, rendering

NOTEBOOKS: Final = Path(__file__).resolve().parents[2] / "notebooks"
GLOSSARY: Final = NOTEBOOKS.parent / "docs" / "glossary.md"


@dataclass(frozen=True)
class Cell:
    """A code cell of the original notebook; `number` counts the code cells from 1."""

    id: str
    number: int
    source: str
    heading: str

    @cached_property
    def binds(self) -> frozenset[str]:
        """The names that exist once the cell was run."""
        python = TransformerManager().transform_cell(self.source)  # type: ignore[no-untyped-call]
        try:
            code = compile(python, "cell", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError:
            return frozenset()  # such as a cell of another language
        made = dis.get_instructions(code)
        return frozenset(each.argval for each in made if each.opname == "STORE_NAME")


RECOMMENDED: Final = ("again", "check", "compare", "hint", "predict", "quiz", "solution")
"""Functions that messages recommend to call; one more message names the module `workload`."""


def lesson(name: str) -> None:
    """Make a NameError say which cell of this lesson has to be run first.

    It shows the symbol sheet, folded. In the recorded mode, the cells after this one show recorded
    runs. It also makes the functions that messages recommend (`RECOMMENDED`) available in the
    notebook, unless a cell has given the name to something else. `name` is that of the notebook or
    its beginning: "03" is the core lesson 03, "03_hot_keys" a further one. Outside IPython, and
    where the original notebooks are not at hand, a NameError stays as it is. Raises LookupError
    when the name fits no notebook, or several.
    """
    notebook = sys._getframe(1).f_globals
    for function in RECOMMENDED:
        notebook.setdefault(function, getattr(course, function))
    notebook.setdefault("workload", workload)
    shell = get_ipython()
    path = notebook_of(name)
    if shell is not None and path is not None:
        cells = cells_of(path)
        shell.set_custom_exc((NameError,), _Answer(cells))  # type: ignore[no-untyped-call]
        _show_symbols()
        recorded.begin(path.stem, [cell.source for cell in cells])


def _show_symbols() -> None:
    """Show the symbols of the course, from the glossary; nothing where it is not at hand."""
    if not GLOSSARY.is_file():
        return
    found = re.findall(r"^\| (\S+) \| ([^|]+) \| (\S+) \|$", GLOSSARY.read_text("utf-8"), re.M)
    rows = [[symbol.replace("\\", ""), *others] for symbol, *others in found[2:]]
    sheet = rendering.table(["symbol", "quantity", "unit"], rows)
    rendering.show(
        {
            "text/plain": "Symbols: " + ", ".join(f"{row[0]} {row[1]}" for row in rows),
            "text/html": f"<details><summary>Symbols</summary>{sheet}</details>",
        }
    )


def notebook_of(name: str, folder: Path = NOTEBOOKS) -> Path | None:
    """The original notebook with this name, or with the only one that begins so."""
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
    found: list[Cell] = []
    heading = ""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            found.append(Cell(cell["id"], len(found) + 1, source, heading))
        elif headings := re.findall(r"^#{1,6}\s+(.+?)\s*$", source, flags=re.MULTILINE):
            heading = headings[-1]
    return found


def answer(name: str, cells: Sequence[Cell], here: Cell | None) -> str | None:
    """Which cell binds the name, in words; None where no cell above `here` does."""
    above = [cell for cell in cells if here is None or cell.number < here.number]
    binding = [cell for cell in above if name in cell.binds]
    if not binding:
        return None
    cell = binding[-1] if here else binding[0]
    under = f"under '{cell.heading}' " if cell.heading else ""
    first_line = cell.source.strip().partition("\n")[0]
    return (
        f"`{name}` is made in the cell {under}(cell {cell.number}): run it first, to its end.\n"
        f"It begins with: {first_line}\n"
        "To run all cells above this one: menu Run, Run All Above Selected Cell."
    )


class _Answer:
    """What IPython calls for a NameError, in place of showing the traceback itself."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells

    def __call__(
        self,
        shell: Any,
        kind: type[BaseException],
        error: NameError,
        trace: TracebackType,
        tb_offset: int | None = None,
    ) -> list[str] | None:
        """Show the answer, or the traceback as ever; return the lines of the answer."""
        text = None
        if kind is NameError and _raised_in_a_cell(trace, shell.user_ns):
            text = answer(error.name or "", self._cells, self._here(shell))
        if text is None:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
            return None
        lines = [f"\x1b[1mNot yet:\x1b[0m {text}"]
        shell._showtraceback(kind, error, lines)
        return lines

    def _here(self, shell: Any) -> Cell | None:
        """The cell that runs: by its id, where the front end sends it, else by its source."""
        kernel = getattr(shell, "kernel", None)  # plain IPython has none
        message = kernel.get_parent("shell") if kernel else {}
        here = message.get("metadata", {}).get("cellId")
        source = str(shell.user_ns.get("In", [""])[-1]).strip()
        by_id = [cell for cell in self._cells if cell.id == here]
        by_source = [cell for cell in self._cells if cell.source.strip() == source]
        return next(iter(by_id or by_source), None)


def _raised_in_a_cell(trace: TracebackType | None, names: dict[str, Any]) -> bool:
    """Whether the innermost line is of the notebook, and not of a package."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals is names
