"""`run`: make a run of one strategy, from this process or with the generators of a fleet."""

import json
import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol

import grpc

from kvstore import gc_control
from kvstore.client.channel import Target, uninterrupted
from kvstore.client.client import Client, now_text, run_of
from kvstore.client.connections import Choose
from kvstore.client.errors import RunFailed, RunInterrupted, ServerGone, ServerNotReached
from kvstore.client.messages import Operation
from kvstore.client.monitor import (
    Gate,
    Monitor,
    OnSample,
    Servers,
    connected_servers,
    loop_cpu_s,
    server_report,
    status_after,
)
from kvstore.client.plan import WHOLE, Plan, RunOptions, name_of
from kvstore.client.schedule import AnyOperations, Schedule, ShardedOperations
from kvstore.client.strategies import Strategy, futures
from kvstore.client.workload import MethodCalls, MethodOperations, Operations, Workload
from kvstore.measure.recorder import Sampler
from kvstore.measure.run import Outcome, Run
from kvstore.protocol import STATUSES
from kvstore.v1 import server_status_pb2 as pb


class Generators(Protocol):
    """Several load generators: `Local` and `Cluster` of `kvstore.client.fleet`."""

    def run(self, plan: Plan, on_sample: OnSample | None = None) -> Run:
        """Make one run together."""


def run(
    strategy: Strategy,
    server: object,
    workload: Workload | MethodCalls,
    options: RunOptions | None = None,
    *,
    fleet: Generators | None = None,
    due_times: Iterator[float] | None = None,
    choose: Choose | None = None,
    on_sample: OnSample | None = None,
    **settings: Any,
) -> Run:
    """Make calls until the duration or the count is reached; return the run once all have ended.

    The strategy runs in a thread of its own. This thread monitors it, calls `on_sample` at regular
    intervals, and ends the run in order after Ctrl-C. `server` is what `serving()` yields, or an
    address. `settings` are fields of `RunOptions`, such as `in_flight=100`; they change `options`.
    `due_times` makes an open loop, as `rate_per_s` does.

    Several servers share out the keys. With `choose`, each has a copy of all keys, and this
    function chooses the server of each call: it gets the number of open calls at each server, and
    returns a number from 0 on. The workload must be one of reads.

    When the server stops answering, every call ends at its deadline and the run returns with the
    outcome "server unresponsive"; `Run.ended_by` says when that was. A stream breaks at the
    deadline of its oldest request, and the run ends with it.

    A `fleet` makes the same run with several load generators: `Local(4)` or `Cluster(address)` of
    `kvstore.client.fleet`. They divide `in_flight`, `calls`, `rate_per_s` and the keys that the
    workload preloads; each has its own seed and its own keys. All other options hold for each
    generator. Their records make one run. When one of them fails, all end. An open loop then needs
    `rate_per_s`.

    Raises:
        ValueError: an option makes no sense.
        ServerNotReached, WrongServer: see `channel.connected`.
        ConnectionsShared: the server sees fewer connections than requested; in RunFailed.
        RunInterrupted: after Ctrl-C. ServerGone, RunFailed: the run could not continue.
            All three hold the run until then in `.run`.
        FleetNotReached: the fleet cannot be used.
    """
    plan = Plan.of(
        strategy,
        server,
        workload,
        options,
        settings,
        due_times=due_times,
        choose=choose,
        for_fleet=fleet is not None,
    )
    return generate(plan, on_sample) if fleet is None else fleet.run(plan, on_sample)


def generate(plan: Plan, on_sample: OnSample | None = None, gate: Gate | None = None) -> Run:
    """Make the run of a plan, or one generator's part of it, from this process; see `run`.

    It waits at the `gate` for its start, and ends when that is closed.
    """
    workload, options, target, part = plan.workload, plan.options, plan.target, plan.part
    shards, salt, due_times = len(target.shards), secrets.token_hex(4), plan.pace()
    owns = None if part == WHOLE else part.owns
    operations: AnyOperations | MethodOperations
    if isinstance(workload, MethodCalls):
        operations = workload.operations()
    elif shards == 1 or plan.choose is not None:
        operations = Operations(workload, salt, owns)
    else:
        operations = ShardedOperations(workload, shards, salt, owns)
    with connected_servers(target) as servers, gc_control.settled():
        channel, before = servers.channels[0], servers.before
        reported = json.loads(before.settings_json or "{}")
        if not isinstance(operations, MethodOperations):
            uninterrupted(partial(_preload, servers, plan, operations))
        if isinstance(workload, Workload) and workload.preload:
            before = servers.status(5.0)
        sampler = Sampler(servers.pids)
        client = Client(  # made last, because its clock starts when it is made
            channel,
            target,
            operations,
            options,
            station_times=bool(reported.get("station_times")),
            name_calls=bool(reported.get("note_attempts")),
            on_start=sampler.start_over,
            choose=plan.choose,
        )
        monitor = Monitor(client, sampler, target, options, gate)
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
        if plan.streams:  # other strategies draw one operation at a time
            schedule.prepare(options.batch)
        started_at = now_text()
        with closing(client):
            monitor.run(
                lambda: client.run(plan.strategy, schedule, options.in_flight, plan.streams),
                schedule,
                on_sample,
            )
        client_cpu, server_cpu = monitor.sampler.cpu()
        after = status_after(servers, monitor.outcome)
        finished = run_of(
            client.recorder,
            client.connections.opened,
            monitor.elapsed_s,
            strategy=plan.name,
            in_flight=options.in_flight if plan.can.limit else 0,
            settings={
                "workload": workload.as_dict(),
                **asdict(options),
                "paced": plan.paced,
                **({"choose": name_of(plan.choose)} if plan.choose is not None else {}),
                **(operations.report() if isinstance(operations, MethodOperations) else {}),
            },
            server=server_report(before, after),
            started_at=started_at,
            outcome=monitor.outcome,
            sample_rows=monitor.sampler.rows(),
            machine_cpu_s=monitor.sampler.machine_cpu_s(),
            machine_stolen_s=monitor.sampler.machine_stolen_s(),
            connections=_verified(client, before),
            client_cpu=client_cpu._replace(loop_s=client.loop_cpu_s),
            server_cpu=server_cpu._replace(loop_s=loop_cpu_s(before, after)),
            unresponsive=monitor.unresponsive,
            clock_step_s=monitor.sampler.clock_step_s(),
        )
    return _return_or_raise(finished, monitor, target)


def _verified(client: Client, before: pb.GetServerStatusResponse) -> int:
    """Return how many connections carried the calls, as the server counts them."""
    if client.connections.opened:
        return client.connections.verified
    return 1 if before.peer else 0  # the calls went over the channel of the status call


PRELOAD_TRIES = 3
"""A front that has only just connected may give its back end too little time at first."""


def _preload(servers: Servers, plan: Plan, operations: AnyOperations) -> None:
    """Create the keys that the workload needs before its first call. Raises `ServerNotReached`.

    Where a function chooses the server, each of them gets all keys.
    """
    if plan.choose is None:
        _create(servers.channels[0], plan.target, operations, operations.preloads)
        return
    creates = operations.preloads()
    with ThreadPoolExecutor(len(servers.channels)) as at_once:
        created = at_once.map(
            partial(_create, operations=operations, preloads=lambda: creates),
            servers.channels,
            servers.targets,
        )
        list(created)  # raises what one of them raised


def _create(
    channel: grpc.Channel,
    target: Target,
    operations: AnyOperations,
    preloads: Callable[[], list[Operation]],
) -> None:
    for _ in range(PRELOAD_TRIES):
        creates = preloads()  # other keys each time: a create without a reply may have been done
        with closing(Client(channel, target, operations)) as client:
            client.run(futures, iter(creates), len(creates))
            records = client.recorder.array()
            here = bool(records["ok_operations"].any()) or not creates
        if here and all(each.known or not each.workload.preload for each in operations.shards):
            return
    ends = Counter(STATUSES[status] for status in records["status"])
    statuses = ", ".join(f"{count} {name}" for name, count in ends.most_common())
    raise ServerNotReached(
        f"none of {len(creates)} keys could be created at {target.address} before the run"
        f" ({statuses}): start a new server, or take another seed if the server has these keys"
        " already"
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
