"""Many tests at a time, those that measure after them one by one; one line tells of all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFTEST = """
from side_by_side import SideBySideThenAlone

def pytest_xdist_make_scheduler(config, log):
    return SideBySideThenAlone(config, log)
"""
FILE = """
import os, time
import pytest

@pytest.mark.parametrize("number", range(3))
def test_a_thing(number):
    with open("seen", "a", buffering=1) as seen:
        seen.write(f"{__name__} begins {os.getpid()}\\n")
        time.sleep(0.2)
        seen.write(f"{__name__} ends {os.getpid()}\\n")
    assert (__name__, number) not in [("test_notebooks", 1), ("test_m", 1)]
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Three files that may run at once, and one that may not; two tests fail."""
    place = tmp_path_factory.mktemp("side by side")
    (place / "tests").mkdir()
    (place / "pytest.ini").touch()
    (place / "conftest.py").write_text(CONFTEST)
    for name in ("test_a", "test_m", "test_notebooks", "test_z"):
        (place / "tests" / f"{name}.py").write_text(FILE)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
    )
    return ended, [line.split() for line in (place / "seen").read_text().splitlines()]


def test_who_measures_waits_until_all_others_are_done(ran):
    _, seen = ran

    assert ["test_notebooks"] * 6 == [name for name, *_ in seen[-6:]]
    assert ["begins", "ends"] * 3 == [what for _, what, _ in seen[-6:]]
    assert 24 == len(seen)


def test_the_others_run_at_the_same_time_and_each_file_in_one_process(ran):
    _, seen = ran
    processes = {(name, process) for name, _, process in seen}

    assert 4 == len(processes)
    assert 2 == len({process for _, process in processes})
    assert ["begins", "begins"] == [what for _, what, _ in seen[:2]]


def test_a_failure_of_either_kind_is_a_failure_and_the_last_line_counts_all(ran):
    ended, _ = ran

    assert 1 == ended.returncode
    assert "2 failed, 10 passed in " in ended.stdout.splitlines()[-1]
