"""`course.py test`: two calls of pytest are one result, which names what was skipped."""

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 1, "1 failed, 9 passed, 2 skipped"),
        (["-n0", "-k", "machine"], 0, "1 passed"),
        (["-n0", "-k", "no_such_test"], 5, "deselected"),
    ],
)
def test_both_calls_count(arguments, status, said, tmp_path):
    place = tmp_path / "rpc course \u00fcn\u00ef"
    place.mkdir()
    (place / "test_side_by_side.py").write_text(SIDE_BY_SIDE)
    (place / "test_alone.py").write_text(ALONE)
    (place / "pytest.ini").write_text("[pytest]\nmarkers = alone: x\n")

    ended = subprocess.run(
        [sys.executable, "-m", "tools.testing", *arguments],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert status == ended.returncode, ended.stdout + ended.stderr
    assert said in ended.stdout.splitlines()[-1]
    assert ("2 tests: no etcd here" in ended.stdout) == (not arguments)
    assert ("minutes" in ended.stdout) == (not arguments)
    processes = list(place.glob("process *"))
    assert len(processes) == int(not arguments), "the tests of a group share a process"
