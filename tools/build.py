"""Write pages, editions or assignments: `python3 course.py build KIND [names]`.

`site` is the whole course as pages. `html` writes one file for each lesson, which works offline;
`slides` writes the same for a projector: one step at a time, the question before the run.
`student` and `teacher` write an edition: see tools/edition.py. `nbgrader` and `otter` write
assignments: see tools/marks.py.
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import mistune
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from traitlets.config import Config

from kvstore.course import mode
from tools import asking, edition, marks, pages, run_notebooks, website

OUT: Final = run_notebooks.ROOT / "build"
TEMPLATES: Final = run_notebooks.ROOT / "tools" / "jupyter" / "templates"
NOTES: Final = """
body { font: 18px/1.5 system-ui, sans-serif; margin: 1rem 2rem; }
table { border-collapse: collapse; }
td, th { border-bottom: 1px solid #bbb; padding: 0.2rem 0.6rem; text-align: left; }
#now { position: sticky; top: 0; background: #fff; font-weight: 600; padding: 0.4rem 0; }
"""
"""The style of the presenter's notes."""
EDITIONS: Final = ("student", "teacher")
KINDS: Final = ("site", "html", "slides", *EDITIONS, "nbgrader", "otter")


def as_html(
    lesson: Path,
    out: Path,
    *,
    slides: bool = False,
    solutions: bool = True,
    beside: Sequence[Path] = (),
) -> Path:
    """Write the executed lesson as one HTML file and return it.

    It links to the lessons `beside` it, in the same folder. Slides have no solutions. Raises
    NotExecuted if the lesson ends with an error, and FileNotFoundError without MathJax.
    """
    pages.mathjax()
    notebook = pages.executed(lesson)
    machine = pages.machine(notebook)
    _link(notebook, lesson, beside)
    asking.asks_first(notebook)
    if slides:
        asking.for_a_projector(notebook)
    elif solutions:
        pages.add_solutions(notebook)
    first = notebook.cells[0]
    heading, _, rest = first.source.partition("\n")
    first.source = f"{heading}\n\n*{machine}*\n\n{asking.NO_SCRIPT}\n{rest}"
    settings = Config()
    settings.HTMLExporter.template_name = "course"
    settings.HTMLExporter.extra_template_basedirs = [str(TEMPLATES)]
    settings.HTMLExporter.preprocessors = ["tools.pages.Offline"]
    settings.TagRemovePreprocessor.enabled = True
    settings.TagRemovePreprocessor.remove_input_tags = {"hide-input", asking.NO_INPUT}
    resources: dict[str, Any] = {
        "metadata": {"name": pages.title(notebook)},
        "course_head": _slides(lesson) if slides else _asks(),
    }
    exporter = HTMLExporter(config=settings)  # type: ignore[no-untyped-call]
    text, _ = exporter.from_notebook_node(notebook, resources)
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{lesson.stem}.html"
    file.write_text(text, "utf-8")
    return file


def _asks() -> str:
    """The head of a page that asks first."""
    scripts = "".join(f"<script>{file.read_text('utf-8')}</script>" for file in asking.SCRIPTS)
    return (
        f"<style>{asking.STYLE.read_text('utf-8')}</style>"
        f'<script>document.documentElement.classList.add("asks-wait");</script>{scripts}'
    )


def _slides(lesson: Path) -> str:
    """The head of slides, with the notes of the lesson's teacher for the window of the key N."""
    head = (TEMPLATES / "slides.html").read_text("utf-8")
    head += f"<script>{asking.CURVE.read_text('utf-8')}</script>"
    notes = website.DOCS / "teaching" / f"{lesson.stem[:2]}.md"
    if run_notebooks.is_further(lesson) or not notes.is_file():
        return head
    shown = mistune.create_markdown(escape=False, plugins=["table"])(notes.read_text("utf-8"))
    return f'{head}<template id="notes"><style>{NOTES}</style><p id="now"></p>{shown}</template>'


def _link(notebook: NotebookNode, lesson: Path, beside: Sequence[Path]) -> None:
    """Lead links to other lessons to the files beside this one; what is not there has no link."""
    included = {each.relative_to(run_notebooks.NOTEBOOKS).as_posix() for each in beside}
    stems = {each.stem for each in beside}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = website.led(cell.source, lesson.parent, included, docs=False)
            cell.source = re.sub(r"(\]\(|\]: )[\w./-]*?([\w-]+)\.ipynb", r"\1\2.html", text)
    for output in pages.outputs(notebook):
        if "text/html" in output.get("data", {}):
            output["data"]["text/html"] = re.sub(
                r'<a [^>]*href="(?:[\w./-]*/)?([\w-]+)\.ipynb"[^>]*>(.*?)</a>',
                lambda match: (
                    f'<a href="{match[1]}.html">{match[2]}</a>' if match[1] in stems else match[2]
                ),
                output["data"]["text/html"],
            )


def main(arguments: Sequence[str]) -> int:
    """The command; see `--help`. The exit status is 1 if something was not written."""
    parser = argparse.ArgumentParser(prog="course.py build", description="Write what a KIND is.")
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True, help=", ".join(KINDS))
    for kind in KINDS:
        subparser = kinds.add_parser(kind)
        subparser.add_argument(
            "names", nargs="*", help="such as 03, core or further (default: all)"
        )
        subparser.add_argument("--out", type=Path, help="where to (default: in build/)")
        if kind in ("site", "html"):
            subparser.add_argument("--no-solutions", action="store_true", help="for students")
        if kind in EDITIONS:
            subparser.add_argument("--zip", action="store_true", help="also write one archive")
    options = parser.parse_args(arguments)
    place = Path("edition", options.kind) if options.kind in EDITIONS else options.kind
    try:
        lessons = run_notebooks.chosen(options.names)
        if options.kind in ("site", "html", "slides", "teacher"):
            os.environ.setdefault(mode.VARIABLE, "short")  # all lessons: minutes, not half an hour
            pages.announce(lessons)
        return _write(options, options.out or OUT / place, lessons)
    except KeyboardInterrupt:
        print(f"course.py build {options.kind}: stopped; the next build goes on", file=sys.stderr)
        return 130
    except (ValueError, FileNotFoundError, pages.NotExecuted) as problem:
        print(f"course.py build {options.kind}: {problem}", file=sys.stderr)
        return 1


def _write(options: argparse.Namespace, out: Path, lessons: Sequence[Path]) -> int:
    if options.kind == "site":
        return website.build(out, lessons, solutions=not options.no_solutions)
    if options.kind == "student":
        edition.student(out)
    elif options.kind == "teacher":
        edition.teacher(out, lessons)
    elif options.kind in ("html", "slides"):
        slides = options.kind == "slides"
        solutions = not slides and not options.no_solutions
        for lesson in lessons:
            file = as_html(lesson, out, slides=slides, solutions=solutions, beside=lessons)
            print(file, flush=True)
    else:
        write = marks.for_nbgrader if options.kind == "nbgrader" else marks.for_otter
        for lesson in lessons:
            if points := write(lesson, out):
                print(f"{lesson.stem}: {points} points", flush=True)
    print(f"written to {out}")
    if options.kind in EDITIONS and options.zip:
        print(shutil.make_archive(str(out), "zip", out.parent, out.name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
