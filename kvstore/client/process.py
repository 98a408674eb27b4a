"""A run made from a process of its own.

For figures that the notebook's kernel would disturb, and for runs that are allowed to
fill memory: the kernel is never at risk, because it is not where the calls are.
"""

import json
import math
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import psutil

from kvstore.client.channel import ServerNotReached, WrongServer, target_of
from kvstore.client.load import RunFailed, RunInterrupted, ServerGone
from kvstore.client.strategies import Strategy
from kvstore.client.watch import OnSample
from kvstore.client.workload import Workload
from kvstore.lifeline import Child, child
from kvstore.measure.host import available_memory_bytes
from kvstore.measure.run import Run
from kvstore.measure.sampler import Sample

WATCHDOG = 1.08
"""When client or server outgrows the ceiling by this factor, the client is ended from outside."""
LOOK_S = 0.02
END_S = 30.0
"""Seconds the process gets to end its calls and save its run after Ctrl-C."""


EXIT_STATUS: dict[type[Exception], int] = {ServerNotReached: 3, WrongServer: 4, ValueError: 2}
"""How `python -m kvstore.client` ends when the run cannot begin."""


class NotEnoughMemory(MemoryError):
    """The machine has too little free memory to try this safely."""


def run_in_process(
    strategy: Strategy,
    server: object,
    workload: Workload,
    *,
    in_flight: int = 1,
    connections: int = 1,
    duration_s: float | None = None,
    calls: int | None = None,
    rate_per_s: float | None = None,
    deadline_s: float = 30.0,
    memory_ceiling_bytes: float = math.inf,
    on_sample: OnSample | None = None,
    sample_interval_s: float = 0.1,
    metadata: Mapping[str, str] | None = None,
    settle_garbage: bool = True,
    **options: Any,
) -> Run:
    """`load.run` in a new process; arguments, result and errors are the same.

    `rate_per_s` stands for the due times. With a memory ceiling the process looks at its own
    memory and the server's and stops by itself; this one looks at both as well, and ends the
    client should that fail.

    Raises:
        NotEnoughMemory: less than twice the ceiling is free for each of both processes'
            growth, so the attempt could hurt the machine.
        and whatever `load.run` raises.
    """
    _refuse_without_room(memory_ceiling_bytes)
    target = target_of(server)
    if options.get("joins") is not None:
        options["joins"] = list(options["joins"])  # it travels as text
    with tempfile.TemporaryDirectory(prefix="kvstore-run-") as folder:
        path = Path(folder) / "run.npz"
        arguments = [
            strategy.__name__,
            target.address,
            f"--in-flight={in_flight}",
            f"--connections={connections}",
            f"--deadline-s={deadline_s}",
            f"--workload={json.dumps(workload.as_dict())}",
            f"--options={json.dumps(options)}",
            f"--sample-interval-s={sample_interval_s}",
            f"--metadata={json.dumps(dict(metadata or {}))}",
            *([] if settle_garbage else ["--leave-garbage"]),
            f"--save={path}",
        ]
        for name, value in {
            "identity": target.identity,
            "duration-s": duration_s,
            "calls": calls,
            "rate-per-s": rate_per_s,
            "memory-ceiling-mb": None
            if math.isinf(memory_ceiling_bytes)
            else memory_ceiling_bytes / 1e6,
        }.items():
            if value is not None:
                arguments.append(f"--{name}={value}")
        with child("kvstore.client", arguments) as process:
            watched = [process.pid, getattr(server, "pid", process.pid)]
            interrupted = _look_on(process, watched, on_sample, memory_ceiling_bytes)
            said = process.error_text()
        if not path.exists():
            if interrupted:
                raise KeyboardInterrupt  # before the run began: there is nothing to account for
            raise _error(said, process.popen.returncode)
        run = Run.load(path)
    if interrupted or run.outcome == "interrupted":
        raise RunInterrupted(run)
    if process.popen.returncode == 1:
        kind = ServerGone if run.outcome == "server gone" else RunFailed
        raise kind(said.removeprefix("error: "), run)
    return run


def _refuse_without_room(ceiling_bytes: float) -> None:
    if math.isinf(ceiling_bytes):
        return
    free_bytes = available_memory_bytes()
    if free_bytes < 2 * ceiling_bytes:
        raise NotEnoughMemory(
            f"this run may fill {ceiling_bytes / 1e6:,.0f} MB in the client and as much in the"
            f" server, but only {free_bytes / 1e6:,.0f} MB are free: close other programs, or"
            f" set memory_ceiling_bytes to {free_bytes / 2e6:,.0f}e6 or less"
        )


def _look_on(
    process: Child, watched: list[int], on_sample: OnSample | None, ceiling_bytes: float
) -> bool:
    """Pass samples on until the process ends; return whether Ctrl-C came meanwhile."""
    guarded, started = not math.isinf(ceiling_bytes), False
    interrupted, end_s = False, math.inf
    with _lines_of(process) as lines:
        while process.alive() and time.perf_counter() < end_s:
            try:
                # Not before the first sample: a process that starts above the ceiling says so.
                if guarded and started and _most_bytes(watched) > WATCHDOG * ceiling_bytes:
                    process.popen.kill()
                line = lines.get(timeout=LOOK_S)
                started = True
                if on_sample is not None and line:
                    on_sample(Sample(*json.loads(line)))
            except Empty:
                pass
            except KeyboardInterrupt:
                if interrupted:
                    break
                interrupted = True
                process.ask_to_stop()
                end_s = time.perf_counter() + END_S
    return interrupted


def _most_bytes(pids: list[int]) -> int:
    """Resident memory of the largest of these processes, 0 when none runs any more."""
    most = 0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            most = max(most, psutil.Process(pid).memory_info().rss)
    return most


@contextmanager
def _lines_of(process: Child) -> Iterator["SimpleQueue[str]"]:
    """What the process prints, line by line, as it comes."""
    lines: SimpleQueue[str] = SimpleQueue()
    stdout = process.popen.stdout
    assert stdout is not None

    def read() -> None:
        for line in stdout:
            lines.put(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    yield lines
    reader.join(1.0)


def _error(said: str, status: int | None) -> Exception:
    """The error for a process that left no run behind."""
    for kind, its_status in EXIT_STATUS.items():
        if status == its_status:
            return kind(said.removeprefix("error: "))
    return RuntimeError(
        f"the client's process ended without saving its run (exit status {status}):"
        f" {said or 'it said nothing'}. If it was ended for its memory, lower the ceiling or"
        " the rate."
    )
