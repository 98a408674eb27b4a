"""The lessons, their code cells, and what an executed lesson shows."""

import ast
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.run_notebooks import lessons_in

NOTEBOOKS = lessons_in(Path(__file__).parent.parent / "notebooks")
"""The core lessons, then the further ones."""


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


def cells_of(path: Path) -> list[Cell]:
    """The code cells of a notebook, in order."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [Cell(c["id"], "".join(c["source"])) for c in cells if c["cell_type"] == "code"]


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
