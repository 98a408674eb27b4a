"""course.py, in a copy of the checkout with a space in its path."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tools import check, files

ROOT = Path(__file__).resolve().parent.parent
Call = Callable[..., int]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of its own, so that no test touches the real environment."""
    place = tmp_path / "my courses" / "rpc"
    place.mkdir(parents=True)
    for name in ("course.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "tools", place / "tools")
    return place


@pytest.fixture
def course(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """course.py of that checkout, with no environment active and nothing really started."""
    spec = importlib.util.spec_from_file_location("course_under_test", checkout / "course.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    (module.ROOT / "tests").mkdir(exist_ok=True)  # an edition for students has none
    return module


class Pip:
    """A pip that has ended with this status."""

    stdout = (
        "Collecting a\n",
        "  Downloading a-1.0-py3-none-any.whl.metadata (4.4 kB)\n",
        "Downloading a-1.0-py3-none-any.whl (1.5 MB)\n",
        "  Using cached b-1.0-py3-none-any.whl (500 kB)\n",
        "Installing collected packages: a, b\n",
    )

    def __init__(self, returncode: int) -> None:
        self.returncode = returncode

    def __enter__(self) -> "Pip":
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Started:
    """Stands in for starting programs: makes what `venv` makes, and keeps the arguments of pip."""

    def __init__(self, course: ModuleType) -> None:
        self.course = course
        self.venvs = 0
        self.installs: list[Sequence[str]] = []
        self.pip: Call = lambda: 0
        self.uv: Call = lambda: 0

    def __call__(self, command: Sequence[str], **_: object) -> int:
        if command[1:3] == ["-m", "venv"]:
            self.venvs += 1
            make_environment(self.course)
            return 0
        if command[-1] == "uv":
            return 1  # it cannot be had
        assert command[1:] == ["-c", "import pip"]
        return 0

    def popen(self, command: Sequence[str], *, env: dict[str, str], **_: object) -> "Pip":
        """Stand in for pip, which writes some lines."""
        assert "install" in command
        assert env["PIP_USER"] == "0", "a user's pip.conf may say otherwise"
        self.installs.append(command)
        return Pip(self.uv() if command[0] == "uv" else self.pip())


def make_environment(course: ModuleType) -> None:
    """Make what `venv`, uv or an editor makes."""
    python = course.python_of(course.VENV)
    python.parent.mkdir(parents=True)
    python.touch()
    (course.VENV / "pyvenv.cfg").touch()


@pytest.fixture
def started(course: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Started:
    double = Started(course)
    monkeypatch.setattr(course.subprocess, "call", double)
    monkeypatch.setattr(course.subprocess, "Popen", double.popen)
    monkeypatch.setattr(course, "uv_command", lambda: [])
    return double


def stop() -> int:
    raise KeyboardInterrupt


# ---- what is said --------------------------------------------------------------------------


def test_what_is_no_command_is_answered_with_those_there_are(course, capsys):
    assert course.main([]) == 0
    said = capsys.readouterr().out
    assert all(f"course.py {name}" in said for name in ("lab", "test", "run", "check", "bench"))
    assert said.rstrip().endswith("Begin with: python3 course.py lab")

    assert course.main(["labb"]) == 2
    assert "'labb'" in capsys.readouterr().err
    assert course.main(["build", "slide"]) == 2
    assert "slides" in capsys.readouterr().out
    for name in ("site", "export", "edition", "collect", "prove", "etcd"):
        assert course.main([name, "x"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.rpartition("course.py ")[2].split()[0] in course.COMMANDS


def test_an_old_python_reads_the_file_and_says_what_to_install(
    course, started, capsys, monkeypatch
):
    ast.parse((ROOT / "course.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    monkeypatch.setattr(sys, "version_info", (3, 8, 18))

    assert course.main(["lab"]) == 1

    said = capsys.readouterr().err
    assert "this is Python 3.8" in said
    assert "3.11 or newer" in said
    assert started.venvs == 0


def test_a_python_that_cannot_make_environments_says_what_to_install(
    course, started, capsys, monkeypatch
):
    """Debian ships Python without these modules; the message has to name its package."""
    for module in ("venv", "ensurepip"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)

            assert course.main(["test"]) == 1

        said = capsys.readouterr().err
        assert f"no module {module}" in said
        assert "sudo apt install python3-venv" in said
    assert not course.VENV.exists()

    # Some systems have both modules and still lack the wheels that ensurepip needs.
    monkeypatch.setattr(course.subprocess, "call", lambda *_, **__: 1)
    assert course.main(["test"]) == 1
    assert "python3-venv" in capsys.readouterr().err


# ---- when .venv is made --------------------------------------------------------------------


def test_it_is_installed_once_and_over_the_old_one_when_the_requirements_changed(course, started):
    assert course.course_python() == course.course_python() == course.python_of(course.VENV)
    (command,) = started.installs
    assert command[0] == str(course.python_of(course.VENV))
    assert command[-4:] == ["-c", "constraints.txt", "-e", ".[course]"]

    course.course_python("site")  # what more a command needs is added, and stays
    for name in ("pyproject.toml", "constraints.txt"):
        with (course.ROOT / name).open("a") as file:
            file.write("# changed\n")
        course.course_python()
        course.course_python()

    assert started.venvs == 1
    assert [command[-1] for command in started.installs[1:]] == [".[course,site]"] * 3


@pytest.mark.parametrize("refresh", [False, True])
def test_an_unfinished_install_is_done_again_from_the_start(course, started, capsys, refresh):
    """What pip left half done looks installed to it, so the folder cannot be kept."""
    if refresh:
        course.course_python()
        (course.ROOT / "constraints.txt").write_text("")
    for pip, status in ((stop, 130), (lambda: 1, 1)):
        started.pip = pip
        assert course.main(["test"]) == status
    assert "connect to the internet" in capsys.readouterr().err
    started.pip = lambda: 0

    course.course_python()

    assert started.venvs == 3


def test_an_environment_that_no_longer_fits_is_made_again(course, started, monkeypatch):
    """Its Python went away, or another Python runs."""
    course.course_python().unlink()
    course.course_python()
    assert started.venvs == 2

    monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-399")
    course.course_python()
    assert started.venvs == 3


def test_a_folder_that_is_no_environment_is_not_deleted(course, started, capsys):
    course.VENV.mkdir()
    (course.VENV / "thesis.txt").write_text("years of work")

    assert course.main(["lab"]) == 1

    assert "please move it away" in capsys.readouterr().err
    assert (course.VENV / "thesis.txt").exists()


def test_an_environment_of_another_tool_that_lacks_nothing_is_used(course, started, monkeypatch):
    """uv, PyCharm and VS Code make `.venv`, too."""
    make_environment(course)
    lacking = {"course": [], "dev": ["pytest is not installed"]}
    monkeypatch.setattr(course, "what_is_missing", lambda _python, extra: lacking[extra])

    assert course.course_python() == course.python_of(course.VENV)
    assert (started.venvs, started.installs) == (0, [])

    course.course_python("dev")  # what is missing is added to it
    assert (started.venvs, len(started.installs)) == (0, 1)


def test_uv_installs_where_it_is_there_and_pip_where_it_fails(course, started, monkeypatch, capsys):
    monkeypatch.setattr(course, "uv_command", lambda: ["uv"])
    monkeypatch.setattr(course, "what_is_missing", lambda _python, _extra: ["everything"])
    make_environment(course)
    course.course_python()
    assert [command[0] for command in started.installs] == ["uv"]

    started.uv = lambda: 1
    course.course_python("dev")
    assert [command[0] for command in started.installs[1:]] == [
        "uv",
        str(course.python_of(course.VENV)),
    ]
    assert len(capsys.readouterr().err.splitlines()) <= 10


def test_a_folder_of_packages_is_used_in_place_of_the_internet(course, started, monkeypatch):
    monkeypatch.setenv("COURSE_WHEELHOUSE", str(course.ROOT / "stick"))
    course.course_python()
    (command,) = started.installs
    place = command.index("--find-links")
    assert command[place - 1 : place + 2] == [
        "--no-index",
        "--find-links",
        str(course.ROOT / "stick"),
    ]


def test_two_at_once_install_once(course, started, monkeypatch):
    """The second one waits, and then finds the work done."""
    inside, waiting, go_on = threading.Event(), threading.Event(), threading.Event()

    def slow_pip() -> int:
        inside.set()
        assert go_on.wait(10)
        return 0

    started.pip = slow_pip
    monkeypatch.setattr(files, "say", lambda text: waiting.set() if "waiting" in text else None)
    threads = [threading.Thread(target=course.course_python) for _ in range(2)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    assert waiting.wait(10)
    go_on.set()
    for thread in threads:
        thread.join(10)

    assert (started.venvs, len(started.installs)) == (1, 1)


def test_pip_is_one_line_unless_it_fails(course, started, capsys):
    course.course_python()
    said = capsys.readouterr().err
    assert len(said.splitlines()) <= 5
    assert "2 packages" in said

    (course.ROOT / "constraints.txt").write_text("")
    started.pip = lambda: 1
    assert course.main(["test"]) == 1
    assert "Installing collected packages: a, b" in capsys.readouterr().err


def test_what_root_made_is_used_or_refused_in_words(course, started, monkeypatch, capsys):
    """Root first, then a user: no file of the first can be written by the second."""
    course.course_python()
    monkeypatch.setattr(course.os, "access", lambda _path, _mode: False)
    opened = Path.open

    def refused(path: Path, mode: str = "r", **how: object) -> object:
        if mode == "w" and path == course.LOCK:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, mode, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refused)
        with course.one_at_a_time(course.LOCK, "testing"), opened(course.LOCK) as another:
            assert not files.locked(another)
    assert course.course_python() == course.python_of(course.VENV)

    (course.ROOT / "constraints.txt").write_text("")
    assert course.main(["lab"]) == 1
    assert "belongs to another user" in capsys.readouterr().err


# ---- which environment ---------------------------------------------------------------------


@pytest.fixture
def probes(course: ModuleType, monkeypatch: pytest.MonkeyPatch) -> dict[Path, list[str]]:
    """What each environment lacks, by its prefix."""
    lacking: dict[Path, list[str]] = {}
    monkeypatch.setattr(
        course,
        "what_is_missing",
        lambda python, _extra: next(v for k, v in lacking.items() if k in python.parents),
    )
    return lacking


def test_an_active_environment_that_will_do_is_used(
    course, started, probes, tmp_path, monkeypatch, capsys
):
    """The one that runs comes first: who types /some/venv/bin/python course.py means that one."""
    for variable in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        probes[tmp_path / variable] = []
        monkeypatch.setenv(variable, str(tmp_path / variable))

        assert course.course_python() == course.python_of(tmp_path / variable)

        assert f"using the active environment {tmp_path / variable}" in capsys.readouterr().err
    probes[tmp_path / "running"] = []
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "running"))
    assert tmp_path / "running" in course.course_python().parents
    assert started.venvs == 0


def test_an_active_environment_that_will_not_do_is_left_alone(
    course, started, probes, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "mine"))
    monkeypatch.setenv("CONDA_PREFIX", str(course.VENV))  # ours has to be up to date as well
    probes[tmp_path / "mine"] = ["a is not installed", "b is old", "c", "d", "e"]
    probes[course.VENV] = []

    assert course.course_python() == course.python_of(course.VENV)

    said = capsys.readouterr().err
    assert "not using the active environment" in said
    assert "a is not installed; b is old; c and 2 more" in said
    assert len(started.installs) == 1


def test_a_probe_that_breaks_is_not_taken_for_an_answer(course, tmp_path):
    (problem,) = course.what_is_missing(tmp_path / "bin" / "python", "course")
    assert "does not start" in problem

    (course.ROOT / "tools" / "satisfied.py").write_text("raise SystemExit('boom')")

    assert course.what_is_missing(Path(sys.executable), "course") == ["boom"]


# ---- the commands --------------------------------------------------------------------------


def test_a_command_is_its_module_and_a_path_is_one_from_here(course, monkeypatch, tmp_path):
    handed: list[list[str]] = []
    monkeypatch.setattr(course, "course_python", lambda _extra="course": Path("python"))
    monkeypatch.setattr(
        course, "hand_over", lambda _python, command, _extra=None: handed.append(list(command))
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ada.sqlite3").touch()
    for command in ("run --full 01", "bench 3", "build slides 03", "class collect ada.sqlite3"):
        course.main(command.split())
    for user in (0, 1000):  # only root needs --allow-root
        monkeypatch.setattr(os, "geteuid", lambda user=user: user, raising=False)
        course.main(["lab", "--port", "8899", "--no-browser"])

    assert [" ".join(command) for command in handed[:4]] == [
        "-m tools.run_notebooks --full 01",
        "-m benchmarks 3",
        "-m tools.build slides 03",
        f"-m tools.collect {tmp_path / 'ada.sqlite3'}",
    ]
    assert ["--allow-root" in command for command in handed[4:]] == [True, False]
    assert {"--ServerApp.port=8899", "--ServerApp.port_retries=0", "--no-browser"} < set(handed[4])


def test_check_does_every_step_and_fails_if_one_did(capsys, monkeypatch):
    results = {}
    for failing in ("tools.generated", "tools.notebooks", "mypy", "format", "no step"):
        steps: list[Sequence[str]] = []

        def call(command: Sequence[str], failing=failing, steps=steps, **_: object) -> int:
            steps.append(command)
            return int(failing in command)

        monkeypatch.setattr(check.subprocess, "call", call)
        results[failing] = (check.main([]), len(steps))

    assert results == {**dict.fromkeys(results, (1, 5)), "no step": (0, 5)}


def test_the_active_environment_really_runs_the_tests(checkout, tmp_path):
    """The real thing, from another folder: probe, choice, and becoming pytest."""
    record = tmp_path / "site" / "rpc_throughput_course-0.1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Name: rpc-throughput-course\nVersion: 0.1.0\n")
    (record / "direct_url.json").write_text(
        f'{{"url": "{checkout.as_uri()}", "dir_info": {{"editable": true}}}}'
    )
    (checkout / "tests").mkdir()
    (checkout / "tests" / "test_nothing.py").touch()  # older ones warn of a folder without tests
    settings = {
        **os.environ,
        "VIRTUAL_ENV": sys.prefix,
        "PYTHONPATH": str(record.parent),
        "PIP_NO_INDEX": "1",  # should it choose wrongly, it fails instead of installing
    }

    ended = subprocess.run(
        [sys.executable, checkout / "course.py", "test", "--version"],
        cwd=tmp_path,
        env=settings,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert f"using the active environment {Path(sys.prefix).resolve()}" in ended.stderr
    assert "pytest" in ended.stdout
    assert ended.returncode == 0
    assert not (checkout / ".venv").exists()
