"""Cores that are kept from falling asleep, to see what waking one costs.

One process for each core turns in a loop at the lowest priority there is, so it takes only
time that nobody else wants. `python -m kvstore.awake` is that process; it ends with its parent.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from kvstore.lifeline import child, end_with_parent

START_S = 20.0
"""Seconds the processes get to come up; a cold import on a slow laptop takes several."""
AUTOGROUP = Path("/proc/self/autogroup")
LONGEST_S = 600.0
"""No process turns longer than this, whatever happens, unless it was asked to."""
KEPT = "KVSTORE_CORES_KEPT_AWAKE"
"""Environment variable with the number of cores; processes started meanwhile inherit it."""


@contextmanager
def keeping_awake(cores: int, *, longest_s: float = LONGEST_S) -> Iterator[None]:
    """Give each of so many cores something to do while the block lasts, for `longest_s` at most.

    Runs of that time say so among their conditions. Raises `RuntimeError` when a process did
    not come up.
    """
    with ExitStack() as processes:
        started = [
            processes.enter_context(
                child("kvstore.awake", (f"--core={core}", f"--longest-s={longest_s}"))
            )
            for core in range(cores)
        ]
        for process in started:
            if not process.first_line(START_S):
                raise RuntimeError(
                    f"a process that keeps a core awake did not start: {process.error_text()}"
                )
        before = os.environ.get(KEPT)
        processes.callback(_say, before)
        _say(str(cores))
        yield


def kept_awake() -> int:
    """How many cores this process, or one that started it, keeps awake now."""
    return int(os.environ.get(KEPT, 0))


def _say(cores: str | None) -> None:
    if cores is None:
        os.environ.pop(KEPT, None)
    else:
        os.environ[KEPT] = cores


def stay_on(core: int) -> None:
    """Keep this process to one of its cores, so that no two of them turn on the same one."""
    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):  # not on macOS
        mine = sorted(process.cpu_affinity())
        process.cpu_affinity([mine[core % len(mine)]])


def lowest_priority() -> None:
    """Let this process run only when nothing else wants to, as far as the system knows such."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        _yield_between_sessions()
    elif sys.platform == "win32":
        psutil.Process().nice(psutil.IDLE_PRIORITY_CLASS)
    else:
        os.nice(19)


def _yield_between_sessions() -> None:
    """Give way to processes of other sessions, too.

    Where Linux shares the processor out between sessions first ("autogroup", see sched(7)), a
    process's own priority counts within its session only. Ours has one to itself, and without
    this it took a third of the throughput away from what was measured beside it.
    """
    try:
        AUTOGROUP.write_text("19", "ascii")
    except OSError:
        pass  # a system without such groups


def main(arguments: Sequence[str]) -> None:
    """Turn until the parent asks to stop, or is gone."""
    parser = argparse.ArgumentParser(prog="kvstore.awake", description="Keep one core awake.")
    parser.add_argument("--end-with-parent", type=int, required=True, metavar="PID")
    parser.add_argument("--core", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--longest-s", type=float, default=LONGEST_S, metavar="SECONDS")
    options = parser.parse_args(arguments)
    asked: list[bool] = []
    stay_on(options.core)
    lowest_priority()
    end_with_parent(options.end_with_parent, lambda: asked.append(True))
    print("awake", flush=True)
    end_s = time.perf_counter() + options.longest_s
    while not asked and time.perf_counter() < end_s:
        for _ in range(10_000):
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
