"""Lessons first, many tests at a time, then those that measure one by one; one line tells all."""

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
    test = os.environ["PYTEST_CURRENT_TEST"].split("[")[0]
    with open("seen", "a", buffering=1) as seen:
        seen.write(f"{test} begins {os.getpid()}\\n")
        time.sleep(0.2)
        seen.write(f"{test} ends {os.getpid()}\\n")
    assert (test.rpartition("/")[2], number) not in WRONG

WRONG = [("test_notebooks.py::test_the_claims_of_a_lesson_hold", 1), ("test_m.py::test_a_thing", 1)]
"""
LESSON = "tests/test_notebooks.py::test_a_thing"
CLAIMS = "tests/test_notebooks.py::test_the_claims_of_a_lesson_hold"
MACHINE = "tests/test_other_machine.py::test_a_thing"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Three files of short tests, one with lessons and their claims, and one that runs alone.

    Two tests fail.
    """
    place = tmp_path_factory.mktemp("side by side")
    (place / "tests").mkdir()
    (place / "pytest.ini").touch()
    (place / "conftest.py").write_text(CONFTEST)
    claims = FILE.replace("test_a_thing(", "test_the_claims_of_a_lesson_hold(")
    for name in ("test_a", "test_m", "test_notebooks", "test_other_machine", "test_z"):
        text = claims + FILE if name == "test_notebooks" else FILE
        (place / "tests" / f"{name}.py").write_text(text)
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

    assert [CLAIMS] * 6 + [MACHINE] * 6 == [name for name, *_ in seen[-12:]]
    assert ["begins", "ends"] * 6 == [what for _, what, _ in seen[-12:]]
    assert 36 == len(seen)


def test_lessons_begin_first_and_in_several_processes(ran):
    _, seen = ran

    assert [[LESSON, "begins"]] * 2 == [[name, what] for name, what, _ in seen[:2]]
    assert 2 == len({process for name, _, process in seen if name == LESSON})


def test_the_others_run_at_the_same_time_and_each_file_in_one_process(ran):
    _, seen = ran
    side_by_side = [each for each in seen if each[0] not in (LESSON, CLAIMS, MACHINE)]
    processes = {(name, process) for name, _, process in side_by_side}

    assert 3 == len(processes)
    assert 2 == len({process for _, process in processes})


def test_a_failure_of_either_kind_is_a_failure_and_the_last_line_counts_all(ran):
    ended, _ = ran

    assert 1 == ended.returncode
    assert "2 failed, 16 passed in " in ended.stdout.splitlines()[-1]
