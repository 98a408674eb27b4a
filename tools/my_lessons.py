"""The learner's own copies of the lessons: made, updated, kept, and opened in JupyterLab.

Only the standard library is used here: `course.py fresh` needs no environment.
"""

from __future__ import annotations  # an old Python gets as far as a message

import argparse
import contextlib
import hashlib
import itertools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tools.files import CannotGoOn, one_at_a_time, say, write_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
ORIGINALS = ROOT / "notebooks"
MINE = ROOT / "my_lessons"
COPIED_FROM = ".copied_from.json"  # in the learner's folder: the original behind each copy
FIRST_PAGE = "00_start_here.ipynb"


def originals() -> dict[str, Path]:
    """The lessons of the course by the name that a learner types, such as `03_bounded`."""
    return {
        path.relative_to(ORIGINALS).with_suffix("").as_posix(): path
        for path in sorted(ORIGINALS.rglob("*.ipynb"))
        if path.parent.name != ".ipynb_checkpoints"
    }


def content_hash(lesson: Path) -> str:
    """The hash of its sources and outputs, without what opening it changes; empty if missing."""
    if not lesson.exists():
        return ""
    content = lesson.read_bytes()
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # not a notebook
        fields = ("cell_type", "outputs", "attachments")
        cells = json.loads(content)["cells"]
        kept = [["".join(cell["source"]), *map(cell.get, fields)] for cell in cells]
        content = json.dumps(kept).encode()
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def my_lessons() -> Iterator[tuple[Path, dict[str, str]]]:
    """Lock the learner's folder; yield it and the hash of the original behind each copy."""
    writable = os.access(MINE if MINE.exists() else ROOT, os.W_OK)  # else in the home folder
    folder = MINE if writable else Path.home() / "rpc_throughput_lessons"
    try:
        folder.mkdir(exist_ok=True)
        with one_at_a_time(folder / ".lock", "copying the lessons"):
            copied_from: dict[str, str] = {}
            with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
                copied_from.update(json.loads((folder / COPIED_FROM).read_bytes()))
            yield folder, copied_from
            write_whole(folder / COPIED_FROM, json.dumps(copied_from, indent=1).encode())
    except OSError as error:
        raise CannotGoOn(f"your copies of the lessons cannot be written: {error}") from error


def update_my_lessons() -> Path:
    """Copy new lessons and new versions, but never over an edited copy; return the folder."""
    with my_lessons() as (folder, copied_from):
        first_time, lessons = not copied_from, originals()
        for name, original in lessons.items():
            copy, before = folder / f"{name}.ipynb", copied_from.get(name, "")
            copy_hash, newest = content_hash(copy), content_hash(original)
            if copy_hash not in ("", newest, before):  # the learner edited it or ran it
                get_it = f"`python3 course.py fresh {name}` gives you the new one"
                if before != newest:
                    say(f"{name} has a new version; your copy is kept; {get_it}")
                continue
            copied_from[name] = copy_lesson(original, copy)
            if copy_hash not in ("", newest):
                say(f"{name} has a new version; it replaced your unedited copy")
            elif not copy_hash and not first_time:
                say(f"{name} was added to {folder}")
        for name in copied_from.keys() - lessons.keys():
            copy, before = folder / f"{name}.ipynb", copied_from.pop(name)
            if before and content_hash(copy) == before:
                copy.unlink()
                say(f"{name} is no longer in the course; your unedited copy was removed")
    if first_time:
        say(f"your own copies of the lessons are in {folder}")
    return folder


def last_worked_on(folder: Path) -> str:
    """The page at which the learner's folder opens: the lesson that was edited or run last."""
    copied_from: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        copied_from.update(json.loads((folder / COPIED_FROM).read_bytes()))
    copies = {name: folder / f"{name}.ipynb" for name in originals()}
    edited = [
        (copy.stat().st_mtime, name)
        for name, copy in copies.items()
        if copy.exists() and content_hash(copy) != copied_from.get(name)
    ]
    return f"{max(edited)[1]}.ipynb" if edited else FIRST_PAGE


def copy_lesson(original: Path, copy: Path) -> str:
    """Copy one lesson unless the copy is the same; return the hash to remember.

    An original with outputs was used in place, by a learner: its copy may never be replaced.
    """
    content, newest = original.read_bytes(), content_hash(original)
    if content_hash(copy) != newest:
        write_whole(copy, content)
    return "" if b'"output_type"' in content else newest


def lesson_named(text: str, lessons: Collection[str]) -> str:
    """The one lesson with this name, or whose name begins with this text."""
    start = Path(text).as_posix().removeprefix("notebooks/").removeprefix("my_lessons/")
    start = start.removesuffix(".ipynb")
    fitting = [start] if start in lessons else [n for n in lessons if n.startswith(start)]
    if len(fitting) != 1:
        which = f"fits {len(fitting)} lessons" if fitting else "is no lesson"
        raise CannotGoOn(f"{text!r} {which}; write one of: {', '.join(fitting or lessons)}")
    return fitting[0]


def lab_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Understand the arguments of `course.py lab`."""
    parser = argparse.ArgumentParser(prog="course.py lab")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--port", type=int, help="listen here, or fail (default: a free port)")
    parser.add_argument(
        "--originals", action="store_true", help="open notebooks/ itself, to change the course"
    )
    parser.add_argument(
        "--wheelhouse", metavar="FOLDER", help="install from this folder, without the internet"
    )
    return parser.parse_args(arguments)


def lab_command(options: argparse.Namespace) -> list[str]:
    """Return the arguments for Python that open the lessons, after the copies were updated."""
    folder = ORIGINALS if options.originals else update_my_lessons()
    page = FIRST_PAGE if options.originals else last_worked_on(folder)
    command = ["-m", "jupyterlab", *lab_settings(folder, page)]
    if options.no_browser:
        command += ["--no-browser"]
    if options.port is not None:
        command += [f"--ServerApp.port={options.port}", "--ServerApp.port_retries=0"]
    return command


def lab_environment() -> dict[str, str]:
    """Take our kernel before one of the user's, and do not ask whether news are wanted."""
    ours = str(ROOT / "tools" / "jupyter")
    first = {
        name: os.pathsep.join(filter(None, [ours, os.environ.get(name)]))
        for name in ("JUPYTER_CONFIG_PATH", "JUPYTER_PATH")
    }
    return {"JUPYTER_PREFER_ENV_PATH": "1", **first}


def lab_settings(folder: Path, page: str) -> list[str]:
    """Start at this page in `folder`, stop at one Ctrl-C, and ask the internet for nothing.

    On the screen JupyterLab leaves its address and its warnings.
    """
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [
        *first_layout(folder / ".jupyterlab"),
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.default_url=/lab/tree/{page}",
        "--ServerApp.answer_yes=True",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--Application.log_level=WARN",
        *(["--allow-root"] if is_root else []),
    ]


def first_layout(workspaces: Path) -> list[str]:
    """Close the list of files the first time: a lesson needs the width. Ctrl+B opens it.

    From then on JupyterLab keeps the learner's own layout there.
    """
    layout = workspaces / "default-37a8.jupyterlab-workspace"  # JupyterLab's name for its first one
    if not layout.exists():
        left = {"collapsed": True, "visible": True}
        data = {"layout-restorer:data": {"left": left}}
        try:
            write_whole(layout, json.dumps({"data": data, "metadata": {"id": "default"}}).encode())
        except OSError:
            return []  # it opens with the list
    return [f"--LabApp.workspaces_dir={workspaces}"]


def fresh(arguments: Sequence[str]) -> int:
    """Replace your copy of a lesson; the old one stays beside it: NAME, such as 03."""
    parser = argparse.ArgumentParser(prog="course.py fresh")
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as 03 or 03_bounded")
    lessons = originals()
    chosen = [lesson_named(each, lessons) for each in parser.parse_args(arguments).names]
    with my_lessons() as (folder, copied_from):
        for name in chosen:
            copy = folder / f"{name}.ipynb"
            message = f"{copy} is a fresh copy"
            unedited = ("", content_hash(lessons[name]), copied_from.get(name))
            if content_hash(copy) not in unedited:
                numbered = (f"{copy.stem}_old_{n}.ipynb" for n in itertools.count(1))
                old = next(each for each in numbered if not copy.with_name(each).exists())
                copy.rename(copy.with_name(old))
                message += f"; your old one is {old}"
            copied_from[name] = copy_lesson(lessons[name], copy)
            say(f"{message}. If the lesson is open: File > Reload Notebook from Disk")
    return 0
