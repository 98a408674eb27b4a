"""`run_in_process`: make a run from another process, which is monitored from outside.

The notebook's kernel then disturbs no measurement, and a run that fills the memory does not
endanger the kernel.
"""

import json
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import psutil

from kvstore import transport as transports
from kvstore.client.channel import Tls
from kvstore.client.errors import (
    EXIT_STATUS,
    NotEnoughMemory,
    RunFailed,
    RunInterrupted,
    ServerGone,
)
from kvstore.client.monitor import OnSample
from kvstore.client.plan import Plan, RunOptions
from kvstore.client.strategies import Strategy
from kvstore.client.workload import Workload
from kvstore.measure.host import available_memory_bytes
from kvstore.measure.recorder import Sample
from kvstore.measure.run import Outcome, Run
from kvstore.subprocesses import Child, child, private_folder

WATCHDOG = 1.25
"""When client or server exceeds the ceiling by this factor, the client is killed from outside.

It must have room to stop by itself, or the run is lost: what is on its way when it stops made
250 MB up to 9 % more on a busy machine.
"""
LOOK_S = 0.02
END_S = 30.0
"""Seconds after a request to stop in which the process may save its run."""


def run_in_process(
    strategy: Strategy,
    server: object,
    workload: Workload,
    options: RunOptions | None = None,
    *,
    on_sample: OnSample | None = None,
    transport: str | None = None,
    **settings: Any,
) -> Run:
    """Make a run as `load.run` does, in a new process; arguments, result and errors are the same.

    `transport` is the transport profile of the new process, one of `kvstore.transport.NAMES`;
    without it, the process has the profile of this one.

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
    options, target = plan.options, plan.target
    if transport is not None and transport not in transports.NAMES:
        raise ValueError(
            f"transport must be one of {', '.join(transports.NAMES)}, got {transport!r}"
        )
    environment = None if transport is None else transports.environment(transport)
    _refuse_without_room(options.memory_ceiling_bytes)
    with private_folder("kvstore-run-") as folder:
        path, written = folder / "run.npz", folder / "options.json"
        written.write_text(options.to_json())  # the process list would show metadata to all users
        command = [target.address, f"--strategy={plan.name}", f"--options=@{written}"]
        command += [f"--workload={json.dumps(workload.as_dict())}", f"--save={path}"]
        if target.identity is not None:
            command += [f"--identity={target.identity}"]
        command += _tls_arguments(target.tls, folder)
        with child("kvstore.client", command, environment=environment) as client:
            interrupted = monitor(
                client,
                getattr(server, "pids", ()),
                on_sample=on_sample,
                ceiling_bytes=options.memory_ceiling_bytes,
            )
            text = _message(client.error_text())
        run = Run.load(path) if path.exists() else None
    return _run_of_child(run, interrupted, text, client.popen.returncode)


def _tls_arguments(tls: Tls | None, folder: Path) -> list[str]:
    """Return the flags for encrypted connections: names of files in this private folder."""
    if tls is None:
        return []
    flags = ["--tls"] if tls.server_name is None else [f"--server-name={tls.server_name}"]
    texts = {"ca": tls.ca, "cert": tls.certificate, "key": tls.key,
             "token": tls.token.encode() if tls.token else None}  # fmt: skip
    for name, text in texts.items():
        if text is not None:
            file = folder / name
            file.write_bytes(text)
            flags.append(f"--{name}={file}")
    return flags


def monitor(
    client: Child,
    server_pids: Sequence[int] = (),
    *,
    on_sample: OnSample | None = None,
    ceiling_bytes: float = math.inf,
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


def _message(error_text: str) -> str:
    """Return the client's own error: gRPC may have written lines before it."""
    return f"\n{error_text}".partition("\nerror: ")[2] or error_text


def start_error(text: str, status: int | None) -> Exception:
    """Return the error for a client process that ended without a run."""
    for kind, its_status in EXIT_STATUS.items():
        if status == its_status:
            return kind(text)
    return RuntimeError(
        f"the client's process ended without saving its run (exit status {status}):"
        f" {text or 'it wrote no error'}. If it was killed for its memory, lower the ceiling or"
        " the rate."
    )


def _run_of_child(run: Run | None, interrupted: bool, text: str, status: int) -> Run:
    if run is None:
        if interrupted:
            raise KeyboardInterrupt  # before the run began: there are no calls
        raise start_error(text, status)
    if interrupted or run.outcome is Outcome.INTERRUPTED:
        raise RunInterrupted(run)
    if status == 1:
        kind = ServerGone if run.outcome is Outcome.SERVER_GONE else RunFailed
        raise kind(text, run)
    return run


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
