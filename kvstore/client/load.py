"""`run`: make a run of one strategy, from this process, a fleet or another process."""

import json
import math
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import grpc
import psutil

from kvstore import gc_control
from kvstore import transport as transports
from kvstore.client.channel import Target, Tls, target_of, uninterrupted
from kvstore.client.client import Client
from kvstore.client.errors import (
    NotEnoughMemory,
    RunFailed,
    RunInterrupted,
    ServerGone,
    ServerNotReached,
    TlsMismatch,
    WrongServer,
)
from kvstore.client.fleet import Fleet, Gate
from kvstore.client.monitor import (
    Monitor,
    OnSample,
    connected_servers,
    loop_cpu_s,
    moments,
    server_report,
    status_after,
)
from kvstore.client.options import WHOLE, Part, RunOptions, check_due_times, name_of
from kvstore.client.schedule import AnyOperations, Schedule, ShardedOperations
from kvstore.client.strategies import Strategy, futures, supports
from kvstore.client.workload import MethodCalls, MethodOperations, Operations, Workload
from kvstore.gc_control import watched_collector
from kvstore.measure.host import available_memory_bytes, describe_host
from kvstore.measure.recorder import Sample, Sampler, with_server
from kvstore.measure.run import Outcome, Run
from kvstore.subprocesses import Child, child, private_folder
from kvstore.v1 import server_status_pb2 as pb


def run(
    strategy: Strategy,
    server: object,
    workload: Workload | MethodCalls,
    options: RunOptions | None = None,
    *,
    fleet: Fleet | None = None,
    due_times: Iterator[float] | None = None,
    on_sample: OnSample | None = None,
    part: Part = WHOLE,
    gate: Gate | None = None,
    **settings: Any,
) -> Run:
    """Make calls until the duration or the count is reached; return the run once all have ended.

    The strategy runs in a thread of its own. This thread monitors it, calls `on_sample` at regular
    intervals, and ends the run in order after Ctrl-C. `server` is what `serving()` yields, or an
    address. `settings` are fields of `RunOptions`, such as `in_flight=100`, or arguments of the
    strategy's own; they change `options`. `due_times` makes an open loop, as `rate_per_s` does.

    When the server stops answering, every call ends at its deadline and the run returns with the
    outcome "server unresponsive"; `Run.ended_by` says when that was. A stream breaks at the
    deadline of its oldest request, and the run ends with it.

    A `fleet` makes the same run with several load generators: `Local(4)` or `Cluster(address)` of
    `kvstore.client.fleet`. They divide `in_flight`, `calls`, `rate_per_s` and the keys that the
    workload preloads; each has its own seed and its own keys. All other options hold for each
    generator. Their records make one run. When one of them fails, all end. An open loop then needs
    `rate_per_s`. Each generator gets its `part`, and waits at the `gate` for the common start.

    Raises:
        ValueError: an option makes no sense.
        ServerNotReached, WrongServer: see `channel.connected`.
        ConnectionsShared: the server sees fewer connections than requested; in RunFailed.
        RunInterrupted: after Ctrl-C. ServerGone, RunFailed: the run could not continue.
            All three hold the run until then in `.run`.
        FleetNotReached: the fleet cannot be used.
    """
    options = RunOptions.of(strategy, options, settings)
    if fleet is not None:
        if due_times is not None:
            raise ValueError("due times cannot be sent to a fleet: use rate_per_s")
        from kvstore.client import fleet_driver

        return fleet_driver.run_on(fleet, strategy, server, workload, options, on_sample)
    target = target_of(server)
    shards, salt = len(target.shards), secrets.token_hex(4)
    options.check(strategy, workload, shards=shards)
    if due_times is None and (whole := options.due_times()) is not None:
        due_times = part.due_times(whole)
    check_due_times(strategy, due_times is not None)
    owns = None if part == WHOLE else part.owns
    operations: AnyOperations | MethodOperations
    if isinstance(workload, MethodCalls):
        operations = workload.operations()
    elif shards == 1:
        operations = Operations(workload, salt, owns)
    else:
        operations = ShardedOperations(workload, shards, salt, owns)
    quiet = gc_control.settled() if options.settle_garbage else nullcontext()
    with connected_servers(target) as servers, quiet, watched_collector() as collector:
        channel, before = servers.channels[0], servers.before
        station_times = bool(json.loads(before.settings_json or "{}").get("station_times"))
        if not isinstance(operations, MethodOperations):
            uninterrupted(partial(_preload, channel, target, operations))
        if isinstance(workload, Workload) and workload.preload:
            before = servers.status(5.0)
        sampler = Sampler(servers.pids, collector)
        client = Client(  # made last, because its clock starts when it is made
            channel,
            target,
            deadline_s=options.deadline_s,
            operations=operations,
            station_times=station_times,
            metadata=options.metadata,
            connections=options.connections,
            service_config=options.service_config,
            on_start=sampler.start_over,
        )
        monitor = Monitor(
            client, sampler, target, options.memory_ceiling_bytes, gate,
            ends_s=(options.sending_s, options.drain_s), keep_going=options.keep_going,
        )  # fmt: skip
        schedule = Schedule(
            operations,
            clock=client.recorder.now_s,
            duration_s=options.sending_s,
            calls=options.calls or math.inf,
            due_times=due_times,
            guard=monitor.admit,
            joins=options.joins,
            unsent=client.reader.unsent,
        )
        if supports(strategy).streams:  # other strategies draw one operation at a time
            schedule.prepare(options.batch)
        started_at = datetime.now().astimezone().isoformat(timespec="milliseconds")
        with closing(client):
            monitor.run(
                lambda: client.run(
                    strategy, schedule, options.in_flight,
                    streams=options.streams, batch=options.batch, **options.own,
                ),
                schedule,
                on_sample,
                options.sample_interval_s,
            )  # fmt: skip
        began_unix_s = time.time() - client.recorder.now_s()  # the run begins with its first call
        records = client.recorder.array()
        client_cpu, server_cpu = monitor.sampler.cpu()
        after = status_after(servers, monitor.outcome)
        finished = Run(
            strategy=name_of(strategy),
            in_flight=options.in_flight if supports(strategy).limit else 0,
            settings={
                "workload": workload.as_dict(),
                **options.as_dict(),
                "paced": due_times is not None,
                **(operations.report() if isinstance(operations, MethodOperations) else {}),
            },
            server=server_report(before, after),
            host=describe_host(),
            started_at=started_at,
            window_s=float(records["done_s"].max()) if len(records) else monitor.elapsed_s,
            issued=client.recorder.issued,
            outcome=monitor.outcome,
            records=records,
            sample_rows=with_server(monitor.sampler.rows(), moments(after), began_unix_s),
            machine_cpu_s=monitor.sampler.machine_cpu_s(),
            machine_stolen_s=monitor.sampler.machine_stolen_s(),
            connections=_verified(client, before),
            connect_s=[each.connect_s for each in client.connections.opened],
            client_cpu=client_cpu._replace(loop_s=client.loop_cpu_s),
            server_cpu=server_cpu._replace(loop_s=loop_cpu_s(before, after)),
            operations_sent=client.recorder.issued_operations,
            unresponsive=monitor.unresponsive,
            clock_step_s=monitor.sampler.clock_step_s(),
            kinds=client.recorder.kinds,
        )
    return _return_or_raise(finished, monitor, target)


def _verified(client: Client, before: pb.GetServerStatusResponse) -> int:
    """Return how many connections carried the calls, as the server counts them."""
    if client.connections.opened:
        return client.connections.verified
    return 1 if before.peer else 0  # the calls went over the channel of the status call


PRELOAD_TRIES = 3
"""A front that has only just connected may give its back end too little time at first."""


def _preload(channel: grpc.Channel, target: Target, operations: AnyOperations) -> None:
    """Create the keys that the workload needs before its first call. Raises `ServerNotReached`."""
    creates = operations.preloads()
    for _ in range(PRELOAD_TRIES):
        with closing(Client(channel, target, operations=operations)) as client:
            client.run(futures, iter(creates), len(creates))
        if all(shard.known or not shard.workload.preload for shard in operations.shards):
            return
    raise ServerNotReached(
        f"none of {len(creates)} keys could be created at {target.address} before the run:"
        " start a new server, or take another seed if the server has these keys already"
    )


def _return_or_raise(run: Run, monitor: Monitor, target: Target) -> Run:
    if run.outcome is Outcome.INTERRUPTED:
        raise RunInterrupted(run)
    if run.outcome is Outcome.SERVER_GONE:
        silent = ",".join(monitor.reachability.silent()) or target.address
        again = (
            f"the server at {target.address} ended after {run.window_s:.1f} s of the run."
            " Start it again with `with serving() as server:` and repeat the cell"
            if target.identity is not None
            else f"no server answers at {silent} any more, {run.window_s:.1f} s into the run."
            " Start that server again and repeat the run"
        )
        raise ServerGone(f"{again}; the error's `.run` has what was measured: {run!r}", run)
    if run.outcome is Outcome.FAILED:
        assert monitor.error is not None
        raise RunFailed(f"{_root(monitor.error)}; the run so far: {run!r}", run) from monitor.error
    return run


def _root(error: BaseException) -> BaseException:
    """Return the first error inside the exception groups of a `TaskGroup`."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# ---- in process ---------------------------------------------------------------------------------
# `run_in_process`: make a run from another process, which is monitored from outside.
#
# The notebook's kernel then disturbs no measurement, and a run that fills the memory does not
# endanger the kernel.


WATCHDOG = 1.08
"""When client or server exceeds the ceiling by this factor, the client is killed from outside."""
LOOK_S = 0.02
END_S = 30.0
"""Seconds after a request to stop in which the process may save its run."""
EXIT_STATUS: dict[type[Exception], int] = {
    ServerNotReached: 3,
    WrongServer: 4,
    TlsMismatch: 5,
    ValueError: 2,
}
"""Exit status of `python -m kvstore.client` when the run cannot begin."""


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
    options = RunOptions.of(strategy, options, settings)
    options.check(strategy, workload)
    check_due_times(strategy, options.paced)
    if transport is not None and transport not in transports.NAMES:
        raise ValueError(
            f"transport must be one of {', '.join(transports.NAMES)}, got {transport!r}"
        )
    environment = None if transport is None else transports.environment(transport)
    _refuse_without_room(options.memory_ceiling_bytes)
    target = target_of(server)
    with private_folder("kvstore-run-") as folder:
        path = folder / "run.npz"
        command = [target.address, f"--strategy={name_of(strategy)}"]
        command += [f"--options={options.to_json()}"]
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
    return not math.isinf(ceiling_bytes) and largest_rss_bytes(pids) > WATCHDOG * ceiling_bytes


def largest_rss_bytes(pids: Sequence[int]) -> int:
    """Return the resident memory of the largest of these processes; 0 when none runs."""
    most = 0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            most = max(most, psutil.Process(pid).memory_info().rss)
    return most


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
