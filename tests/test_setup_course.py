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

    def __call__(self, command: Sequence[str], **_: object) -> int:
        if command[1:3] == ["-m", "venv"]:
            self.venvs += 1
            python = self.course.python_of(Path(command[3]))
            python.parent.mkdir(parents=True)
            python.touch()
            (Path(command[3]) / "pyvenv.cfg").touch()
            return 0
        raise AssertionError(command)

    def popen(self, command: Sequence[str], *, env: dict[str, str], **_: object) -> "Pip":
        """Stand in for pip, which writes some lines."""
        assert command[1:4] == ["-m", "pip", "install"]
        assert env["PIP_USER"] == "0", "a user's pip.conf may say otherwise"
        self.installs.append(command)
        return Pip(self.pip())


@pytest.fixture
def started(course: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Started:
    double = Started(course)
    monkeypatch.setattr(course.subprocess, "call", double)
    monkeypatch.setattr(course.subprocess, "Popen", double.popen)
    return double


def stop() -> int:
    raise KeyboardInterrupt


# ---- what is said --------------------------------------------------------------------------


def test_without_a_command_it_says_how_to_begin(course, capsys):
    assert course.main([]) == 0

    said = capsys.readouterr().out
    assert all(f"course.py {name}" in said for name in ("lab", "test", "run", "check", "bench"))
    assert said.rstrip().endswith("Begin with: python3 course.py lab")


def test_an_unknown_command_is_named_and_refused(course, capsys):
    assert course.main(["labb"]) == 2

    assert "'labb'" in capsys.readouterr().err


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


def test_the_install_is_editable_done_once_and_held_to_the_tested_versions(course, started):
    first = course.course_python()
    second = course.course_python()

    assert first == second == course.python_of(course.VENV)
    assert started.venvs == 1
    (command,) = started.installs
    assert command[0] == str(course.python_of(course.VENV))
    assert command[-4:] == ["-c", "constraints.txt", "-e", ".[course]"]


def test_a_changed_requirement_is_installed_over_the_old_ones(course, started):
    course.course_python()
    for installs, name in enumerate(("pyproject.toml", "constraints.txt"), 2):
        with (course.ROOT / name).open("a") as file:
            file.write("# changed\n")

        course.course_python()
        course.course_python()

        assert (started.venvs, len(started.installs)) == (1, installs), name


def test_an_unfinished_install_is_done_again_from_the_start(course, started, capsys):
    """What pip left half done looks installed to it, so the folder cannot be kept."""
    for tries, (pip, status) in enumerate([(stop, 130), (lambda: 1, 1), (lambda: 0, None)], 1):
        started.pip = pip

        assert course.course_python() if status is None else course.main(["test"]) == status

        assert (started.venvs, len(started.installs)) == (tries, tries)
    assert "connect to the internet" in capsys.readouterr().err


def test_an_unfinished_refresh_is_done_again_from_the_start(course, started):
    course.course_python()
    (course.ROOT / "constraints.txt").write_text("")
    started.pip = stop
    with pytest.raises(KeyboardInterrupt):
        course.course_python()
    started.pip = lambda: 0

    course.course_python()

    assert started.venvs == 2


def test_an_environment_that_no_longer_fits_is_made_again(course, started, monkeypatch):
    """Its Python went away, another Python runs, or the checkout was moved with its paths."""
    course.python_of(course.course_python().parent.parent).unlink()
    course.course_python()
    assert started.venvs == 2

    monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-399")
    course.course_python()
    assert started.venvs == 3

    moved = course.ROOT.with_name("moved")
    course.ROOT.rename(moved)
    for name, value in {"ROOT": moved, "VENV": moved / ".venv", "LOCK": moved / ".lock"}.items():
        monkeypatch.setattr(course, name, value)
    for name in ("STAMP", "PIP_SAID"):
        monkeypatch.setattr(course, name, moved / ".venv" / getattr(course, name).name)
    course.course_python()
    assert started.venvs == 4


def test_a_folder_that_is_no_environment_is_not_deleted(course, started, capsys):
    course.VENV.mkdir()
    (course.VENV / "thesis.txt").write_text("years of work")

    assert course.main(["lab"]) == 1

    assert "please move it away" in capsys.readouterr().err
    assert (course.VENV / "thesis.txt").exists()


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


def test_what_more_a_command_needs_is_added_and_a_new_environment_has_it_again(course, started):
    course.course_python()
    course.course_python("site")
    course.course_python()
    (course.ROOT / "constraints.txt").write_text("")
    course.course_python()

    assert started.venvs == 1
    assert [command[-1] for command in started.installs] == [
        ".[course]", ".[course,site]", ".[course,site]",
    ]  # fmt: skip


def test_pip_is_one_line_unless_it_fails(course, started, capsys):
    course.course_python()
    said = capsys.readouterr().err
    assert len(said.splitlines()) <= 5
    assert "2 packages, 2 MB" in said

    (course.ROOT / "constraints.txt").write_text("")
    started.pip = lambda: 1
    assert course.main(["test"]) == 1
    assert "Installing collected packages: a, b" in capsys.readouterr().err


def test_what_root_made_is_used_or_refused_in_words(course, started, monkeypatch, capsys):
    """Root first, then a user: no file of the first can be written by the second."""
    course.course_python()
    monkeypatch.setattr(course.os, "access", lambda _path, _mode: False)

    assert course.course_python() == course.python_of(course.VENV)

    (course.ROOT / "constraints.txt").write_text("")
    assert course.main(["lab"]) == 1
    assert "belongs to another user" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_a_lock_file_that_only_its_owner_may_write_is_locked_all_the_same(course, tmp_path):
    lock = tmp_path / ".lock"
    lock.touch()
    opened = type(lock).open

    def refused(path: Path, mode: str = "r") -> object:
        if mode != "r":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, mode)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(lock), "open", refused)
        with course.one_at_a_time(lock, "testing"), opened(lock, "r") as another:
            assert not files.locked(another)


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
    probes[tmp_path / "mine"] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, str(tmp_path / "mine"))

            assert course.course_python() == course.python_of(tmp_path / "mine"), variable

        assert f"using the active environment {tmp_path / 'mine'}" in capsys.readouterr().err
    assert started.venvs == 0


def test_an_active_environment_that_will_not_do_is_left_alone(
    course, started, probes, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "mine"))
    probes[tmp_path / "mine"] = ["a is not installed", "b is old", "c", "d", "e"]

    assert course.course_python() == course.python_of(course.VENV)

    said = capsys.readouterr().err
    assert "not using the active environment" in said
    assert "a is not installed; b is old; c and 2 more" in said


def test_the_environment_that_runs_comes_before_the_one_that_is_named(
    course, started, probes, tmp_path, monkeypatch
):
    """A learner who types /some/venv/bin/python course.py means this environment."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "running"))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "named"))
    probes[tmp_path / "running"] = []
    probes[tmp_path / "named"] = []

    assert tmp_path / "running" in course.course_python().parents


def test_an_activated_dot_venv_is_still_kept_up_to_date(course, started, probes, monkeypatch):
    """Meeting the floors is enough for a stranger's environment, not for our own."""
    monkeypatch.setenv("VIRTUAL_ENV", str(course.VENV))
    probes[course.VENV] = []

    course.course_python()

    assert len(started.installs) == 1


def test_a_probe_that_breaks_is_not_taken_for_an_answer(course, tmp_path):
    (problem,) = course.what_is_missing(tmp_path / "bin" / "python", "course")
    assert "does not start" in problem

    (course.ROOT / "tools" / "satisfied.py").write_text("raise SystemExit('boom')")

    assert course.what_is_missing(Path(sys.executable), "course") == ["boom"]


# ---- the commands --------------------------------------------------------------------------


@pytest.fixture
def handed(course: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict]]:
    """The commands that course.py became, with the environment variables they got."""
    seen: list[tuple[list[str], dict]] = []
    monkeypatch.setattr(course, "course_python", lambda _extra="course": Path("python"))
    monkeypatch.setattr(
        course,
        "hand_over",
        lambda _python, command, extra=None: seen.append((list(command), extra or {})),
    )
    return seen


def test_run_and_bench_pass_on_their_arguments(course, handed):
    course.main(["run", "--full", "01_blocking"])
    course.main(["bench", "3"])

    assert [command[1:] for command, _ in handed] == [
        ["tools.run_notebooks", "--full", "01_blocking"],
        ["benchmarks", "3"],
    ]


def test_the_lab_is_started_with_these_options(course, handed, monkeypatch):
    """Only root needs --allow-root; three of the others keep the lab from using the internet."""
    for user in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user, raising=False)
        course.main(["lab", "--port", "8899", "--no-browser"])

    assert ["--allow-root" in command for command, _ in handed] == [True, False]
    assert {
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--ServerApp.port=8899",
        "--ServerApp.port_retries=0",
        "--no-browser",
    } <= set(handed[0][0])


def test_a_part_of_a_command_is_its_module_and_a_path_is_one_from_here(
    course, handed, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ada.sqlite3").touch()

    course.main(["build", "slides", "03"])
    course.main(["class", "collect", "ada.sqlite3"])

    assert [command for command, _ in handed] == [
        ["-m", "tools.export", "slides", "03"],
        ["-m", "tools.collect", str(tmp_path / "ada.sqlite3")],
    ]
    assert course.main(["build", "slide"]) == 2
    assert "slides" in capsys.readouterr().out


def test_an_earlier_command_says_what_became_of_it(course, handed, capsys):
    for name in ("site", "export", "edition", "collect", "scoreboard", "record", "prove", "etcd"):
        assert course.main([name, "x"]) == 2

        (line,) = capsys.readouterr().err.splitlines()
        assert f"`{name}` is now" in line
        assert line.rpartition("course.py ")[2].split()[0] in course.COMMANDS
    assert handed == []


def test_check_does_every_step_and_fails_if_one_did(capsys, monkeypatch):
    modules = ["tools.generated", "tools.notebooks", "mypy", "format"]
    results = {}
    for failing in [*modules, "no step"]:
        steps: list[Sequence[str]] = []

        def call(command: Sequence[str], failing=failing, steps=steps, **_: object) -> int:
            steps.append(command)
            return int(failing in command)

        monkeypatch.setattr(check.subprocess, "call", call)
        status = check.main([])
        last = capsys.readouterr().err.splitlines()[-1]
        results[failing] = (status, len(steps), "failed: " in last)

    assert results == {**dict.fromkeys(modules, (1, 5, True)), "no step": (0, 5, False)}


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
