"""A run made from a process of its own, or from several that make it together.

For figures that the notebook's kernel would disturb, and for runs that are allowed to
fill memory: the kernel is never at risk, because it is not where the calls are.
"""

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kvstore.client import asked
from kvstore.client.channel import target_of
from kvstore.client.generators import Generators, not_begun
from kvstore.client.load import RunFailed, RunInterrupted, ServerGone
from kvstore.client.part import parts
from kvstore.client.strategies import Strategy, futures
from kvstore.client.together import ServerCount, together
from kvstore.client.watch import OnSample
from kvstore.client.workload import Workload
from kvstore.lifeline import child
from kvstore.measure.host import available_memory_bytes
from kvstore.measure.journal import kept_in
from kvstore.measure.run import Run


class NotEnoughMemory(MemoryError):
    """The machine has too little free memory to try this safely."""


def run_in_process(
    strategy: Strategy,
    server: object,
    workload: Workload,
    *,
    processes: int = 1,
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

    With several `processes` the load comes from as many generators, which begin together and
    count by one clock; their calls make one run. `in_flight`, `calls`, `rate_per_s` and the
    keys that the workload preloads are those of the whole, shared out among them; each draws
    from a seed of its own and asks for keys of its own. What else a strategy can be told
    (`connections`, `batch`, `streams`) is told to each. When one of them fails, all end.

    Raises:
        ValueError: a setting makes no sense, or is too small to be shared out.
        NotEnoughMemory: less than the ceiling is free for each client and for the server, so
            the attempt could hurt the machine.
        RunFailed: also when one of several generators was killed; `.run` then has its calls up to
            its last sample, and says how many it lacks.
        and whatever `load.run` raises.
    """
    shares = parts(processes)
    own = {name: value for name, value in options.items() if name != "joins"}
    asked.limits(strategy, workload, in_flight, connections, duration_s, calls, deadline_s, own)
    unlimited = strategy is futures
    if processes > 1:
        _refuse_too_small(processes, calls=calls, in_flight=None if unlimited else in_flight)
    _refuse_without_room(memory_ceiling_bytes, processes)
    target = target_of(server)
    if options.get("joins") is not None:
        if processes > 1:
            raise ValueError("callers join one by one in one process only: leave out processes")
        options["joins"] = list(options["joins"])  # it travels as text
    whole = {
        "connections": connections,
        "metadata": json.dumps(dict(metadata or {})),
        "identity": target.identity,
        "deadline-s": deadline_s,
        "workload": json.dumps(workload.as_dict()),
        "options": json.dumps(options),
        "sample-interval-s": sample_interval_s,
        "duration-s": duration_s,
        "rate-per-s": rate_per_s,
        "leave-garbage": not settle_garbage,
        "memory-ceiling-mb": _mb(memory_ceiling_bytes),
    }
    looking = {
        "server_pids": getattr(server, "pids", ()),
        "on_sample": on_sample,
        "ceiling_bytes": memory_ceiling_bytes,
    }
    with tempfile.TemporaryDirectory(prefix="kvstore-run-") as folder:
        paths = [Path(folder) / f"run-{part.number}.npz" for part in shares]
        commands = []
        for part, path in zip(shares, paths, strict=True):
            own = {
                "in-flight": in_flight if unlimited else part.count(in_flight),
                "calls": calls if calls is None else part.count(calls),
                "part": part if processes > 1 else None,
                "save": path,
                "journal": _journal_of(path) if processes > 1 else None,
            }
            commands.append([strategy.__name__, target.address, *_flags({**whole, **own})])
        if processes == 1:
            generators = _looked_on(commands, **looking)
            return _alone(generators, _saved(paths[0]))
        with ServerCount(target) as count:
            generators = _looked_on(commands, **looking, before_all=count.begin)
            runs = [_saved(path) for path in paths]
            kept = [kept_in(_journal_of(path)) for path in paths]
            of_all = {"workload": workload.as_dict(), "calls": calls}
            return together(generators, runs, kept, count, of_all)


def _flags(options: Mapping[str, object]) -> list[str]:
    """The options as a command line has them; none for None, and no value for True."""
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in options.items()
        if value is not None and value is not False
    ]


def _mb(size_bytes: float) -> float | None:
    return None if math.isinf(size_bytes) else size_bytes / 1e6


def _looked_on(commands: Sequence[Sequence[str]], **looking: Any) -> Generators:
    """Run these client processes until all have ended, one way or another."""
    with ExitStack() as running:
        children = [running.enter_context(child("kvstore.client", each)) for each in commands]
        generators = Generators(children, **looking)
        generators.look_on()
    return generators


def _journal_of(path: Path) -> Path:
    return path.with_suffix(".journal")


def _saved(path: Path) -> Run | None:
    return Run.load(path) if path.exists() else None


def _alone(generators: Generators, run: Run | None) -> Run:
    (client,) = generators.all
    if run is None:
        if generators.interrupted:
            raise KeyboardInterrupt  # before the run began: there is nothing to account for
        raise not_begun(client.said, client.child.popen.returncode)
    if generators.interrupted or run.outcome == "interrupted":
        raise RunInterrupted(run)
    if client.child.popen.returncode == 1:
        kind = ServerGone if run.outcome == "server gone" else RunFailed
        raise kind(client.said, run)
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
