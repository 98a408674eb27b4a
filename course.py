#!/usr/bin/env python3
"""Set up the course and open, run, test or check it: `python3 course.py` lists the commands.

Only the standard library is used here, because this file runs before anything is installed.
It makes `.venv` with what the lessons need. A command that needs more, such as `test`, installs it
when it is given for the first time. An activated conda or virtual environment that has all that a
command needs is used instead.
"""

from __future__ import annotations  # so that an old Python gets as far as the message below

import contextlib
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tools import my_lessons
from tools.files import CannotGoOn, one_at_a_time, say, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
LOCK = ROOT / ".venv.lock"
STAMP = VENV / "course-stamp.txt"  # empty until the install is finished
REQUIREMENTS = ("pyproject.toml", "constraints.txt")
OLDEST_PYTHON = (3, 11)
NEEDED_BY = {
    "course": "what the lessons need",
    "dev": "what the tests and checks need",
    "site": "what the pages need",
    "tls": "what certificates need",
}
"""The extras of pyproject.toml that commands install."""
WHEELHOUSE = "COURSE_WHEELHOUSE"
"""The environment variable with a folder of packages, for a machine without internet."""


def course_python(extra: str = "course") -> Path:
    """The Python of an environment with all that this extra of pyproject.toml names."""
    for prefix in active_prefixes():
        python = python_of(prefix)
        missing = what_is_missing(python, extra)
        if not missing:
            say(f"using the active environment {prefix}")
            return python
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        say(f"not using the active environment {prefix}: {'; '.join(missing[:3])}{more}")
    if not venv_is_current(extra) and (
        not made_by_another_tool() or what_is_missing(python_of(VENV), extra)
    ):
        require_own_folder()
        with one_at_a_time(LOCK, "setting up .venv"):
            refresh_venv(extra)
    return python_of(VENV)


def made_by_another_tool() -> bool:
    """Whether uv, an editor or a person made `.venv`; course.py leaves a file in its own."""
    return python_of(VENV).exists() and not STAMP.exists()


def active_prefixes() -> list[Path]:
    """The environments that are active now, most deliberate choice first; never `.venv`."""
    named = [os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    running = sys.prefix != sys.base_prefix or Path(sys.prefix, "conda-meta").is_dir()
    candidates = [sys.prefix if running else None, *named]
    prefixes = dict.fromkeys(Path(prefix).resolve() for prefix in candidates if prefix)
    return [prefix for prefix in prefixes if prefix != VENV]


def python_of(prefix: Path) -> Path:
    """The interpreter of an environment, which may not exist."""
    if sys.platform == "win32":
        in_venv, in_conda = prefix / "Scripts" / "python.exe", prefix / "python.exe"
        return in_venv if in_venv.exists() else in_conda
    return prefix / "bin" / "python"


def what_is_missing(python: Path, extra: str) -> list[str]:
    """What this interpreter lacks of an extra of the course; empty if it has everything."""
    command = [str(python), str(ROOT / "tools" / "satisfied.py"), extra]
    try:
        probe = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"its Python does not start ({error})"]
    if probe.returncode != 0:
        return [(probe.stderr.strip().splitlines() or ["its Python ended early"])[-1]]
    return probe.stdout.splitlines()


def fingerprint() -> str:
    """What `.venv` was made from: the requirements, then the Python and the place."""
    digest = hashlib.sha256()
    for name in REQUIREMENTS:
        digest.update(hashlib.sha256((ROOT / name).read_bytes()).digest())
    return f"{digest.hexdigest()}\n{sys.implementation.cache_tag} {ROOT}\n"


def stamp() -> tuple[str, set[str]]:
    """What the finished `.venv` was made from, and the extras that it has; empty without one."""
    try:
        *made_from, extras = STAMP.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, ValueError):
        return "", set()
    return "".join(made_from), set(extras.split())


def venv_is_current(extra: str) -> bool:
    """Whether `.venv` can be used as it is, with no install and no internet."""
    made_from, extras = stamp()
    return made_from == fingerprint() and extra in extras and python_of(VENV).exists()


def require_own_folder() -> None:
    """Refuse an environment of another user, such as root, before anything is changed."""
    if not os.access(VENV if VENV.exists() else ROOT, os.W_OK):
        what = f"{VENV} is incomplete or old, and" if VENV.exists() else f"{ROOT}"
        raise CannotGoOn(
            f"{what} belongs to another user: give this command as that user, or copy the course "
            "without .venv to a folder of your own"
        )


def refresh_venv(extra: str) -> None:
    """Bring `.venv` up to date; when interrupted, the next call starts afresh."""
    if venv_is_current(extra):  # another course.py made it while this one waited
        return
    wanted, (made_from, extras) = fingerprint(), stamp()
    if not keeps_venv(wanted, made_from):
        make_venv()
    STAMP.write_bytes(b"")
    extras |= {"course", extra}
    install(extras)
    write_whole(STAMP, f"{wanted}{' '.join(sorted(extras))}".encode())


def keeps_venv(wanted: str, made_from: str) -> bool:
    """Whether `.venv` only lacks packages: it has the Python that runs now, or a person's own."""
    if made_by_another_tool():
        lacks = what_is_missing(python_of(VENV), "course")
        return not any("Python" in each for each in lacks)
    same_python = made_from.splitlines()[1:] == wanted.splitlines()[1:]
    return same_python and python_of(VENV).exists()


def make_venv() -> None:
    """Make an empty `.venv`, in place of one that cannot be kept."""
    if VENV.exists() and not (VENV / "pyvenv.cfg").exists():
        raise CannotGoOn(f"{VENV} is not a virtual environment; please move it away")
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise CannotGoOn(f"this Python has no module {missing[0]}. {how_to_get_venv()}")
    say(f"making {VENV} with Python {sys.version.split()[0]}")
    if VENV.exists():
        shutil.rmtree(VENV)
    if subprocess.call([sys.executable, "-m", "venv", str(VENV)]):
        raise CannotGoOn(f"could not make a virtual environment. {how_to_get_venv()}")


def how_to_get_venv() -> str:
    """What to install so that `python3 -m venv` works."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return (
        f"On Debian or Ubuntu: sudo apt install python3-venv (or python{version}-venv). "
        "Elsewhere: install Python from python.org, or use conda as README.md says."
    )


def install(extras: Collection[str]) -> None:
    """Install the course with these extras into `.venv`, in the versions that were tested."""
    needed = " and ".join(NEEDED_BY[each] for each in sorted(extras))
    folder = os.environ.get(WHEELHOUSE)
    source = f"from {folder}" if folder else "and only now the internet"
    say(f"installing {needed}: at least 130 MB, {source}; a minute with uv, some with pip")
    wanted = ["-c", "constraints.txt", "-e", f".[{','.join(sorted(extras))}]"]
    links = ["--no-index", "--find-links", str(Path(folder).resolve())] if folder else []
    settings = {**os.environ, "PIP_USER": "0"}  # a user's pip.conf may say otherwise
    pip = [str(python_of(VENV)), "-m", "pip", "install", "--no-input"]
    pip += ["--disable-pip-version-check", *links]
    uv = uv_command()
    if not uv:
        subprocess.run([*pip, "uv"], env=settings, capture_output=True)  # without it, pip goes on
        uv = uv_command()
    if uv:
        quick = [*uv, "pip", "install", "--python", str(python_of(VENV)), *links]
        if not without_packages([*quick, *wanted], settings):
            return
        say("uv could not install everything; pip tries")
    if subprocess.call([*pip, *wanted], cwd=ROOT, env=settings):
        raise CannotGoOn(
            "pip could not install everything, see above. If it could not reach the package "
            "index: connect to the internet and give the same command again."
        )


def without_packages(command: Sequence[str], settings: Mapping[str, str]) -> int:
    """Run uv, and show its lines without one for each package; return its exit status.

    A terminal shows how many of the large packages are here, in place.
    """
    downloads = {"Downloading": 0, "Downloaded": 0}
    with subprocess.Popen(
        command, cwd=ROOT, env=settings, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as uv:
        assert uv.stderr is not None
        for line in uv.stderr:
            word = line.strip().partition(" ")[0]
            if word in downloads:
                downloads[word] += 1
                if sys.stdout.isatty():
                    here, begun = downloads["Downloaded"], downloads["Downloading"]
                    print(f"\r{here} of {begun} large packages downloaded ", end="", flush=True)
            elif word not in ("+", "-", "~", "Building", "Built"):
                start = "\n" if any(downloads.values()) and sys.stdout.isatty() else ""
                downloads = dict.fromkeys(downloads, 0)
                print(f"{start}{line}", end="", flush=True)
    return uv.returncode


def uv_command() -> list[str]:
    """The command of uv, which installs in a tenth of the time; empty if there is none.

    A user's own settings of pip may name another index, which uv does not know.
    """
    if any(os.environ.get(name) for name in ("PIP_NO_INDEX", "PIP_INDEX_URL", "PIP_CONFIG_FILE")):
        return []
    beside = python_of(VENV).with_name("uv.exe" if sys.platform == "win32" else "uv")
    for program in filter(None, (shutil.which("uv"), str(beside))):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run([program, "--version"], check=True, capture_output=True, timeout=20)
            return [program]
    return []


def lab(arguments: Sequence[str]) -> int:
    """Open your lessons in JupyterLab: [--no-browser] [--port N] [--wheelhouse FOLDER] ..."""
    options = my_lessons.lab_options(arguments)
    if options.wheelhouse:
        os.environ[WHEELHOUSE] = options.wheelhouse
    hand_over(course_python(), my_lessons.lab_command(options), my_lessons.lab_environment())


def wheelhouse(arguments: Sequence[str]) -> int:
    """Fetch what the laptops of a class need: FOLDER [--python 3.13] [--system linux windows]."""
    uv = uv_command()
    if not uv:
        raise CannotGoOn("this command needs uv, for example: pip install uv")
    folder = [str(Path(each).resolve()) if n == 0 else each for n, each in enumerate(arguments)]
    hand_over(Path(sys.executable), ["-m", "tools.wheelhouse", *folder, "--uv", uv[0]])


def doctor(arguments: Sequence[str]) -> int:
    """Say in ten seconds whether this machine is ready for a lesson: [03]; installs nothing."""
    prefixes = [*active_prefixes(), VENV]
    complete = (
        python_of(each) for each in prefixes if not what_is_missing(python_of(each), "course")
    )
    hand_over(next(complete, Path(sys.executable)), ["-m", "tools.doctor", *arguments])


def test(arguments: Sequence[str]) -> int:
    """Run the tests, core notebooks included: [--long] [arguments for pytest]."""
    if not (ROOT / "tests").is_dir():
        print("course.py: this edition has no tests: try `python3 course.py run --fast 00 03`")
        return 1
    hand_over(course_python("dev"), ["-m", "tools.testing", *arguments])


def run(arguments: Sequence[str]) -> int:
    """Execute the notebooks without a browser: [--fast | --full] [names]."""
    hand_over(course_python(), ["-m", "tools.run_notebooks", *arguments])


def check(arguments: Sequence[str]) -> int:
    """Check notebooks, lint, format, types and generated code: [--fix | --generate]."""
    hand_over(course_python("dev"), ["-m", "tools.check", *arguments])


BUILT = {
    "site": ("site", "the site, every lesson executed: [names]"),
    "html": ("site", "a lesson as a page: [names]"),
    "slides": ("site", "a lesson for a projector: [names]"),
    "student": ("course", "the course without solutions: [--zip]"),
    "teacher": ("course", "the course with outputs: [--zip]"),
    "nbgrader": ("course", "assignments to mark: [names]"),
    "otter": ("course", "assignments to mark: [names]"),
}
FOR_A_CLASS = {
    "open": ("course", "votes in the room: [--lan] [LESSONS]"),
    "collect": ("course", "the progress of all as tables: FILES"),
    "certificate": ("tls", "for a server that others reach: FOLDER"),
    "etcd": ("course", "a cluster on this machine: [--nodes 3]"),
}
"""The parts of `build` and `class`: the extra that each needs, and what it does."""
MODULES = {"open": "kvstore.classroom", "etcd": "kvstore.server.etcd_nodes"}
"""The parts of `class` that are not in tools/."""


def build(arguments: Sequence[str]) -> int:
    """Write pages, editions or assignments into build/: site, html, slides, student ..."""
    return part_of(BUILT, "build", arguments)


def for_class(arguments: Sequence[str]) -> int:
    """Help a teacher: open, collect, certificate or etcd."""
    return part_of(FOR_A_CLASS, "class", arguments)


def part_of(parts: Mapping[str, tuple[str, str]], command: str, arguments: Sequence[str]) -> int:
    """Become a part of a command, such as `build site`; without one, list them."""
    name, *rest = arguments or [""]
    if name not in parts:
        lines = [f"  python3 course.py {command} {each:12} {of[1]}" for each, of in parts.items()]
        print("\n".join(lines))
        return 0 if name in ("", "-h", "--help") else 2
    module = ["tools.build", name] if command == "build" else [MODULES.get(name, f"tools.{name}")]
    # The command runs in the folder of the course, and a path is one from here.
    paths = [
        str(Path(each).resolve()) if os.sep in each or Path(each).exists() else each
        for each in rest
    ]
    hand_over(course_python(parts[name][0]), ["-m", *module, *paths])


def bench(arguments: Sequence[str]) -> int:
    """Measure the course itself, side by side with what is installed."""
    hand_over(course_python("dev"), ["-m", "benchmarks", *arguments])


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "lab": lab,
    "doctor": doctor,
    "fresh": my_lessons.fresh,
    "test": test,
    "run": run,
    "check": check,
    "build": build,
    "class": for_class,
    "bench": bench,
    "wheelhouse": wheelhouse,
}


def hand_over(
    python: Path, command: Sequence[str], extra: Mapping[str, str] | None = None
) -> NoReturn:
    """Become this command, so that Ctrl-C reaches it alone and its exit status is ours."""
    os.chdir(ROOT)
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    arguments, settings = [str(python), *command], {**os.environ, "PATH": path, **(extra or {})}
    sys.stdout.flush()
    if sys.platform != "win32":
        os.execve(arguments[0], arguments, settings)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows has no exec: the child decides
    sys.exit(subprocess.call(arguments, env=settings))


def usage() -> str:
    """What `course.py` prints without a command."""
    lines = [f"  python3 course.py {name:6} {do.__doc__}" for name, do in COMMANDS.items()]
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
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise CannotGoOn(
                "this Python is a free-threaded build, which runs several threads at once; the "
                "lessons predict the usual build. Take that one: python3.13 course.py lab"
            )
        return COMMANDS[name](rest)
    except CannotGoOn as obstacle:
        say(str(obstacle))
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
