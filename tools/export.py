"""Export lessons: `python3 course.py build html|slides|nbgrader|otter [names]`.

`html` writes one file for each lesson, which works offline. `slides` writes the same for a
projector: one step at a time, the question before the run. `nbgrader` and `otter` write
assignments: see tools/marks.py.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from nbconvert import HTMLExporter
from traitlets.config import Config

from tools import marks, pages, run_notebooks

ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = ROOT / "build"
TEMPLATES: Final = ROOT / "tools" / "jupyter" / "templates"
SLIDES: Final = TEMPLATES / "slides.html"


def as_html(lesson: Path, out: Path, *, slides: bool = False, solutions: bool = True) -> Path:
    """Write the executed lesson as one HTML file and return it.

    Slides have no solutions. Raises NotExecuted if the lesson ends with an error, and
    FileNotFoundError without MathJax.
    """
    pages.mathjax()
    notebook = pages.executed(lesson)
    made = pages.machine(notebook)
    if solutions and not slides:
        pages.add_solutions(notebook)
    pages.without_teachers_notes(notebook)
    first = notebook.cells[0]
    heading, _, rest = first.source.partition("\n")
    first.source = f"{heading}\n\n*{made}*\n{rest}"
    settings = Config()
    settings.HTMLExporter.template_name = "course"
    settings.HTMLExporter.extra_template_basedirs = [str(TEMPLATES)]
    settings.HTMLExporter.preprocessors = ["tools.offline.Offline"]
    settings.TagRemovePreprocessor.enabled = True
    settings.TagRemovePreprocessor.remove_input_tags = {"hide-input"}
    resources: dict[str, Any] = {
        "metadata": {"name": pages.title(notebook)},
        "course_head": SLIDES.read_text("utf-8") if slides else "",
    }
    exporter = HTMLExporter(config=settings)  # type: ignore[no-untyped-call]
    text, _ = exporter.from_notebook_node(notebook, resources)
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{lesson.stem}.html"
    file.write_text(text, "utf-8")
    return file


def main(arguments: Sequence[str]) -> int:
    """The command; see `--help`."""
    parser = argparse.ArgumentParser(prog="course.py build", description="Export lessons.")
    parser.add_argument("format", choices=["html", "slides", "nbgrader", "otter"])
    parser.add_argument("--out", type=Path, help="where to (default: build/FORMAT)")
    parser.add_argument("names", nargs="*", help="such as 03 or further (default: all)")
    options = parser.parse_args(arguments)
    out = options.out or OUT / options.format
    try:
        for lesson in run_notebooks.chosen(options.names):
            if options.format in ("html", "slides"):
                print(as_html(lesson, out, slides=options.format == "slides"), flush=True)
                continue
            write = marks.for_nbgrader if options.format == "nbgrader" else marks.for_otter
            if points := write(lesson, out):
                print(f"{lesson.stem}: {points} points", flush=True)
    except (ValueError, FileNotFoundError, pages.NotExecuted) as problem:
        print(f"course.py build: {problem}", file=sys.stderr)
        return 1
    print(f"written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
