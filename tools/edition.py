"""Write the edition for students or for teachers: `python3 course.py build student|teacher`.

Both come from this checkout. Students get the course without the notes for teachers, without
solutions and without outputs: `solution` says that the teacher has them. The judges and the answers
of quizzes are in the package in packed form: no reading or searching shows them by accident, but
they are no secret for a student who unpacks them. Nor are the course's versions in `my_code/`, from
which a later lesson runs where an exercise was left out. Teachers get everything, and in
`reference/` each lesson with its outputs, its solutions and its notes.
"""

import base64
import re
import shutil
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import nbformat
from nbformat.v4 import new_markdown_cell

from tools import pages, run_notebooks

ROOT: Final = Path(__file__).resolve().parent.parent
LEFT_OUT: Final = frozenset(
    {"build", "dist", "executed", "my_lessons", "__pycache__", "node_modules"}
)
"""What runs and builds leave behind; names that begin with a dot are left out, too."""
KEPT: Final = frozenset({".ci", ".gitignore", ".gitattributes", ".devcontainer", ".binder"})
FOR_TEACHERS: Final = (
    "docs/teaching",
    "docs/teaching.md",
    "tests",
    ".ci",
    ".github",
    "CONTRIBUTING.md",
)
"""What the edition for students lacks. Tests hold right answers."""
SEALED: Final = tuple(
    f"kvstore/course/lessons/lesson_*/{name}"
    for name in ("exercises*.py", "questions*.py", "lesson.toml")
)
LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)")
TRIED_BY: Final = "python3 course.py run --fast 00 03"
"""How a student sees whether the course works on a machine: the edition has no tests."""
NEEDS_TESTS: Final = re.compile(r"^\| `python3 course\.py (?:check|test)\b.*\n", re.MULTILINE)
"""The rows of the table of commands that need what the edition lacks."""
_SEAL: Final = '''\
"""The answers of a lesson, packed: the edition for students shows no solutions."""

import base64 as _base64
import zlib as _zlib

exec(compile(_zlib.decompress(_base64.b85decode(
    {packed!r}
)), __name__, "exec"))
'''
_SEAL_OF_TABLES: Final = "packed = '{packed}'\n"


def student(out: Path) -> Path:
    """Write the edition for students into `out` and return it."""
    _copy(out, without=FOR_TEACHERS)
    for file in sorted(each for pattern in SEALED for each in out.glob(pattern)):
        packed = base64.b85encode(zlib.compress(file.read_bytes(), 9)).decode("ascii")
        seal = _SEAL if file.suffix == ".py" else _SEAL_OF_TABLES
        file.write_text(seal.format(packed=packed), "utf-8")
    solutions = out / "kvstore" / "course" / "exercises" / "solutions.py"
    text = solutions.read_text("utf-8").replace("SHOWN: Final = True", "SHOWN: Final = False")
    solutions.write_text(text, "utf-8")
    for page in (out / "README.md", out / "docs" / "commands.md"):
        text = page.read_text("utf-8").replace("\npython3 course.py test\n", f"\n{TRIED_BY}\n")
        page.write_text(NEEDS_TESTS.sub("", text), "utf-8")
    for page in out.rglob("*.md"):
        _without_dead_links(page)
    return out


def _without_dead_links(page: Path) -> None:
    """Keep the words of each link to what the edition lacks."""

    def kept(match: re.Match[str]) -> str:
        return match[0] if (page.parent / match[2]).exists() else match[1]

    page.write_text(LINK.sub(kept, page.read_text("utf-8")), "utf-8")


def teacher(out: Path, lessons: Sequence[Path]) -> Path:
    """Write the edition for teachers into `out` and return it.

    Raises NotExecuted if a lesson ends with an error.
    """
    _copy(out)
    for lesson in lessons:
        notebook = pages.executed(lesson)
        pages.static(notebook)
        pages.add_solutions(notebook)
        banner = f"**Reference outputs, with solutions.** {pages.machine(notebook)}"
        notebook.cells.insert(0, new_markdown_cell(banner, id="reference"))
        notes = ROOT / "docs" / "teaching" / f"{lesson.stem[:2]}.md"
        if notes.is_file() and not run_notebooks.is_further(lesson):
            text = notes.read_text("utf-8")
            notebook.cells.insert(1, new_markdown_cell(text, id="notes-for-the-teacher"))
        folder = run_notebooks.FURTHER if run_notebooks.is_further(lesson) else ""
        place = out / "reference" / folder / lesson.name
        place.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, place)
    return out


def _copy(out: Path, without: Collection[str] = ()) -> None:
    """Copy the course to an empty folder, without what runs and builds left behind."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        here = Path(folder).relative_to(ROOT)
        return {
            name
            for name in names
            if {name, (here / name).as_posix()} & {*LEFT_OUT, *without}
            or (name.startswith(".") and name not in KEPT)
            or name.endswith(".egg-info")
        }

    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(ROOT, out, ignore=left_out)
