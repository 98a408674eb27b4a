"""Executed lessons as pages: with outputs that need no server, alt text, solutions, the machine.

`course.py build site`, `html` and `teacher` show lessons with outputs. They take the copies
that `course.py run` left in `executed/`, and execute a lesson whose copy is missing
or old.
"""

import html
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import nbformat
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

from kvstore import numbers
from kvstore.course import exercises, mode
from kvstore.course.exercises import solutions
from kvstore.course.rendering import fenced
from tools import run_notebooks

WIDGET: Final = "application/vnd.jupyter.widget-view+json"


class NotExecuted(Exception):
    """A lesson ended with an error, so there is no page of it; the message has the error."""


MINUTES: Final = {"core": 0.45, "further": 0.2}
"""What a lesson takes to execute, on average, on two quiet cores in the short mode."""
AS_LONG: Final = {"fast": 0.8, "class": 2.0, "full": 5.0}
"""What a lesson takes in other modes, as a multiple: many runs have a fixed number of calls."""


def executed(lesson: Path, copies: Path = run_notebooks.COPIES) -> NotebookNode:
    """Return the lesson with its outputs: its copy in `copies` if it is current, else a new one.

    Raises NotExecuted if the lesson ends with an error.
    """
    if (notebook := current(lesson, copies)) is not None:
        return notebook
    print(f"{lesson.stem}: executing it, there is no current copy in {copies.name}/", flush=True)
    done = run_notebooks.execute(lesson)
    if done.error:
        raise NotExecuted(f"{lesson.stem}: {done.error}")
    run_notebooks.keep(done, _place(lesson, copies))
    return done.notebook


def current(lesson: Path, copies: Path = run_notebooks.COPIES) -> NotebookNode | None:
    """Return the copy of a lesson that its present cells and package made; None without.

    The runs of the copy are those of the current mode, or longer.
    """
    copy = _place(lesson, copies) / lesson.name
    if not copy.is_file():
        return None
    notebook: NotebookNode = nbformat.read(copy, as_version=4)
    facts = notebook.metadata.get("course", {})
    same = _sources(notebook) == _sources(nbformat.read(lesson, as_version=4))
    same = same and facts.get("code") == run_notebooks.code_version()
    long_enough = facts.get("mode") in mode.or_longer()
    return notebook if same and long_enough and _whole(notebook) else None


def announce(lessons: Sequence[Path]) -> None:
    """Say how many lessons are to be executed, and how long that takes."""
    old = [each for each in lessons if current(each) is None]
    if not old:
        return
    further = sum(map(run_notebooks.is_further, old))
    minutes = MINUTES["further"] * further + MINUTES["core"] * (len(old) - further)
    minutes *= AS_LONG.get(mode.name(), 1.0)
    print(
        f"{len(old)} of {numbers.count(len(lessons), 'lesson')} to execute: about "
        f"{numbers.count(max(1, round(minutes)), 'minute')} on a quiet machine. Ctrl-C stops, and "
        "the next build goes on from there.",
        flush=True,
    )


def _place(lesson: Path, copies: Path) -> Path:
    return copies / run_notebooks.FURTHER if run_notebooks.is_further(lesson) else copies


def _sources(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells]


def outputs(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the outputs of all cells, in order."""
    return [each for cell in notebook.cells for each in cell.get("outputs", ())]


def _whole(notebook: NotebookNode) -> bool:
    failed = any(each.output_type == "error" for each in outputs(notebook))
    return "course" in notebook.metadata and not failed


def machine(notebook: NotebookNode) -> str:
    """Return one sentence: where, when and in which mode the outputs were made."""
    facts = notebook.metadata["course"]
    return f"Outputs of {facts['made_at'][:10]}, mode {facts['mode']}, on {facts['machine']}."


def static(notebook: NotebookNode, picture: Callable[[str], str] | None = None) -> None:
    """Replace each output that needs a server or JavaScript by its fallback, and name each figure.

    `picture` gets a PNG in base64 and returns its address; without it, the picture is in the page.
    """
    for cell in notebook.cells:
        kept = []
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            data.pop(WIDGET, None)
            for mime in [each for each in data if each.startswith("application/vnd.")]:
                del data[mime]
            if "image/png" in data:
                alt = output["metadata"].get("image/png", {}).get("alt", data.get("text/plain", ""))
                png = data.pop("image/png").replace("\n", "")
                address = picture(png) if picture else f"data:image/png;base64,{png}"
                data["text/html"] = f'<img class="figure" src="{address}" alt="{html.escape(alt)}">'
            if data or output.output_type == "stream" or output.output_type == "error":
                kept.append(output)
        if "outputs" in cell:
            cell.outputs = kept
    notebook.metadata.pop("widgets", None)


def add_solutions(notebook: NotebookNode) -> None:
    """Put a folded solution behind each cell that checks an exercise.

    The edition for students has none, so there nothing is added.
    """
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        for exercise_id in checked_in(cell):
            try:
                text = solution_text(exercise_id)
            except solutions.NoSolutions:
                continue
            folded = f"<details>\n<summary>One way to solve {exercise_id}</summary>\n\n"
            folded += f"{fenced(text)}\n\n</details>"
            name = f"solution-{re.sub('[^a-z0-9]', '-', exercise_id)}"[:64]
            cells.append(nbformat.v4.new_markdown_cell(folded, id=name))
    notebook.cells = cells


def checked_in(cell: NotebookNode) -> list[str]:
    """Return the ids of the exercises that a code cell checks."""
    if cell.cell_type != "code":
        return []
    return re.findall(r'^check\(\s*"(\d\d\.[a-z0-9_]+)"', cell.source, re.MULTILINE)


def solution_text(exercise_id: str) -> str:
    """Return the source of one right answer, as `solution` shows it."""
    return solutions.text_of(exercises.find(exercise_id))


def mathjax() -> Path:
    """Return MathJax as one file with its fonts, which `.[site]` installs.

    Raises FileNotFoundError if it is not installed.
    """
    for folder in map(Path, sys.path):
        file = folder / "sphinx-mathjax-offline" / "static" / "mathjax" / "tex-svg.js"
        if file.is_file():
            return file
    raise FileNotFoundError("MathJax is not installed: python -m pip install -e '.[site]'")


def title(notebook: NotebookNode) -> str:
    """Return the first heading."""
    text = next(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return re.sub(r"^#\s*", "", text.splitlines()[0])


class Offline(Preprocessor):
    """Gives outputs their static form, and the page MathJax itself, where `.[site]` installed it.

    Without it, formulas are shown by MathJax from the internet, as ever.
    """

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Change the notebook in place, and return it with the resources of the template."""
        static(nb)
        resources.setdefault("course_head", "")
        try:
            source = mathjax().read_text("utf-8")
        except FileNotFoundError:
            source = ""
        resources["mathjax_source"] = source.replace("</script", "<\\/script")
        return nb, resources
