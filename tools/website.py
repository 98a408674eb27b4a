"""Build the site: a front page, every lesson executed, the docs, glossary, symbols, cheat-sheet.

`course.py build site` writes `build/site/`, which works from a folder, a USB stick or any web
server, without the internet: MathJax, fonts and styles are shipped with it. Lessons come from
`executed/`; what is missing or old there is executed first, which takes some minutes.
"""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import nbformat
from nbformat import NotebookNode

from kvstore.course.lessons import LESSONS, parts
from kvstore.measure.host import host_in_words
from tools import asking, front_page, pages, run_notebooks

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
NOTEBOOKS: Final = run_notebooks.NOTEBOOKS
TREES: Final = "_trees"
"""The folder in which Sphinx keeps what it read, for the next build."""
LEFT_OUT: Final = "left-out"
FIRST_HEADING: Final = re.compile(r"\A(#[^\n]*\n)")


def sources(folder: Path, lessons: Sequence[Path], *, solutions: bool = True) -> None:
    """Write what Sphinx reads into `folder`, which must not exist."""
    shutil.copytree(DOCS / "site", folder)
    figures = folder / "_static" / "figures"
    figures.mkdir()
    (folder / "_static" / "mathjax").mkdir()
    shutil.copy(pages.mathjax(), folder / "_static" / "mathjax")
    for script in asking.SCRIPTS:
        shutil.copy(script, folder / "_static")
    titles = {}
    included = {lesson.relative_to(NOTEBOOKS).as_posix() for lesson in lessons}
    for lesson in lessons:
        notebook = pages.executed(lesson)
        titles[lesson] = pages.title(notebook)
        further = run_notebooks.is_further(lesson)
        place = folder / "lessons" / (run_notebooks.FURTHER if further else "") / lesson.name
        place.parent.mkdir(parents=True, exist_ok=True)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = led(cell.source, lesson.parent, included)
        up = "../../" if further else "../"
        _prepare(notebook, figures, up, solutions=solutions)
        nbformat.write(notebook, place)
    for page in _docs():
        text = led(page.read_text("utf-8"), DOCS, included)
        (folder / page.name).write_text(text, "utf-8")
    for picture in DOCS.glob("*.svg"):
        shutil.copy(picture, folder)
    (folder / "symbols.md").write_text(_symbol_sheet(), "utf-8")
    (folder / "course.md").write_text(_lessons(titles), "utf-8")
    machine = f"The outputs of each lesson name their machine. Built on {host_in_words()}."
    (folder / "made.json").write_text(json.dumps({"machine": machine}), "utf-8")


def _prepare(notebook: NotebookNode, figures: Path, up: str, *, solutions: bool) -> None:
    """Make the executed lesson a page that asks first, with its machine on top."""

    def stored(png: str) -> str:
        name = f"{hashlib.sha256(png.encode()).hexdigest()[:16]}.png"
        (figures / name).write_bytes(base64.b64decode(png))
        return f"{up}_static/figures/{name}"

    asking.asks_first(notebook)
    pages.static(notebook, stored)
    for output in pages.outputs(notebook):
        if "text/html" in output.get("data", {}):  # where the learner stands: a link to a lesson
            text = output["data"]["text/html"]
            output["data"]["text/html"] = re.sub(r'href="([\w/]+)\.ipynb"', r'href="\1.html"', text)
    if solutions:
        pages.add_solutions(notebook)
    first = notebook.cells[0]
    sheets = {"Symbols": "symbols", "Glossary": "glossary", "Cheat-sheet": "cheat_sheet"}
    links = " · ".join(f"[{name}]({up}{page}.md)" for name, page in sheets.items())
    note = f"```{{note}}\n{pages.machine(notebook)} Yours will differ.\n```"
    banner = f"{links}\n\n{note}\n\n{asking.NO_SCRIPT}\n"
    first.source = FIRST_HEADING.sub(lambda match: f"{match[1]}\n{banner}", first.source, count=1)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("`docs/glossary.md`", f"[glossary]({up}glossary.md)")


def led(text: str, folder: Path, included: Collection[str], *, docs: bool = True) -> str:
    """Lead the links of a text to the site; what the site lacks loses its link and keeps its text.

    `folder` is where the text stands in the checkout, and `included` has the lessons of the site.
    Without `docs` the pages of docs/ are not there either.
    """

    def kept(target: str) -> str:
        file = (folder / target).resolve()
        if file.is_relative_to(NOTEBOOKS):
            lesson = file.relative_to(NOTEBOOKS).as_posix()
            up = "" if folder.is_relative_to(NOTEBOOKS) else "lessons/"
            return (f"{up}{lesson}" if up else target) if lesson in included else ""
        inside = file in _docs() or (file.suffix == ".svg" and file.parent == DOCS)
        return target if inside and docs else ""

    def linked(match: re.Match[str]) -> str:
        target = kept(match[2])
        return f"[{match[1]}]({target})" if target else match[1]

    def defined(match: re.Match[str]) -> str:
        target = kept(match[2])
        return f"[{match[1]}]: {target}" if target else f"[{match[1]}]: {LEFT_OUT}"

    text = re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#\s]+)\)", linked, text)
    text = re.sub(r"^\[([^\]]+)\]: (?!https?:|#)(\S+)$", defined, text, flags=re.MULTILINE)
    for label in re.findall(rf"^\[([^\]]+)\]: {LEFT_OUT}$", text, re.MULTILINE):
        text = text.replace(f"[{label}]: {LEFT_OUT}", "").replace(f"[{label}]", label)
    return text


def _docs() -> list[Path]:
    """The pages of docs/ that are for everyone; the notes for teachers are in their edition."""
    return [page for page in sorted(DOCS.glob("*.md")) if page.stem != "teaching"]


def _symbol_sheet() -> str:
    """Return the section "Symbols" of the glossary as a page of its own."""
    text = (DOCS / "glossary.md").read_text("utf-8")
    section = text.partition("\n## Symbols\n")[2].partition("\n## ")[0]
    return f"# Symbols\n{section}\n\nThe terms are in the [glossary](glossary.md).\n"


def _lessons(titles: dict[Path, str]) -> str:
    core = [lesson for lesson in titles if not run_notebooks.is_further(lesson)]
    further = [lesson for lesson in titles if run_notebooks.is_further(lesson)]
    sheets = ["cheat_sheet", "symbols", "glossary"]
    others = [page.stem for page in _docs()]
    first = {LESSONS[numbers[0]]: title for title, numbers in parts().items()}
    rows = [
        f"| {first.get(lesson.stem, '')} | [{titles[lesson]}](lessons/{lesson.name}) "
        f"| {_promise(lesson)} |"
        for lesson in core
    ]
    sections = [
        "# RPC throughput: predict, run, compare",
        "An interactive course for JupyterLab. You measure a real gRPC key-value service. Before "
        "each step you commit to a prediction. Then you run it, and find out why the measurement "
        "differs.",
        "**These pages ask first.** Each shows one run of its lesson, and holds it back until you "
        "have committed to a number. Exercises work in JupyterLab, where the runs are "
        "yours: `python3 course.py lab` opens it.",
        'New here? <a href="index.html">Five published benchmarks, checked with one formula</a>.',
        "![Throughput of each step, predicted and measured](ladder.svg)",
        "## The lessons",
        "\n".join(["| part | lesson | you predict |", "| --- | --- | --- |", *rows]),
        _toctree("Lessons", [f"lessons/{lesson.stem}" for lesson in core]),
        _toctree("Further lessons", [f"lessons/further/{lesson.stem}" for lesson in further]),
        _toctree("Reference", [*sheets, *(each for each in others if each not in sheets)]),
    ]
    return "\n\n".join(sections) + "\n"


def _promise(lesson: Path) -> str:
    """What the README says of the lesson."""
    text = (ROOT / "README.md").read_text("utf-8")
    row = re.search(rf"^\| `{lesson.stem}` \| (.*?) \|$", text, re.MULTILINE)
    return row[1] if row else ""


def _toctree(caption: str, entries: Sequence[str]) -> str:
    """Return a list of pages for the sidebar; docs that do not exist are left out by Sphinx."""
    lines = "\n".join(entries)
    return f"```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 1\n\n{lines}\n```"


class _Page(HTMLParser):
    """The anchors of a page, and all that it links to or loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors, self.without_alt = {""}, list[str]()
        self.links, self.loads = list[str](), list[str]()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes.get("id", ""), attributes.get("name", "")}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if tag == "link" and attributes.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(attributes["href"])
        if tag in ("script", "img", "iframe", "source") and attributes.get("src"):
            self.loads.append(attributes["src"])
        if tag == "img" and not attributes.get("alt", "").strip():
            self.without_alt.append(attributes.get("src", "?")[:60])


def broken_links(folder: Path) -> Iterator[str]:
    """Yield each link to nothing, each load from the internet, each picture without alt text."""
    read = {page.resolve(): _Page(page) for page in sorted(folder.rglob("*.html"))}
    for page, of_page in read.items():
        name = page.relative_to(folder.resolve()).as_posix()
        for picture in of_page.without_alt:
            yield f"{name}: no alt text for {picture}"
        for link in [*of_page.loads, *of_page.links]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in of_page.loads and parts.scheme != "data":
                    yield f"{name} loads {link[:80]}, which needs the internet"
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.exists():
                yield f"{name} links to {link}, which does not exist"
            elif (
                target in read
                and not {parts.fragment, unquote(parts.fragment)} & read[target].anchors
            ):
                yield f"{name} links to {link}, which has no such place"


def _mirror(fresh: Path, work: Path) -> None:
    """Move what is new or changed to `work`, and delete what `fresh` lacks.

    Sphinx reads a page again if its file is newer than the last build.
    """
    wanted = {file.relative_to(fresh) for file in fresh.rglob("*") if file.is_file()}
    for file in [each for each in work.rglob("*") if each.is_file()]:
        name = file.relative_to(work)
        if name.parts[0] != TREES and name not in wanted:
            file.unlink()
    for name in wanted:
        new, old = fresh / name, work / name
        if not old.is_file() or old.read_bytes() != new.read_bytes():
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(new, old)
    shutil.rmtree(fresh)


def _prune(out: Path, work: Path) -> None:
    """Delete the pages and figures of an earlier build that this one lacks."""
    for page in out.rglob("*.html"):
        name = page.relative_to(out)
        has_source = any((work / name).with_suffix(kind).exists() for kind in (".md", ".ipynb"))
        if not has_source and name.name not in ("search.html", "genindex.html"):
            page.unlink()
    for figure in (out / "_static" / "figures").glob("*.png"):
        if not (work / "_static" / "figures" / figure.name).exists():
            figure.unlink()


def build(out: Path, lessons: Sequence[Path], *, solutions: bool = True) -> int:
    """Write the site into `out`, check it, and return the exit status."""
    work, fresh = (out.with_name(f"{out.name}.{name}") for name in ("source", "fresh"))
    shutil.rmtree(fresh, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    sources(fresh, lessons, solutions=solutions)
    _mirror(fresh, work)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going"]
    if subprocess.call([*command, "-d", str(work / TREES), str(work), str(out)]):
        shutil.rmtree(work)  # a page with a warning would not be read again
        print("the site was not built without warnings, see above")
        return 1
    _prune(out, work)
    front_page.write(out, {lesson.stem for lesson in lessons}, front_page.shown_run())
    wrong = list(broken_links(out))
    print(
        "\n".join(wrong) or f"every link within the site leads somewhere; open {out / 'index.html'}"
    )
    return int(bool(wrong))
