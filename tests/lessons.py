"""The code cells of the lessons, and what each needs of those above it."""

import ast
import builtins
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from tools.run_notebooks import lessons_in

NOTEBOOKS = lessons_in(Path(__file__).parent.parent / "notebooks")
"""The core lessons, then the further ones."""
STARTS = {
    "probing", "served", "serving", "serving_go", "serving_replicas",
    "serving_sharded",
}  # fmt: skip
"""A cell that names one of these runs a server."""


def long_but_for(quick: str, cases):
    """The cases of a test, paths or names of lessons: all but the quick one are long tests."""
    named = {getattr(case, "stem", case): case for case in cases}
    return [
        pytest.param(case, id=name, marks=() if name == quick else pytest.mark.long)
        for name, case in named.items()
    ]


@dataclass(frozen=True)
class Cell:
    """One code cell of a lesson."""

    id: str
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        """The cell as Python; a notebook may `await` outside of functions."""
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return compile(self.source, self.id, "exec", flags)

    @cached_property
    def makes(self) -> set[str]:
        """Names that are there once it has run."""
        return self.names_made()

    def names_made(self, *, imported: bool = True) -> set[str]:
        """Names that this cell binds; with or without those that it imports."""
        return {
            name
            for node in ast.walk(self.tree)
            for name in (
                [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                else [node.name] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                else [(each.asname or each.name).split(".")[0] for each in node.names]
                if imported and isinstance(node, ast.Import | ast.ImportFrom)
                else []
            )
        }  # fmt: skip

    @cached_property
    def uses(self) -> set[str]:
        """Names that it reads, but for Python's own."""
        return {
            node.id
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        } - set(dir(builtins))

    @property
    def serves(self) -> bool:
        """Whether running it starts a server, rather than only defining a function that would."""
        run = (line for line in self.tree.body if not isinstance(line, ast.FunctionDef))
        named = {n.id for line in run for n in ast.walk(line) if isinstance(n, ast.Name)}
        return bool(named & STARTS)

    @property
    def needs(self) -> set[str]:
        """Names that somebody has to make for it: `with ... as server` it does itself."""
        return self.uses - self.makes

    @property
    def lasts(self) -> bool:
        """Whether it starts a server and sends to it for a time that it sets."""
        words = {k.arg for n in ast.walk(self.tree) if isinstance(n, ast.Call) for k in n.keywords}
        return self.serves and "duration_s" in words


def cells_of(path: Path) -> list[Cell]:
    """The code cells of a notebook, in order."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [Cell(c["id"], "".join(c["source"])) for c in cells if c["cell_type"] == "code"]


def needed_for(cells: list[Cell], place: int) -> list[Cell]:
    """The cells above this one that make what it uses, and what those use, in order."""
    wanted, found = cells[place].needs, []
    for cell in reversed(cells[:place]):
        if cell.makes & wanted:
            found.append(cell)
            wanted = (wanted - cell.makes) | cell.needs
    return found[::-1]


def texts_of(done) -> str:
    """What a lesson shows below its cells, the text alternatives of its pictures as well."""
    outputs = [
        output
        for cell in done.notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    alternatives = [
        output.get("metadata", {}).get("image/png", {}).get("alt", "") for output in outputs
    ]
    texts = [each.get("data", {}).get("text/plain", "") or each.get("text", "") for each in outputs]
    return "\n".join([*texts, *alternatives])
