"""`course.py test`: what fails runs once more, with nothing beside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import testing

ROOT = Path(__file__).resolve().parent.parent

FAILS = """
import os
import time
from pathlib import Path

import pytest

@pytest.mark.parametrize("number", range(3))
def test_a_thing(number):
    assert number < 2

def test_another_thing():
    pytest.skip("no etcd here")

def test_in_peace():
    first = not Path("tried").exists()
    Path("tried").touch()
    assert not first

def test_too_slow():
    time.sleep(60)

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
DIES = """
import os

def test_dies():
    os._exit(1)
"""


@pytest.fixture
def run(tmp_path):
    """Run `course.py test` on these files; return its status and what it printed."""
    place = tmp_path / "rpc course \u00fcn\u00ef"
    place.mkdir()
    # Beside other tests this process is itself one of pytest-xdist's.
    settings = {name: each for name, each in os.environ.items() if not name.startswith("PYTEST_")}
    (place / "pytest.ini").write_text("[pytest]\nmarkers = alone: x\n long: x\n timeout: x\n")

    def call(*arguments, **files):
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

    call.place = place
    return call


pytestmark = [pytest.mark.slow, pytest.mark.timeout(320)]


def test_what_fails_runs_once_more_alone_and_the_others_run(run):
    """A wrong test, one that passes alone, one without an end, and a file that is no Python."""
    limits = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    start, end = limits.index("LIMIT_S ="), limits.index("def group(")
    hook = f"import pytest\n\n{limits[start:end]}".replace("LIMIT_S = 120", "LIMIT_S = 1")
    status, printed = run(
        "-n2",
        conftest=f"{hook}\n\ndef group(items): pass\n",
        test_fails=FAILS,
        test_alone=ALONE,
        test_broken="import no_such_module\n",
    )

    assert status != 0, printed
    assert "INTERNALERROR" not in printed
    assert "no etcd here" in printed
    assert "4 failed, and run once more, alone" in printed
    again = printed.rpartition("once more, alone")[2]
    for name in ("test_a_thing[2]", "test_too_slow"):
        assert f"FAILED test_fails.py::{name}" in again
    assert "test_broken.py" in again
    assert "test_in_peace" not in again
    assert "other programs take" in printed.splitlines()[-1]
    assert len(list(run.place.glob("process *"))) == 1, "the tests of a group share a process"


def test_a_choice_of_a_person_holds(run):
    assert run("-n0", "-k", "machine", test_fails=FAILS, test_alone=ALONE)[0] == 0
    assert run("-n0", "-k", "no_such_test")[0] == 5


def test_a_busy_machine_is_named_as_a_reason_for_failures_only():
    assert "busy" in testing.how_busy(0.1, failed=True)
    assert "busy" not in testing.how_busy(0.95, failed=True)
    assert "busy" not in testing.how_busy(0.1, failed=False)


def test_a_test_that_ends_its_process_fails_the_command(run):
    status, printed = run("-n2", test_dies=DIES)

    assert status != 0
    assert "crashed while running 'test_dies.py::test_dies" in printed
