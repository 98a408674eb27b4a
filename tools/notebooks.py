"""Say which notebooks are not as they are to be committed, or with `--fix` put them right.

As committed, a notebook is valid, carries no outputs, no execution counts and none of what an
editor leaves in the metadata, has an id for each cell that stays when the notebook is saved, and
is laid out in one way. So a change of a lesson shows in a diff as that change and nothing else.
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
KEPT_OF_CELLS = ("tags", "jupyter", "slideshow", "editable", "deletable")
"""Metadata that says what a cell is, not how it was last run or looked at."""

Notebook = dict[str, Any]


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Check or fix all notebooks; the exit status is 1 when something is or stays amiss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fix", action="store_true", help="strip, name and lay out")
    look = fixed if parser.parse_args(arguments).fix else checked
    problems = [
        f"{path.name}: {each}" for path in sorted(folder.glob("*.ipynb")) for each in look(path)
    ]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def checked(path: Path) -> list[str]:
    """What is wrong with one notebook."""
    return list(amiss(path.read_text(encoding="utf-8")))


def fixed(path: Path) -> list[str]:
    """Put one notebook right in place; what is left amiss, a person has to look at."""
    text = path.read_text(encoding="utf-8")
    try:
        tidy = laid_out(stripped(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return list(amiss(text))
    if tidy != text:
        path.write_text(tidy, encoding="utf-8", newline="\n")
    return list(amiss(tidy))


def amiss(text: str) -> Iterator[str]:
    """What is wrong with a notebook of this text, in words; nothing if it can be committed."""
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
        yield "has metadata that running or looking at it left behind"
    elif laid_out(notebook) != text:
        yield "is laid out in another way"


def stripped(notebook: Notebook) -> Notebook:
    """A copy with only what a lesson needs; cells with no id get one that never changes."""
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


def laid_out(notebook: Notebook) -> str:
    """The one text of a notebook: as Jupyter writes it."""
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
