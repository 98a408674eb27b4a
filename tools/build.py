"""Write pages, editions or assignments: `python3 course.py build KIND [names]`.

`site` is the whole course as pages. `html` writes one file for each lesson, which works offline;
`slides` writes the same for a projector: one step at a time, the question before the run.
`student` and `teacher` write an edition: see tools/edition.py. `nbgrader` and `otter` write
assignments: see tools/marks.py.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from nbconvert import HTMLExporter
from traitlets.config import Config

from tools import edition, marks, pages, run_notebooks, website

OUT: Final = run_notebooks.ROOT / "build"
TEMPLATES: Final = run_notebooks.ROOT / "tools" / "jupyter" / "templates"
EDITIONS: Final = ("student", "teacher")
KINDS: Final = ("site", "html", "slides", *EDITIONS, "nbgrader", "otter")


def as_html(lesson: Path, out: Path, *, slides: bool = False) -> Path:
    """Write the executed lesson as one HTML file and return it.

    Slides have no solutions. Raises NotExecuted if the lesson ends with an error, and
    FileNotFoundError without MathJax.
    """
    pages.mathjax()
    notebook = pages.executed(lesson)
    made = pages.machine(notebook)
    if not slides:
        pages.add_solutions(notebook)
    first = notebook.cells[0]
    heading, _, rest = first.source.partition("\n")
    first.source = f"{heading}\n\n*{made}*\n{rest}"
    settings = Config()
    settings.HTMLExporter.template_name = "course"
    settings.HTMLExporter.extra_template_basedirs = [str(TEMPLATES)]
    settings.HTMLExporter.preprocessors = ["tools.pages.Offline"]
    settings.TagRemovePreprocessor.enabled = True
    settings.TagRemovePreprocessor.remove_input_tags = {"hide-input"}
    resources: dict[str, Any] = {
        "metadata": {"name": pages.title(notebook)},
        "course_head": (TEMPLATES / "slides.html").read_text("utf-8") if slides else "",
    }
    exporter = HTMLExporter(config=settings)  # type: ignore[no-untyped-call]
    text, _ = exporter.from_notebook_node(notebook, resources)
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{lesson.stem}.html"
    file.write_text(text, "utf-8")
    return file


def main(arguments: Sequence[str]) -> int:
    """The command; see `--help`. The exit status is 1 if something was not written."""
    parser = argparse.ArgumentParser(prog="course.py build", description="Write what a KIND is.")
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True, help=", ".join(KINDS))
    for kind in KINDS:
        options = kinds.add_parser(kind)
        options.add_argument("names", nargs="*", help="such as 03 or further (default: all)")
        options.add_argument("--out", type=Path, help="where to (default: in build/)")
        if kind in EDITIONS:
            options.add_argument("--zip", action="store_true", help="also write one archive")
    given = parser.parse_args(arguments)
    place = Path("edition", given.kind) if given.kind in EDITIONS else given.kind
    try:
        lessons = run_notebooks.chosen(given.names)
        return _write(given, given.out or OUT / place, lessons)
    except (ValueError, FileNotFoundError, pages.NotExecuted) as problem:
        print(f"course.py build {given.kind}: {problem}", file=sys.stderr)
        return 1


def _write(given: argparse.Namespace, out: Path, lessons: Sequence[Path]) -> int:
    if given.kind == "site":
        return website.build(out, lessons)
    if given.kind == "student":
        edition.student(out)
    elif given.kind == "teacher":
        edition.teacher(out, lessons)
    elif given.kind in ("html", "slides"):
        for lesson in lessons:
            print(as_html(lesson, out, slides=given.kind == "slides"), flush=True)
    else:
        write = marks.for_nbgrader if given.kind == "nbgrader" else marks.for_otter
        for lesson in lessons:
            if points := write(lesson, out):
                print(f"{lesson.stem}: {points} points", flush=True)
    print(f"written to {out}")
    if given.kind in EDITIONS and given.zip:
        print(shutil.make_archive(str(out), "zip", out.parent, out.name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
