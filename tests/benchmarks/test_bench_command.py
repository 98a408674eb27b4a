"""`course.py bench`: its names, and what Ctrl-C leaves."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.__main__ import NAMES, main

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_name_that_is_none_is_refused_with_those_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["laddr"])

    assert f"no benchmark is called laddr; there are {', '.join(NAMES)}" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent to a process another way there")
def test_ctrl_c_shows_what_was_measured_and_leaves_nothing_running():
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "overhead", "--quick"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    ) as bench:
        assert bench.stdout is not None
        for line in bench.stdout:
            if "blocking x1" in line:  # the first row
                break
        started = psutil.Process(bench.pid).children(recursive=True)
        bench.send_signal(signal.SIGINT)
        output = bench.communicate(timeout=60)[0]

    assert bench.returncode == 130
    assert "stopped; the tables above are complete" in output
    assert "blocking x1" in output  # the table of the rows until then
    left = psutil.wait_procs(started, timeout=10)[1]
    assert [] == [process for process in left if process.status() != psutil.STATUS_ZOMBIE]
