"""`run`: one strategy against one server, for some seconds or some calls."""

import inspect
import json
import math
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from datetime import datetime
from functools import partial
from typing import Any

import grpc

from kvstore import garbage
from kvstore.apart import apart
from kvstore.client import asked, joining
from kvstore.client.channel import ServerNotReached, Target, target_of
from kvstore.client.client import Client
from kvstore.client.gate import Gate
from kvstore.client.part import WHOLE, Part
from kvstore.client.schedule import Schedule
from kvstore.client.servers import reached
from kvstore.client.sharding import AnyOperations, ShardedOperations
from kvstore.client.strategies import Strategy, chained, futures, pipelined
from kvstore.client.telling import loop_cpu_s, moments, status_after, told
from kvstore.client.watch import OnSample, Watch
from kvstore.client.workload import Operations, Workload
from kvstore.collector import watched_collector
from kvstore.measure.collected import with_server
from kvstore.measure.host import describe_host
from kvstore.measure.journal import Journal
from kvstore.measure.run import Run
from kvstore.measure.sampler import Sampler
from kvstore.v1 import server_status_pb2 as pb


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C came during a run; `run` holds all that happened until then."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"interrupted, with every call accounted for: {run!r}")
        self.run = run


class RunFailed(RuntimeError):
    """A run ended before its time; `run` holds all that happened until then."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


class ServerGone(RunFailed):
    """The server ended during the run, or nobody listens at its address any more."""


def run(
    strategy: Strategy,
    server: object,
    workload: Workload,
    *,
    in_flight: int = 1,
    connections: int = 1,
    duration_s: float | None = None,
    calls: int | None = None,
    due_times: Iterator[float] | None = None,
    joins: Iterable[float] | None = None,
    deadline_s: float = 30.0,
    memory_ceiling_bytes: float = math.inf,
    on_sample: OnSample | None = None,
    sample_interval_s: float = 0.1,
    metadata: Mapping[str, str] | None = None,
    settle_garbage: bool = True,
    part: Part = WHOLE,
    gate: Gate | None = None,
    journal: Journal | None = None,
    **options: Any,
) -> Run:
    """Make calls until the duration or the count is up; return once every one has ended.

    The strategy runs in a thread of its own; this thread looks on, calls `on_sample` every
    `sample_interval_s`, and turns Ctrl-C into an orderly end. `server` is what `serving()`
    gives, or an address. All `connections` share what is `in_flight` evenly, and stand before
    the clock starts. When either process outgrows `memory_ceiling_bytes` the calls in flight
    are cancelled and the run returns with the outcome "memory ceiling". `metadata` goes
    along with every call. Without `settle_garbage` Python's collector is left as it is.

    `joins` says when each of the `in_flight` callers begins, in seconds from the start, for
    example `pacing.joins(pacing.climb(0, 250, steps=250, over_s=30))`; without it all begin at
    once. Strategies with callers of their own know it: `threads` and `tasks`.

    One of several generators that make a run together is told its `part`, whose keys no other
    asks for. When all is ready it waits at the `gate`; the clock counts from its opening. Its
    `journal` keeps a copy of the records, should it be killed.

    Raises:
        ValueError: a setting makes no sense.
        ServerNotReached, WrongServer: see `channel.connected`.
        ConnectionsShared: the server sees fewer connections than asked for; in RunFailed.
        RunInterrupted: after Ctrl-C. ServerGone, RunFailed: the run could not go on.
            All three carry the run so far in `.run`.
    """
    limits = asked.limits(
        strategy, workload, in_flight, connections, duration_s, calls, deadline_s, options
    )
    if strategy is chained and due_times is not None:
        raise ValueError(
            "chained sends a call when an answer comes, so it cannot keep due times: bounded can"
        )
    if joins is not None:
        options["joins"] = joining.checked(joins, in_flight, strategy)
    owns = None if part == WHOLE else part.owns
    target = target_of(server)
    shards, salt = len(target.shards), secrets.token_hex(4)
    operations: AnyOperations = (
        Operations(workload, salt, owns)
        if shards == 1
        else ShardedOperations(workload, shards, salt, owns)
    )
    if strategy is pipelined:
        asked.check_streams(options.get("streams", 1), connections, shards)
        if workload.busiest_share is not None:
            raise ValueError("a stream speaks to one server: with `pipelined` leave busiest_share")
    quiet = garbage.settled() if settle_garbage else nullcontext()
    with reached(target) as servers, quiet, watched_collector() as collector:
        channel, before = servers.channels[0], servers.before
        tells_times = bool(json.loads(before.settings_json or "{}").get("station_times"))
        apart(partial(_preload, channel, target, operations))
        if workload.preload:
            before = servers.status(5.0)
        sampler = Sampler(servers.pids, collector)
        client = Client(  # last of what takes time: its clock starts when it is made
            channel,
            target.address,
            deadline_s=deadline_s,
            operations=operations,
            tells_times=tells_times,
            metadata=metadata,
            connections=connections,
            on_start=sampler.start_over,
        )
        watch = Watch(client, sampler, target.address, memory_ceiling_bytes, gate, journal)
        schedule = Schedule(
            operations, clock=client.now_s, due_times=due_times, guard=watch.admit, **limits
        )
        if "batch" in inspect.signature(strategy).parameters:  # others draw one after the other
            schedule.prepare(options.get("batch", 1))
        started_at = datetime.now().astimezone().isoformat(timespec="milliseconds")
        with closing(client):
            watch.run(strategy, schedule, in_flight, options, on_sample, sample_interval_s)
        began_unix_s = time.time() - client.now_s()  # now: the clock began with the first call
        records = client.recorder.array()
        client_cpu, server_cpu = watch.sampler.cpu()
        after = status_after(servers, watch.outcome)
        finished = Run(
            strategy=getattr(strategy, "__name__", "strategy"),
            in_flight=0 if strategy is futures else in_flight,
            settings={
                "workload": workload.as_dict(),
                "duration_s": duration_s,
                "calls": calls,
                "deadline_s": deadline_s,
                "paced": due_times is not None,
                "metadata": dict(metadata or {}),
                "settle_garbage": settle_garbage,
                "connections": connections,
                **options,
            },
            server=told(before, after),
            host=describe_host(),
            started_at=started_at,
            window_s=float(records["done_s"].max()) if len(records) else watch.elapsed_s,
            issued=client.issued,
            outcome=watch.outcome,
            records=records,
            samples=with_server(watch.sampler.frame(), moments(after), began_unix_s),
            machine_cpu_s=watch.sampler.machine_cpu_s(),
            machine_stolen_s=watch.sampler.machine_stolen_s(),
            connections=_verified(client, before),
            connect_s=[each.connect_s for each in client.connections.opened],
            client_cpu=client_cpu._replace(loop_s=client.loop_cpu_s),
            server_cpu=server_cpu._replace(loop_s=loop_cpu_s(before, after)),
            operations_sent=client.issued_operations,
        )
    return _returned_or_raised(finished, watch, target)


def _verified(client: Client, before: pb.GetServerStatusResponse) -> int:
    """How many connections carried the calls, in the words of the server."""
    if client.connections.opened:
        return client.connections.verified
    return 1 if before.peer else 0  # the calls of threads went over the channel that asked


def _preload(channel: grpc.Channel, target: Target, operations: AnyOperations) -> None:
    """Create the keys that a workload asks for from its first call on."""
    wanted = operations.preloads()
    with closing(Client(channel, target.address, operations=operations)) as client:
        for operation in wanted:
            client.start(operation)
        client.wait_until_idle()
    if any(shard.workload.preload and not shard.known for shard in operations.shards):
        raise ServerNotReached(
            f"none of {len(wanted)} keys could be created at {target.address} before the run:"
            " start a fresh server, or another seed if it holds these keys already"
        )


def _returned_or_raised(run: Run, watch: Watch, target: Target) -> Run:
    if run.outcome == "interrupted":
        raise RunInterrupted(run)
    if run.outcome == "server gone":
        silent = ",".join(watch.reach.silent()) or target.address
        again = (
            f"the server at {target.address} ended after {run.window_s:.1f} s of the run."
            " Start it again with `with serving() as server:` and repeat the cell"
            if target.identity is not None
            else f"nobody answers at {silent} any more, {run.window_s:.1f} s into the run."
            " Start that server again and repeat the run"
        )
        raise ServerGone(f"{again}; what was measured is in the error's `.run`: {run!r}", run)
    if run.outcome == "failed":
        assert watch.error is not None
        raise RunFailed(f"{_root(watch.error)}; the run so far: {run!r}", run) from watch.error
    return run


def _root(error: BaseException) -> BaseException:
    """The first error inside the groups that tasks raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
