"""`course.py test`: whatever ends a call of pytest, the tests that failed are named."""

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
INTERNAL_ERROR = """
import os

def pytest_runtest_logreport(report):
    if "bad" in report.nodeid and "PYTEST_XDIST_WORKER" in os.environ:
        raise RuntimeError("a hook that fails")
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


@pytest.mark.parametrize(
    ("arguments", "status", "last"),
    [
        (["-n2"], 1, "course: 9 passed, 1 failed, 2 skipped"),
        (["-n0", "-k", "machine"], 0, "course: 1 passed, 0 failed, 0 skipped"),
        (["-n0", "-k", "no_such_test"], 5, "deselected"),
    ],
)
def test_all_calls_are_one_result_with_the_reasons_of_skips(run, arguments, status, last):
    ended, said = run(*arguments, test_side_by_side=SIDE_BY_SIDE, test_alone=ALONE)

    assert ended == status, said
    assert last in said.splitlines()[-1]
    assert ("2 tests: no etcd here" in said) == (status == 1)
    assert ("failed beside other tests, failed alone: test_side" in said) == (status == 1)
    processes = list(run.place.glob("process *"))
    assert len(processes) == int(status == 1), "the tests of a group share a process"


def test_what_passes_alone_does_not_fail_the_command(run):
    ended, said = run("-n2", test_peace=ONLY_ALONE)

    assert ended == 0, said
    assert "failed beside other tests, passed alone: test_peace.py::test_in_peace" in said
    assert said.splitlines()[-1] == "course: 1 passed, 0 failed, 0 skipped"
    assert "of the processor time" in said


def test_a_test_that_ends_its_process_is_named_and_the_others_run(run):
    ended, said = run("-n2", test_dies=DIES)

    assert ended == 1, said
    assert "failed beside other tests, failed alone: test_dies.py::test_dies" in said
    assert said.splitlines()[-1] == "course: 1 passed, 1 failed, 0 skipped"


def test_an_internal_error_of_pytest_ends_with_the_names_of_what_was_not_reached(run):
    ended, said = run("-n2", conftest=INTERNAL_ERROR, test_two=TWO)

    assert "INTERNALERROR" in said
    assert "beside other tests, passed alone: test_two.py::test_bad" in said
    assert said.splitlines()[-1] == "course: 2 passed, 0 failed, 0 skipped"
    assert ended == 0, said


def test_a_file_that_cannot_be_read_fails_and_the_others_run(run):
    ended, said = run("-n2", test_broken="import no_such_module\n", test_two=TWO)

    assert ended == 1, said
    assert "failed alone: test_broken.py" in said
    assert said.splitlines()[-1] == "course: 2 passed, 1 failed, 0 skipped"


def test_a_time_limit_is_a_failure_of_its_test_alone(run):
    limits = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    start, end = limits.index("LIMIT_S ="), limits.index("def group(")
    hook = f"import pytest\n\n{limits[start:end]}".replace("LIMIT_S = 120", "LIMIT_S = 1")
    ended, said = run("-n2", conftest=f"{hook}\n\ndef group(items): pass\n", test_limited=LIMITED)

    assert ended == 1, said
    assert "INTERNALERROR" not in said
    assert "failed alone: test_limited.py::test_slow" in said
    assert said.splitlines()[-1] == "course: 1 passed, 1 failed, 0 skipped"


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
