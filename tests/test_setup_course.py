"""course.py, in a copy of the checkout with a space and an umlaut in its path."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tools import files

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of its own, so that no test touches the real environment."""
    place = tmp_path / "my courses, \u00fcbung" / "rpc"
    place.mkdir(parents=True)
    for name in ("course.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "tools", place / "tools")
    (place / "tests").mkdir()
    (place / "tests" / "test_nothing.py").touch()
    return place


@pytest.fixture
def course(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """course.py of that checkout, with no environment active."""
    spec = importlib.util.spec_from_file_location("course_under_test", checkout / "course.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    return module


class Started:
    """Stands in for starting programs: makes what `venv` makes, and keeps what was installed."""

    def __init__(self, course: ModuleType) -> None:
        self.course = course
        self.venvs = 0
        self.installs: list[Sequence[str]] = []
        self.failing: set[str] = set()
        """The installers that end with an error."""

    def call(self, command: Sequence[str], **_: object) -> int:
        if command[1:3] == ["-m", "venv"]:
            self.venvs += 1
            make_environment(self.course)
        else:
            self.installs.append(command)
            return int(("uv" if command[0] == "uv" else "pip") in self.failing)
        return 0


def make_environment(course: ModuleType) -> None:
    """Make what `venv`, uv or an editor makes."""
    python = course.python_of(course.VENV)
    python.parent.mkdir(parents=True)
    python.touch()
    (course.VENV / "pyvenv.cfg").touch()


@pytest.fixture
def started(course: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Started:
    double = Started(course)
    monkeypatch.setattr(course.subprocess, "call", double.call)
    monkeypatch.setattr(course, "without_packages", lambda command, _: double.call(command))
    monkeypatch.setattr(course.subprocess, "run", lambda *_, **__: None)  # uv cannot be had
    monkeypatch.setattr(course, "uv_command", lambda: [])
    return double


def test_what_is_no_command_is_answered_with_those_there_are(course, capsys):
    assert course.main([]) == 0
    assert "course.py lab" in capsys.readouterr().out
    assert course.main(["labb"]) == 2
    assert "'labb'" in capsys.readouterr().err


def test_a_python_that_will_not_do_says_what_to_install(course, started, capsys, monkeypatch):
    """Debian ships Python without `venv`; the message has to name its package."""
    ast.parse((ROOT / "course.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", (3, 8, 18))
        assert course.main(["lab"]) == 1
    assert "3.11 or newer" in capsys.readouterr().err

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ensurepip", None)
        assert course.main(["test"]) == 1
    assert "sudo apt install python3-venv" in capsys.readouterr().err
    assert not course.VENV.exists()


def test_it_is_installed_once_and_over_the_old_one_when_the_requirements_changed(course, started):
    assert course.course_python() == course.course_python() == course.python_of(course.VENV)
    course.course_python("site")  # what more a command needs is added, and stays
    for name in ("pyproject.toml", "constraints.txt"):
        with (course.ROOT / name).open("a") as file:
            file.write("# changed\n")
        course.course_python()
        course.course_python()

    assert started.venvs == 1
    assert [each[-1] for each in started.installs] == [".[course]", *[".[course,site]"] * 3]


def test_an_unfinished_install_is_done_again_from_the_start(course, started, capsys):
    """What pip left half done looks installed to it, so the folder cannot be kept."""
    started.failing = {"pip"}
    assert course.main(["test"]) == 1
    assert "connect to the internet" in capsys.readouterr().err
    started.failing = set()

    course.course_python()

    assert started.venvs == 2


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


def test_uv_installs_where_it_is_there_and_pip_where_it_fails(course, started, monkeypatch):
    monkeypatch.setattr(course, "uv_command", lambda: ["uv"])
    monkeypatch.setenv("COURSE_WHEELHOUSE", "stick")  # in place of the internet
    make_environment(course)
    started.failing = {"uv"}

    course.install({"course"})

    assert [each[0] for each in started.installs] == ["uv", str(course.python_of(course.VENV))]
    for command in started.installs:
        place = command.index("--find-links")
        assert command[place - 1 : place + 2][::2] == ["--no-index", str(Path("stick").resolve())]


def test_the_steps_of_uv_are_shown_and_its_list_of_packages_is_not(course, capsys, monkeypatch):
    lines = ["Resolved 2 packages", "Downloading numpy (9MiB)", " Downloaded numpy", " + numpy==2"]
    says = f"import sys; print(*{lines}, sep=chr(10), file=sys.stderr); sys.exit(3)"

    assert 3 == course.without_packages([sys.executable, "-c", says], {})
    assert "Resolved 2 packages\n" == capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    course.without_packages([sys.executable, "-c", says], {})
    assert "1 of 1 large packages downloaded" in capsys.readouterr().out


def test_what_root_made_is_used_or_refused_in_words(course, started, monkeypatch, capsys):
    """Root first, then a user: no file of the first can be written by the second."""
    course.course_python()
    monkeypatch.setattr(course.os, "access", lambda _path, _mode: False)
    assert course.course_python() == course.python_of(course.VENV)

    (course.ROOT / "constraints.txt").write_text("")
    assert course.main(["lab"]) == 1
    assert "belongs to another user" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="files have other locks on Windows")
def test_a_second_course_py_waits_for_the_first(course):
    with course.one_at_a_time(course.LOCK, "testing"), course.LOCK.open() as another:
        assert not files.locked(another)
    with course.LOCK.open() as another:
        assert files.locked(another)


def test_the_active_environment_really_runs_the_tests(checkout, tmp_path):
    """The real thing, from another folder: probe, choice, and becoming pytest."""
    record = tmp_path / "site" / "rpc_throughput_course-0.1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Name: rpc-throughput-course\nVersion: 0.1.0\n")
    (record / "direct_url.json").write_text(
        f'{{"url": "{checkout.as_uri()}", "dir_info": {{"editable": true}}}}'
    )
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
