"""Run the tests: `python3 course.py test [--long] [arguments for pytest]`.

Most tests look at what happened, whatever else the machine does meanwhile, so several processes of
pytest-xdist work through them. The tests marked `alone` compare a measurement with a prediction:
they run in a second call of pytest, one after the other. What failed runs once more with nothing
beside it: only a test that fails there too makes the command fail. Then a line says how much of
the machine other programs took at that moment, because a busy machine is a reason to fail.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

DURATION: Final = "about eight minutes on two cores with nothing else to do"
LONG: Final = "more than an hour"
MOST_PROCESSES: Final = 7
"""More than cores, because most tests wait most of the time; each takes a third of a GiB."""
MOST_REPEATED: Final = 60
"""More failures than this do not come from a busy machine."""
SIDE_BY_SIDE: Final = [
    *("-n", str(min(MOST_PROCESSES, 4 * (os.cpu_count() or 1)))),
    *("--dist=loadgroup", "--no-loadscope-reorder"),
    "--max-worker-restart=0",  # else a new process gets the test that ended the last one
]
BUSY_SHARE: Final = 0.2
"""From this share of the cores on, other programs may be why a test that measures fails."""
WATCHED_S: Final = 2.0
ENDED: Final = (0, 1, 5)
"""Statuses of pytest: all passed, some failed, none was chosen."""


def main(arguments: Sequence[str]) -> int:
    """Run pytest as often as it takes; return its status, or 1 if a test failed twice."""
    os.environ["COURSE_MODE"] = "fast"
    chosen = [each for each in arguments if each != "--long"]
    if "--long" in arguments:
        print(f"course.py test: the long tests take {LONG}", flush=True)
        calls = [["-m", "long"]]
    elif any(each.startswith("-m") for each in arguments):
        calls = [SIDE_BY_SIDE]
    else:
        if not arguments:
            print(f"course.py test: the tests and the core notebooks take {DURATION}", flush=True)
        calls = [
            [*SIDE_BY_SIDE, "-m", "not alone and not long"],
            ["-m", "alone and not long", "-n0"],
        ]
    with tempfile.TemporaryDirectory() as cache:
        options = ["-rfEs", "--continue-on-collection-errors", "-o", f"cache_dir={cache}"]
        listed, names = Path(cache, "failed.txt"), Path(cache, "v", "cache", "lastfailed")
        statuses = []
        for call in calls:
            alone = [] if call[:1] == ["-n"] else ["-n0"]  # last, so that it holds
            shown = ["--durations=20", "--durations-min=5"]
            statuses.append(run_pytest([*call, *options, *shown, *chosen, *alone]))
            if statuses[-1] not in ENDED:  # a person, a usage error, or a process that ended
                return statuses[-1]
        failed = json.loads(names.read_text()) if names.exists() else {}
        if not 0 < len(failed) <= MOST_REPEATED:
            return 1 if 1 in statuses else min(statuses)
        print(f"\ncourse.py test: {len(failed)} failed, and run once more, alone", flush=True)
        listed.write_text("\n".join(map(without_group, failed)), encoding="utf-8")
        status = run_pytest(["-n0", "-m", "", *options, f"@{listed}"])
        print(how_busy(psutil.cpu_times_percent(WATCHED_S).idle / 100, failed=status != 0))
        return status


def how_busy(idle: float, *, failed: bool) -> str:
    """Return what other programs leave of the processor, and whether that may be why tests fail."""
    line = f"course.py test: with no test running, other programs take {1 - idle:.0%} of the cores"
    if failed and 1 - idle > BUSY_SHARE:
        line += ": the machine is busy, and what failed may have failed for that reason"
    return line


def run_pytest(arguments: Sequence[str]) -> int:
    """Run pytest in a process of its own; return its status."""
    with subprocess.Popen([sys.executable, "-m", "pytest", *arguments]) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # Ctrl-C reaches pytest, too: it ends, and says what it did
                continue


def without_group(test: str) -> str:
    """Return the name of a test without the group that pytest-xdist appends as `@group`."""
    return test.rpartition("@")[0] if test.rfind("@") > test.rfind("]") else test


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
