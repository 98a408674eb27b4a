"""The first cell of a lesson: its symbols, and the names that messages recommend to call."""

import re
import sys
from typing import Final

from IPython.core.getipython import get_ipython

from kvstore.client import workload
from kvstore.course import messages, rendering
from kvstore.course.checks import check, hint, solution
from kvstore.course.comparisons import compare
from kvstore.course.lessons import LESSONS
from kvstore.course.predictions import again, predict, quiz

GLOSSARY: Final = messages.NOTEBOOKS.parent / "docs" / "glossary.md"

RECOMMENDED: Final = {
    **{f.__name__: f for f in (again, check, compare, hint, predict, quiz, solution)},
    "workload": workload,
}
"""What messages recommend to call."""


def lesson(name: str) -> None:
    """Show the symbol sheet, folded; a missing name is answered with the cell to run first.

    It also makes the functions that messages recommend (`RECOMMENDED`) available in the
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
