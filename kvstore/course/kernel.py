"""The first cell of a lesson: its symbols, and the names that messages recommend to call."""

import functools
import math
import re
import sys
import time
from typing import Any, Final, cast

from IPython.core.getipython import get_ipython

from kvstore.client import workload
from kvstore.course import messages, progress, rendering
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
PAUSE_S: Final = 0.5
"""After a pause of so long, a cell was not waiting in a queue, such as that of Run All."""


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
    if (shell := get_ipython()) is not None:
        _notice_a_person(shell)
        _set_look_of_figures()
        shell.events.register("post_execute", _describe_figures)
    if shell is not None and path is not None:
        _show_symbols(path.stem[:2])


def _set_look_of_figures() -> None:
    """Let what the notebook draws with matplotlib itself look like the figures of the course."""
    if "matplotlib" in sys.modules:
        import matplotlib.pyplot as plt

        from kvstore.course.views import style

        plt.rcParams.update(cast("Any", style.IN_A_LESSON))
        plt.switch_backend(
            plt.get_backend()
        )  # loads that of the page: `_describe_figures` needs it
        _describe_figures()


def _describe_figures() -> None:
    """Describe in words what a cell has drawn."""
    if "matplotlib" in sys.modules:
        from kvstore.course import alt_text

        alt_text.attach_alt_text()


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


@functools.cache
def _notice_a_person(shell: Any) -> None:
    """Tell progress when a cell is run by hand: after a pause, from a page that can ask back.

    What executes whole notebooks (nbclient, for nbmake, papermill and nbconvert) cannot answer
    `input()`, and says so with each cell.
    """
    ended_s = math.inf

    def begins(_info: object) -> None:
        content = shell.get_parent().get("content", {}) if hasattr(shell, "kernel") else {}
        if time.monotonic() - ended_s > PAUSE_S and content.get("allow_stdin", True):
            progress.note_typed()

    def ends(_result: object) -> None:
        nonlocal ended_s
        ended_s = time.monotonic()

    shell.events.register("pre_run_cell", begins)
    shell.events.register("post_run_cell", ends)
