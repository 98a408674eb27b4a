"""`run_in_process`: make a run from another process, which is monitored from outside.

The notebook's kernel then disturbs no measurement, and a run that fills the memory does not
endanger the kernel.
"""

import json
import math
import os
import pickle
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import psutil

from kvstore.client import load
from kvstore.client.errors import NotEnoughMemory, RunInterrupted
from kvstore.client.monitor import Gate, OnSample
from kvstore.client.plan import Plan, RunOptions
from kvstore.client.strategies import STRATEGIES, Strategy
from kvstore.client.workload import Workload
from kvstore.measure.host import available_memory_bytes
from kvstore.measure.recorder import Sample
from kvstore.measure.run import Outcome, Run
from kvstore.subprocesses import INTERRUPTED, Child, child, listen, private_folder

WATCHDOG = 1.25
"""When client or server exceeds the ceiling by this factor, the client is killed from outside.

It must have room to stop by itself, or the run is lost: what is on its way when it stops made
250 MB up to 9 % more on a busy machine.
"""
LOOK_S = 0.02
END_S = 30.0
"""Seconds after a request to stop in which the process may save its run."""

PLAN, RUN, ERROR = "plan.pickle", "run.npz", "error.pickle"
"""Files of the folder that both processes share. Its owner alone may read it: a plan may hold a
token, which would stand in the list of processes."""


def run_in_process(
    strategy: Strategy,
    server: object,
    workload: Workload,
    options: RunOptions | None = None,
    *,
    on_sample: OnSample | None = None,
    **settings: Any,
) -> Run:
    """Make a run as `load.run` does, in a new process; arguments, result and errors are the same.

    An open loop needs `rate_per_s`: due times cannot be sent to another process. With a memory
    ceiling, the new process checks its own memory and the server's, and ends by itself. This
    process checks both as well, and kills the client if it does not end. For several processes
    that share the load, see `fleet` of `load.run`.

    Raises:
        ValueError: an option makes no sense.
        NotEnoughMemory: less than the ceiling is free for the client and for the server.
        and whatever `load.run` raises.
    """
    plan = Plan.of(strategy, server, workload, options, settings)
    if strategy not in STRATEGIES:
        raise ValueError(
            f"another process has the strategies of kvstore.client.strategies only: make the run of"
            f" {plan.name} with load.run"
        )
    ceiling_bytes = plan.options.memory_ceiling_bytes
    _refuse_without_room(ceiling_bytes)
    with private_folder("kvstore-run-") as folder:
        (folder / PLAN).write_bytes(pickle.dumps(plan))
        with child("kvstore.client", [str(folder)]) as client:
            interrupted = monitor(client, getattr(server, "pids", ()), ceiling_bytes, on_sample)
            text, status = client.error_text(), client.popen.returncode
        run = Run.load(folder / RUN) if (folder / RUN).exists() else None
        error = (folder / ERROR).read_bytes() if (folder / ERROR).exists() else None
    if interrupted or (run is not None and run.outcome is Outcome.INTERRUPTED):
        raise KeyboardInterrupt if run is None else RunInterrupted(run)  # before the first call
    if error is not None:
        kind, message = pickle.loads(error)
        raise kind(message) if run is None else kind(message, run)
    if run is None:
        raise RuntimeError(
            f"the client's process ended without saving its run (exit status {status}):"
            f" {text or 'it wrote no error'}. If it was killed for its memory, lower the ceiling or"
            " the rate."
        )
    return run


def work_for_parent(folder: Path) -> None:
    """Make the run of `run_in_process` here; leave it, and its error, in the shared folder."""
    gate, run = Gate(), None

    def stop() -> None:
        gate.stop()
        if not gate.inside:
            os._exit(INTERRUPTED)  # no run has begun

    listen(stop)
    try:
        plan = pickle.loads((folder / PLAN).read_bytes())
        run = load.generate(plan, lambda sample: print(json.dumps(sample), flush=True), gate)
    except RunInterrupted as interrupted:
        run = interrupted.run
    except Exception as error:
        run = getattr(error, "run", None)
        (folder / ERROR).write_bytes(pickle.dumps((type(error), str(error))))
    if run is not None:
        run.save(folder / RUN)


def monitor(
    client: Child,
    server_pids: Sequence[int],
    ceiling_bytes: float,
    on_sample: OnSample | None = None,
) -> bool:
    """Show samples of a client process, and check its memory, until it has ended.

    Return whether Ctrl-C came: the process was then requested to stop, and ends in order within
    `END_S` seconds. At a second one, return at once.
    """
    interrupted, end_s, sample = False, math.inf, None
    with _lines_of(client) as lines:
        while client.alive() and time.perf_counter() < end_s:
            try:
                # Not before the first sample: a client that starts above the ceiling reports it.
                if sample is not None and _too_large([*server_pids, client.pid], ceiling_bytes):
                    client.popen.kill()
                with suppress(Empty):
                    sample = Sample(*json.loads(lines.get(timeout=LOOK_S)))
                    if on_sample is not None:
                        on_sample(sample)
            except KeyboardInterrupt:
                if interrupted:
                    break
                interrupted, end_s = True, time.perf_counter() + END_S
                client.request_stop()
    return interrupted


def _too_large(pids: Sequence[int], ceiling_bytes: float) -> bool:
    for pid in () if math.isinf(ceiling_bytes) else pids:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).memory_info().rss > WATCHDOG * ceiling_bytes:
                return True
    return False


@contextmanager
def _lines_of(client: Child) -> Iterator["SimpleQueue[str]"]:
    """Yield a queue of the lines that the process prints."""
    lines: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        stdout = client.popen.stdout
        assert stdout is not None
        for line in stdout:
            if line.endswith("\n"):  # not the unfinished line of a killed process
                lines.put(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    yield lines
    reader.join(1.0)


def _refuse_without_room(ceiling_bytes: float) -> None:
    if math.isinf(ceiling_bytes):
        return
    free_bytes = available_memory_bytes()
    if free_bytes < 2 * ceiling_bytes:
        raise NotEnoughMemory(
            f"this run may fill {ceiling_bytes / 1e6:,.0f} MB in the client and as much in the"
            f" server, but only {free_bytes / 1e6:,.0f} MB are free: close other programs, or"
            f" set memory_ceiling_bytes to {free_bytes / 2 / 1e6:,.0f}e6 or less"
        )
