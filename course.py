#!/usr/bin/env python3
"""Set up the course and open, run, test or check it: `python3 course.py` lists the commands.

Only the standard library is used here, because this file runs before anything is installed.
It makes `.venv` once and again only when `pyproject.toml` or `constraints.txt` changed. Inside an
activated conda or virtual environment that has all the course needs, it uses that one instead.
JupyterLab opens the learner's own copies of the lessons. The originals stay as they are.
"""

from __future__ import annotations  # so that an old Python gets as far as the message below

import argparse
import contextlib
import hashlib
import importlib.util
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
LOCK = ROOT / ".venv.lock"
STAMP = VENV / "course-stamp.txt"  # written last: without it, the install was not finished
REQUIREMENTS = ("pyproject.toml", "constraints.txt")
OLDEST_PYTHON = (3, 11)
ORIGINALS = ROOT / "notebooks"
MINE = ROOT / "my_lessons"
COPIED_FROM = ".copied_from.json"  # in the learner's folder: the original behind each copy
FIRST_PAGE = "00_start_here.ipynb"


class CannotGoOn(Exception):
    """The learner has to do something first; the message says what."""


def say(text: str) -> None:
    """Print where progress belongs, so that standard output holds results only."""
    print(f"course.py: {text}", file=sys.stderr, flush=True)


# ---- which environment ---------------------------------------------------------------------


def course_python() -> Path:
    """The Python of an environment that has all the course needs; made here if need be."""
    for prefix in active_prefixes():
        python = python_of(prefix)
        missing = what_is_missing(python)
        if not missing:
            say(f"using the active environment {prefix}")
            return python
        say(f"not using the active environment {prefix}: {summed_up(missing)}")
    if not venv_is_current():
        with one_at_a_time(LOCK, "setting up .venv"):
            refresh_venv()
    return python_of(VENV)


def active_prefixes() -> list[Path]:
    """The environments that are active now, most deliberate choice first; never `.venv`."""
    named = [os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    running = sys.prefix != sys.base_prefix or Path(sys.prefix, "conda-meta").is_dir()
    given = [sys.prefix if running else None, *named]
    prefixes = dict.fromkeys(Path(prefix).resolve() for prefix in given if prefix)
    return [prefix for prefix in prefixes if prefix != VENV]


def python_of(prefix: Path) -> Path:
    """The interpreter of an environment, which may not exist."""
    if sys.platform == "win32":
        in_venv, in_conda = prefix / "Scripts" / "python.exe", prefix / "python.exe"
        return in_venv if in_venv.exists() else in_conda
    return prefix / "bin" / "python"


def what_is_missing(python: Path, *extras: str) -> list[str]:
    """What this interpreter lacks to run the course and its extras; empty if it has everything."""
    command = [str(python), str(ROOT / "tools" / "satisfied.py"), *extras]
    try:
        probe = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"its Python does not start ({error})"]
    if probe.returncode != 0:
        return [(probe.stderr.strip().splitlines() or ["its Python ended early"])[-1]]
    return probe.stdout.splitlines()


def summed_up(missing: Sequence[str]) -> str:
    """The first few things missing, in one line."""
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return "; ".join(missing[:3]) + more


# ---- making .venv --------------------------------------------------------------------------


def fingerprint() -> str:
    """What `.venv` was made from: the requirements, then the Python and the place."""
    digest = hashlib.sha256()
    for name in REQUIREMENTS:
        digest.update(hashlib.sha256((ROOT / name).read_bytes()).digest())
    return f"{digest.hexdigest()}\n{sys.implementation.cache_tag} {ROOT}\n"


def stamp() -> str:
    """What the finished `.venv` was made from; empty if there is none."""
    try:
        return STAMP.read_text(encoding="utf-8")
    except OSError:
        return ""


def python_with(extra: str) -> Path:
    """The Python of the course, with what an extra of pyproject.toml adds for a few commands."""
    python = course_python()
    if missing := what_is_missing(python, extra):
        if python != python_of(VENV):
            raise CannotGoOn(f"{summed_up(missing)}: {python} -m pip install -e '.[{extra}]'")
        with one_at_a_time(LOCK, "setting up .venv"):
            install(extra)
    return python


def venv_is_current() -> bool:
    """Whether `.venv` can be used as it is, with no install and no internet."""
    return stamp() == fingerprint() and python_of(VENV).exists()


def refresh_venv() -> None:
    """Bring `.venv` up to date; when interrupted, the next call starts afresh."""
    if venv_is_current():  # another course.py made it while this one waited
        return
    wanted = fingerprint()
    same_python = stamp().splitlines()[1:] == wanted.splitlines()[1:]
    STAMP.unlink(missing_ok=True)
    if not (same_python and python_of(VENV).exists()):
        make_venv()
    install()
    write_whole(STAMP, wanted.encode())


def make_venv() -> None:
    """Make an empty `.venv`, in place of one that cannot be kept."""
    require_venv_module()
    if VENV.exists() and not (VENV / "pyvenv.cfg").exists():
        raise CannotGoOn(f"{VENV} is not a virtual environment; please move it away")
    say(f"making {VENV} with Python {sys.version.split()[0]}")
    if VENV.exists():
        shutil.rmtree(VENV)
    if subprocess.call([sys.executable, "-m", "venv", str(VENV)]):
        raise CannotGoOn(f"could not make a virtual environment. {how_to_get_venv()}")


def require_venv_module() -> None:
    """Refuse a Python that cannot make environments, before anything is changed."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise CannotGoOn(f"this Python has no module {missing[0]}. {how_to_get_venv()}")


def how_to_get_venv() -> str:
    """What to install so that `python3 -m venv` works."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return (
        f"On Debian or Ubuntu: sudo apt install python3-venv (or python{version}-venv). "
        "Elsewhere: install Python from python.org, or use conda as README.md says."
    )


def install(extra: str = "dev") -> None:
    """Install the course and what it needs into `.venv`, in the versions that were tested."""
    what = "the course" if extra == "dev" else "this command"
    say(f"installing what {what} needs (a minute or two; only now is the internet needed)")
    command = [str(python_of(VENV)), "-m", "pip", "install", "--no-input"]
    command += ["--disable-pip-version-check", "-c", "constraints.txt", "-e", f".[{extra}]"]
    settings = {**os.environ, "PIP_USER": "0"}  # a user's pip.conf may say otherwise
    if subprocess.call(command, cwd=ROOT, env=settings):
        raise CannotGoOn(
            "pip could not install everything, see above. If it could not reach the package "
            "index: connect to the internet and give the same command again."
        )


# ---- files that several processes use --------------------------------------------------------


def write_whole(path: Path, data: bytes) -> None:
    """Write the file so that it has all of the new content or all of the old, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_bytes(data)
    os.replace(unfinished, path)


@contextlib.contextmanager
def one_at_a_time(lock: Path, doing: str) -> Iterator[None]:
    """Hold the lock; the system releases it when this process ends, whatever ends it."""
    with lock.open("w") as handle:
        if not locked(handle):
            say(f"another course.py is {doing}; waiting for it")
            while not locked(handle):
                time.sleep(0.2)
        yield


def locked(handle: IO[str]) -> bool:
    """Try to lock an open file; False when another process has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True  # a file system without locks: better to go on than to wait for ever
    return True


# ---- the learner's own copies of the lessons -------------------------------------------------


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
            found, newest = content_hash(copy), content_hash(original)
            if found not in ("", newest, before):  # the learner edited it or ran it
                get_it = f"`python3 course.py fresh {name}` gives you the new one"
                if before != newest:
                    say(f"{name} has a new version; your copy is kept; {get_it}")
                continue
            copied_from[name] = copy_lesson(original, copy)
            if found not in ("", newest):
                say(f"{name} has a new version; it replaced your unedited copy")
            elif not found and not first_time:
                say(f"{name} was added to {folder}")
        for name in copied_from.keys() - lessons.keys():
            copy, before = folder / f"{name}.ipynb", copied_from.pop(name)
            if before and content_hash(copy) == before:
                copy.unlink()
                say(f"{name} is no longer in the course; your unedited copy was removed")
    if first_time:
        say(f"your own copies of the lessons are in {folder}")
    return folder


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


# ---- the commands --------------------------------------------------------------------------


def lab(arguments: Sequence[str]) -> int:
    """Open your copies of the lessons in JupyterLab: [--no-browser] [--port N] [--originals]."""
    parser = argparse.ArgumentParser(prog="course.py lab")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--port", type=int, help="listen here, or fail (default: a free port)")
    parser.add_argument(
        "--originals", action="store_true", help="open notebooks/ itself, to change the course"
    )
    options = parser.parse_args(arguments)
    python = course_python()
    folder = ORIGINALS if options.originals else update_my_lessons()
    command = ["-m", "jupyterlab", *lab_settings(folder)]
    if options.no_browser:
        command += ["--no-browser"]
    if options.port is not None:
        command += [f"--ServerApp.port={options.port}", "--ServerApp.port_retries=0"]
    hand_over(python, command, lab_environment())


def lab_environment() -> dict[str, str]:
    """Take our kernel before one of the user's, and do not ask whether news are wanted."""
    settings = [str(ROOT / "tools" / "jupyter"), os.environ.get("JUPYTER_CONFIG_PATH")]
    return {
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, settings)),
    }


def lab_settings(folder: Path) -> list[str]:
    """Start at the first page in `folder`, stop at one Ctrl-C, and ask the internet for nothing."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.default_url=/lab/tree/{FIRST_PAGE}",
        "--ServerApp.answer_yes=True",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        *(["--allow-root"] if is_root else []),
    ]


def fresh(arguments: Sequence[str]) -> int:
    """Replace your copy of a lesson; the old one stays beside it: NAME, such as 03."""
    parser = argparse.ArgumentParser(prog="course.py fresh")
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as 03 or 03_bounded")
    lessons = originals()
    chosen = [lesson_named(each, lessons) for each in parser.parse_args(arguments).names]
    with my_lessons() as (folder, copied_from):
        for name in chosen:
            copy = folder / f"{name}.ipynb"
            said = f"{copy} is a fresh copy"
            unedited = ("", content_hash(lessons[name]), copied_from.get(name))
            if content_hash(copy) not in unedited:
                numbered = (f"{copy.stem}_old_{n}.ipynb" for n in itertools.count(1))
                old = next(each for each in numbered if not copy.with_name(each).exists())
                copy.rename(copy.with_name(old))
                said += f"; your old one is {old}"
            copied_from[name] = copy_lesson(lessons[name], copy)
            say(f"{said}. If the lesson is open: File > Reload Notebook from Disk")
    return 0


def test(arguments: Sequence[str]) -> int:
    """Run every test, notebooks included: [--long] [arguments for pytest]."""
    hand_over(course_python(), ["-m", "tools.testing", *arguments])


def run(arguments: Sequence[str]) -> int:
    """Execute the notebooks without a browser: [--fast | --full] [--awake] [names]."""
    hand_over(course_python(), ["-m", "tools.run_notebooks", *arguments])


def scoreboard(arguments: Sequence[str]) -> int:
    """Show the capstone scores of a class from a folder of records: FOLDER."""
    hand_over(course_python(), ["-m", "tools.scoreboard", *arguments])


def bench(arguments: Sequence[str]) -> int:
    """Measure the course itself, side by side with what is installed."""
    hand_over(course_python(), ["-m", "benchmarks", *arguments])


def site(arguments: Sequence[str]) -> int:
    """Build the site with every lesson executed, in build/site: [--out FOLDER] [names]."""
    hand_over(python_with("site"), ["-m", "tools.website", *arguments])


def export(arguments: Sequence[str]) -> int:
    """Export lessons, into build/: html, slides, nbgrader or otter, then [names]."""
    hand_over(python_with("site"), ["-m", "tools.export", *arguments])


def edition(arguments: Sequence[str]) -> int:
    """Write the course for students or for teachers, in build/edition: student or teacher."""
    hand_over(course_python(), ["-m", "tools.edition", *arguments])


def collect(arguments: Sequence[str]) -> int:
    """Merge the progress of a class into tables and a figure, in build/class: FILES."""
    files = [str(Path(each).resolve()) if Path(each).exists() else each for each in arguments]
    hand_over(course_python(), ["-m", "tools.collect", *files])


def record(arguments: Sequence[str]) -> int:
    """Record the runs that COURSE_MODE=recorded shows: [--again] [names]."""
    hand_over(course_python(), ["-m", "tools.record", *arguments])


def prove(arguments: Sequence[str]) -> int:
    """Say what became of it: `course.py test --long`."""
    raise CannotGoOn("the proofs are long tests now: python3 course.py test --long")


def etcd(arguments: Sequence[str]) -> int:
    """Run an etcd cluster on this machine until Ctrl-C: [--nodes 3] [--election-timeout-s 1]."""
    command = "import sys; from kvstore.server.etcd_nodes import main; sys.exit(main())"
    hand_over(course_python(), ["-c", command, *arguments])


def certificate(arguments: Sequence[str]) -> int:
    """Make a certificate and a token for a server that others reach: FOLDER --host NAME..."""
    folder = [str(Path(each).resolve()) for each in arguments[:1] if not each.startswith("-")]
    hand_over(course_python(), ["-m", "tools.certificate", *folder, *arguments[len(folder) :]])


def check(arguments: Sequence[str]) -> int:
    """Check notebooks, lint, format, types and generated code: [--fix]."""
    parser = argparse.ArgumentParser(prog="course.py check")
    parser.add_argument("--fix", action="store_true", help="repair what a tool can repair")
    fix = parser.parse_args(arguments).fix
    python = course_python()
    failed = [name for name, command in check_steps(fix) if step_fails(python, name, command)]
    say(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


def check_steps(fix: bool) -> list[tuple[str, list[str]]]:
    """What `check` runs, in an order in which a later fix spoils no earlier one."""
    lint, layout = ["-m", "ruff", "check"], ["-m", "ruff", "format"]
    return [
        ("notebooks", ["tools/notebooks.py", *(["--fix"] if fix else [])]),
        ("lint", [*lint, "--fix"] if fix else lint),
        ("format", layout if fix else [*layout, "--check"]),
        ("types", ["-m", "mypy"]),
        ("generated code", ["tools/generated.py", "--check"]),
    ]


def step_fails(python: Path, name: str, command: Sequence[str]) -> bool:
    """Run one step of `check` with its output shown."""
    say(f"checking: {name}")
    return subprocess.call([str(python), *command], cwd=ROOT, env=settings_for(python)) != 0


def generate(arguments: Sequence[str]) -> int:
    """Write kvstore/v1 from proto/ (needs the internet)."""
    argparse.ArgumentParser(prog="course.py generate").parse_args(arguments)
    hand_over(course_python(), ["tools/generated.py"])


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    command.__name__: command
    for command in (
        *(lab, fresh, test, run, etcd, certificate),
        *(site, export, edition, collect, record, scoreboard),  # for readers and for a class
        *(check, bench, prove, generate),
    )
}


def settings_for(python: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment variables under which a command of the course runs."""
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, **(extra or {})}


def hand_over(
    python: Path, command: Sequence[str], extra: Mapping[str, str] | None = None
) -> NoReturn:
    """Become this command, so that Ctrl-C reaches it alone and its exit status is ours."""
    os.chdir(ROOT)
    arguments, settings = [str(python), *command], settings_for(python, extra)
    sys.stdout.flush()
    if sys.platform != "win32":
        os.execve(arguments[0], arguments, settings)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows has no exec: the child decides
    sys.exit(subprocess.call(arguments, env=settings))


def usage() -> str:
    """What `course.py` prints without a command."""
    lines = [f"  python3 course.py {name:11} {do.__doc__}" for name, do in COMMANDS.items()]
    head, foot = "An interactive course on RPC throughput.", "Begin with: python3 course.py lab"
    return "\n".join([head, "", *lines, "", foot])


def too_old(version: tuple[int, ...]) -> str:
    """Why this Python will not do; empty if it will."""
    if version >= OLDEST_PYTHON:
        return ""
    return (
        f"this is Python {version[0]}.{version[1]}; the course needs Python 3.11 or newer. "
        "Install it from python.org (or your system's packages), then for example: "
        "python3.13 course.py lab"
    )


def main(arguments: Sequence[str]) -> int:
    """Do one command; the exit status is 0, 1 (failed), 2 (not understood) or 130 (Ctrl-C)."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        say(f"there is no command {name!r}")
        print(usage(), file=sys.stderr)
        return 2
    try:
        if reason := too_old(sys.version_info[:2]):
            raise CannotGoOn(reason)
        return COMMANDS[name](rest)
    except CannotGoOn as obstacle:
        say(str(obstacle))
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
