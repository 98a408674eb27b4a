"""Check that notebooks are ready to be committed; `--fix` corrects them.

A committed notebook is valid and has no outputs, no execution counts and no metadata of an editor.
Each cell has an id that remains when the notebook is saved, and the JSON has one format. A diff
then shows only the change of the lesson.
"""

import argparse
import copy
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
KEPT_OF_CELLS = (
    "tags",
    "jupyter",
    "slideshow",
    "editable",
    "deletable",
    "jp-MarkdownHeadingCollapsed",
)
"""Metadata that describe a cell, and not how it was last run or viewed."""

Notebook = dict[str, Any]


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Check or fix all notebooks; the exit status is 1 if a problem remains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--fix",
        action="store_true",
        help="remove outputs and metadata, add ids",
    )
    fix, any_problem = parser.parse_args(arguments).fix, False
    for path in sorted(folder.rglob("*.ipynb")):
        if path.parent.name[:1] == ".":
            continue
        problems = fixed(path) if fix else list(problems_of(path.read_text(encoding="utf-8")))
        for problem in problems:
            print(f"{path.relative_to(folder).as_posix()}: {problem}")
            any_problem = True
    return int(any_problem)


def fixed(path: Path) -> list[str]:
    """Fix one notebook in place and return the problems that remain for a person to solve."""
    text = path.read_text(encoding="utf-8")
    try:
        tidy = formatted(stripped(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return list(problems_of(text))
    if tidy != text:
        path.write_text(tidy, encoding="utf-8", newline="\n")
    return list(problems_of(tidy))


def problems_of(text: str) -> Iterator[str]:
    """Yield the problems of a notebook with this text; none if it can be committed."""
    try:
        notebook = json.loads(text)
        ids = [cell.get("id") for cell in notebook["cells"]]
        if (notebook["nbformat"], notebook["nbformat_minor"]) < (4, 5) or None in ids:
            yield "has a cell with no id"
            return
        if len(set(ids)) < len(ids):
            yield "has two cells with the same id"
            return
        nbformat.validate(notebook)
    except (ValueError, KeyError, TypeError, AttributeError, nbformat.ValidationError) as error:
        yield f"is not a valid notebook: {str(error).splitlines()[0]}"
        return
    if any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"]):
        yield "has outputs"
    elif stripped(notebook) != notebook:
        yield "has metadata of a run or an editor"
    elif formatted(notebook) != text:
        yield "is not in the format of Jupyter"


def stripped(notebook: Notebook) -> Notebook:
    """Return a copy with only what a lesson needs; cells without an id get a stable one."""
    bare = copy.deepcopy(notebook)
    bare["metadata"] = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    bare["nbformat"], bare["nbformat_minor"] = 4, 5
    taken = {cell["id"] for cell in bare["cells"] if "id" in cell}
    free = (f"cell-{number:03}" for number in range(1, 1000))
    for cell in bare["cells"]:
        if "id" not in cell:
            cell["id"] = next(name for name in free if name not in taken)
        cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k in KEPT_OF_CELLS}
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        if isinstance(cell["source"], str):
            cell["source"] = cell["source"].splitlines(keepends=True)
    return bare


def formatted(notebook: Notebook) -> str:
    """Return the JSON of a notebook as Jupyter writes it."""
    return f"{nbformat.writes(nbformat.from_dict(notebook))}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
