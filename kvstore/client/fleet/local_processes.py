"""`run_in_process`: make a run from another process, or from several.

The notebook's kernel then disturbs no measurement, and a run that fills the memory does not
endanger the kernel.
"""

import json
import math
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvstore.client.channel import target_of
from kvstore.client.errors import NotEnoughMemory, RunFailed, RunInterrupted, ServerGone
from kvstore.client.fleet.combined_run import ServerCount, combine
from kvstore.client.fleet.generators import Generators, start_error
from kvstore.client.fleet.parts import parts
from kvstore.client.monitor import OnSample
from kvstore.client.options import RunOptions, check_due_times, name_of
from kvstore.client.strategies import Strategy, supports
from kvstore.client.workload import Workload
from kvstore.measure.host import available_memory_bytes
from kvstore.measure.outcome import Outcome
from kvstore.measure.recorder import kept_in
from kvstore.measure.run import Run
from kvstore.subprocesses import child


def run_in_process(
    strategy: Strategy,
    server: object,
    workload: Workload,
    options: RunOptions | None = None,
    *,
    processes: int = 1,
    on_sample: OnSample | None = None,
    **settings: Any,
) -> Run:
    """Make a run as `load.run` does, in a new process; arguments, result and errors are the same.

    An open loop needs `rate_per_s`: due times cannot be sent to another process. With a memory
    ceiling, the new process checks its own memory and the server's, and ends by itself. This
    process checks both as well, and kills the client if it does not end.

    With several `processes`, the load comes from as many generators, which start together and use
    one clock; their calls make one run. They divide `in_flight`, `calls`, `rate_per_s` and the keys
    that the workload preloads; each has its own seed and its own keys. All other options hold for
    each generator. When one of them fails, all end.

    Raises:
        ValueError: an option makes no sense, or is too small to be divided.
        NotEnoughMemory: less than the ceiling is free for each client and for the server.
        RunFailed: also when one of several generators was killed; `.run` then has its calls up to
            its last sample, and the number of missing calls.
        and whatever `load.run` raises.
    """
    shares = parts(processes)
    options = RunOptions.of(strategy, options, settings)
    options.check(strategy, workload)
    check_due_times(strategy, options.rate_per_s is not None)
    limited = supports(strategy).limit
    if processes > 1:
        in_flight = options.in_flight if limited else None
        _refuse_too_small(processes, calls=options.calls, in_flight=in_flight)
        if options.joins:
            raise ValueError("callers join one by one in one process only: leave out processes")
    _refuse_without_room(options.memory_ceiling_bytes, processes)
    target = target_of(server)
    monitoring = {
        "server_pids": getattr(server, "pids", ()),
        "on_sample": on_sample,
        "ceiling_bytes": options.memory_ceiling_bytes,
    }
    with tempfile.TemporaryDirectory(prefix="kvstore-run-") as folder:
        paths = [Path(folder) / f"run-{part.number}.npz" for part in shares]
        commands = []
        for part, path in zip(shares, paths, strict=True):
            own = replace(
                options,
                in_flight=part.count(options.in_flight) if limited else options.in_flight,
                calls=None if options.calls is None else part.count(options.calls),
            )
            command = [
                target.address,
                f"--strategy={name_of(strategy)}",
                f"--options={own.to_json()}",
            ]
            command += [f"--workload={json.dumps(workload.as_dict())}", f"--save={path}"]
            if target.identity is not None:
                command += [f"--identity={target.identity}"]
            if processes > 1:
                command += [f"--part={part}", f"--journal={_journal_of(path)}"]
            commands.append(command)
        if processes == 1:
            generators = _monitored(commands, **monitoring)
            return _single_run(generators, _loaded(paths[0]))
        with ServerCount(target) as count:
            generators = _monitored(commands, **monitoring, before_start=count.begin)
            runs = [_loaded(path) for path in paths]
            kept = [kept_in(_journal_of(path)) for path in paths]
            whole_settings = {
                "workload": workload.as_dict(),
                "calls": options.calls,
                "in_flight": options.in_flight,
            }
            return combine(generators, runs, kept, count, whole_settings)


def _monitored(commands: Sequence[Sequence[str]], **monitoring: Any) -> Generators:
    """Run these client processes until all have ended."""
    with ExitStack() as running:
        children = [running.enter_context(child("kvstore.client", each)) for each in commands]
        generators = Generators(children, **monitoring)
        generators.monitor()
    return generators


def _journal_of(path: Path) -> Path:
    return path.with_suffix(".journal")


def _loaded(path: Path) -> Run | None:
    return Run.load(path) if path.exists() else None


def _single_run(generators: Generators, run: Run | None) -> Run:
    (client,) = generators.all
    if run is None:
        if generators.interrupted:
            raise KeyboardInterrupt  # before the run began: there are no calls
        raise start_error(client.error_text, client.child.popen.returncode)
    if generators.interrupted or run.outcome is Outcome.INTERRUPTED:
        raise RunInterrupted(run)
    if client.child.popen.returncode == 1:
        kind = ServerGone if run.outcome is Outcome.SERVER_GONE else RunFailed
        raise kind(client.error_text, run)
    return run


def _refuse_too_small(processes: int, **counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and not value >= processes:
            raise ValueError(
                f"{processes} processes share {name}, so it must be {processes} or more,"
                f" got {value!r}"
            )


def _refuse_without_room(ceiling_bytes: float, processes: int) -> None:
    if math.isinf(ceiling_bytes):
        return
    free_bytes = available_memory_bytes()
    sides = processes + 1
    if free_bytes < sides * ceiling_bytes:
        clients = "the client" if processes == 1 else f"each of {processes} clients"
        raise NotEnoughMemory(
            f"this run may fill {ceiling_bytes / 1e6:,.0f} MB in {clients} and as much in the"
            f" server, but only {free_bytes / 1e6:,.0f} MB are free: close other programs, or"
            f" set memory_ceiling_bytes to {free_bytes / sides / 1e6:,.0f}e6 or less"
        )
