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

import psutil

from kvstore.lifeline import child, end_with_parent

START_S = 20.0
"""Seconds the processes get to come up; a cold import on a slow laptop takes several."""
LONGEST_S = 600.0
"""No process turns longer than this, whatever happens."""


@contextmanager
def keeping_awake(cores: int) -> Iterator[None]:
    """Give each of so many cores something to do while the block lasts.

    Raises `RuntimeError` when a process did not come up.
    """
    with ExitStack() as processes:
        started = [processes.enter_context(child("kvstore.awake", ())) for _ in range(cores)]
        for process in started:
            if not process.first_line(START_S):
                raise RuntimeError(
                    f"a process that keeps a core awake did not start: {process.error_text()}"
                )
        yield


def lowest_priority() -> None:
    """Let this process run only when nothing else wants to, as far as the system knows such."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    elif sys.platform == "win32":
        psutil.Process().nice(psutil.IDLE_PRIORITY_CLASS)
    else:
        os.nice(19)


def main(arguments: Sequence[str]) -> None:
    """Turn until the parent asks to stop, or is gone."""
    parser = argparse.ArgumentParser(prog="kvstore.awake", description="Keep one core awake.")
    parser.add_argument("--end-with-parent", type=int, required=True, metavar="PID")
    options = parser.parse_args(arguments)
    asked: list[bool] = []
    lowest_priority()
    end_with_parent(options.end_with_parent, lambda: asked.append(True))
    print("awake", flush=True)
    end_s = time.perf_counter() + LONGEST_S
    while not asked and time.perf_counter() < end_s:
        for _ in range(10_000):
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
