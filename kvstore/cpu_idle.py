"""Keep the cores of the processor from idle states, to measure the cost of leaving them.

One process for each core runs a loop at the lowest priority, so it takes only time that no other
process needs. `python -m kvstore.cpu_idle` is that process; it ends with its parent.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from kvstore.subprocesses import child, listen

START_S = 20.0
"""Seconds in which the processes must start; a cold import on a slow laptop takes several."""
AUTOGROUP = Path("/proc/self/autogroup")
LONGEST_S = 600.0
"""Default limit on the time for which a process runs its loop, in seconds."""
KEPT = "KVSTORE_CORES_KEPT_AWAKE"
"""Environment variable with the number of cores, which child processes inherit."""


@contextmanager
def keeping_awake(cores: int, *, longest_s: float = LONGEST_S) -> Iterator[None]:
    """Keep so many cores busy while the block lasts, for `longest_s` seconds at most.

    Runs made meanwhile record this among their conditions. Raises `RuntimeError` when a process did
    not start.
    """
    with ExitStack() as processes:
        started = [
            processes.enter_context(
                child("kvstore.cpu_idle", (f"--core={core}", f"--longest-s={longest_s}"))
            )
            for core in range(cores)
        ]
        for process in started:
            if not process.first_line(START_S):
                raise RuntimeError(
                    f"a process that keeps a core awake did not start: {process.error_text()}"
                )
        before = os.environ.get(KEPT)
        processes.callback(_set_kept, before)
        _set_kept(str(cores))
        yield


def kept_awake() -> int:
    """Return how many cores this process, or an ancestor, keeps awake now."""
    return int(os.environ.get(KEPT, 0))


def _set_kept(cores: str | None) -> None:
    if cores is None:
        os.environ.pop(KEPT, None)
    else:
        os.environ[KEPT] = cores


def stay_on(core: int) -> None:
    """Pin this process to one of its cores, so that no two processes run on the same core."""
    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):  # not on macOS
        mine = sorted(process.cpu_affinity())
        process.cpu_affinity([mine[core % len(mine)]])


def lowest_priority() -> None:
    """Give this process the lowest priority that the operating system has."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        _yield_between_sessions()
    elif sys.platform == "win32":
        psutil.Process().nice(psutil.IDLE_PRIORITY_CLASS)
    else:
        os.nice(19)


def _yield_between_sessions() -> None:
    """Yield to processes of other sessions, too.

    Where Linux divides the processor between sessions first ("autogroup", see sched(7)), the
    priority of a process counts only within its session. This process has its own session. Without
    this function, it took a third of the throughput from the measured processes.
    """
    try:
        AUTOGROUP.write_text("19", "ascii")
    except OSError:
        pass  # a system without such groups


def main(arguments: Sequence[str]) -> None:
    """Run the loop until the parent requests the end, or has ended."""
    parser = argparse.ArgumentParser(prog="kvstore.cpu_idle", description="Keep one core awake.")
    parser.add_argument("--core", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--longest-s", type=float, default=LONGEST_S, metavar="SECONDS")
    options = parser.parse_args(arguments)
    stopped: list[bool] = []
    stay_on(options.core)
    lowest_priority()
    listen(lambda: stopped.append(True))
    print("awake", flush=True)
    end_s = time.perf_counter() + options.longest_s
    while not stopped and time.perf_counter() < end_s:
        for _ in range(10_000):
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
