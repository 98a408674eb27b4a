"""`course.py test`: what fails runs once more, with nothing beside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SIDE_BY_SIDE = """
import os
from pathlib import Path

import pytest

@pytest.mark.parametrize("number", range(3))
def test_a_thing(number):
    assert number < 2

@pytest.mark.parametrize("number", range(2))
def test_another_thing(number):
    pytest.skip("no etcd here")

@pytest.mark.xdist_group("of one fixture")
@pytest.mark.parametrize("number", range(6))
def test_of_a_group(number):
    Path(f"process {os.getpid()}").touch()
"""
ALONE = """
import pytest

@pytest.mark.alone
def test_the_machine():
    pass
"""
ONLY_ALONE = """
from pathlib import Path

def test_in_peace():
    first = not Path("tried").exists()
    Path("tried").touch()
    assert not first
"""
DIES = """
import os

def test_dies():
    os._exit(1)

def test_behind_it():
    pass
"""
TWO = "def test_good(): pass\n\ndef test_bad(): pass\n"
LIMITED = """
import time

def test_slow():
    time.sleep(60)

def test_quick():
    pass
"""


@pytest.fixture
def run(tmp_path):
    """Run `course.py test` on these files; return its status and what it printed."""
    place = tmp_path / "rpc course \u00fcn\u00ef"
    place.mkdir()
    # Beside other tests this process is itself one of pytest-xdist's.
    settings = {name: each for name, each in os.environ.items() if not name.startswith("PYTEST_")}
    (place / "pytest.ini").write_text("[pytest]\nmarkers = alone: x\n long: x\n timeout: x\n")

    def testing(*arguments, **files):
        for name, text in files.items():
            (place / f"{name}.py").write_text(text)
        ended = subprocess.run(
            [sys.executable, "-m", "tools.testing", *arguments],
            cwd=place,
            env={**settings, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,  # beside other tests
        )
        return ended.returncode, ended.stdout + ended.stderr

    testing.place = place
    return testing


pytestmark = [pytest.mark.slow, pytest.mark.timeout(320)]


def test_what_fails_runs_once_more_alone_and_skips_have_their_reasons(run):
    status, printed = run("-n2", test_side_by_side=SIDE_BY_SIDE, test_alone=ALONE)

    assert status == 1, printed
    assert "9 passed" not in printed
    assert "no etcd here" in printed
    assert "FAILED test_side_by_side.py::test_a_thing[2]" in printed.rpartition("once more")[2]
    assert "1 failed" in printed.splitlines()[-1]
    assert len(list(run.place.glob("process *"))) == 1, "the tests of a group share a process"


def test_a_choice_of_a_person_holds(run):
    files = {"test_side_by_side": SIDE_BY_SIDE, "test_alone": ALONE}

    assert run("-n0", "-k", "machine", **files)[0] == 0
    assert run("-n0", "-k", "no_such_test")[0] == 5


def test_what_passes_alone_does_not_fail_the_command(run):
    status, printed = run("-n2", test_peace=ONLY_ALONE)

    assert status == 0, printed
    assert "1 failed, and run once more, alone" in printed


def test_a_test_that_ends_its_process_fails_the_command(run):
    status, printed = run("-n2", test_dies=DIES)

    assert status != 0
    assert "crashed while running 'test_dies.py::test_dies" in printed


def test_a_file_that_cannot_be_read_fails_and_the_others_run(run):
    status, printed = run("-n2", test_broken="import no_such_module\n", test_two=TWO)

    assert status != 0, printed
    assert "2 passed" in printed


def test_a_time_limit_is_a_failure_of_its_test_alone(run):
    limits = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    start, end = limits.index("LIMIT_S ="), limits.index("def group(")
    hook = f"import pytest\n\n{limits[start:end]}".replace("LIMIT_S = 120", "LIMIT_S = 1")
    status, printed = run(
        "-n2", conftest=f"{hook}\n\ndef group(items): pass\n", test_limited=LIMITED
    )

    assert status == 1, printed
    assert "INTERNALERROR" not in printed
    assert "1 failed, 1 passed" in printed
    assert "FAILED test_limited.py::test_slow" in printed.rpartition("once more")[2]


def test_pytest_starts_without_the_plugins_of_the_tests():
    """As in an environment of `.[course]`, where another tool has installed pytest."""
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:timeout",
            "-p",
            "no:xdist",
            "tests/test_numbers.py",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
