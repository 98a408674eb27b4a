"""Several load generators and servers: throughput against its bound, up to all cores.

On a larger machine it checks the table of the further lesson on generators, servers and cores.

p generators, workers of a local fleet, make one run against s server processes, with one
operation in a call (asyncio tasks) and with 128 in a message (streams). The bound is computed
before the rounds from the CPU time of one operation, measured in a run with one process each, with
serial parts D':

    X <= min(p / D'_client, s / D'_server, cores / (D_client + D_server))

1 and 2 of each are measured on every machine. With more cores, so are the numbers of processes
that should fill 4, 8, 16 ... of them. The rows without a measurement are the predicted table for
machines of up to 64 cores. Rounds are interleaved. If client and server processes share few cores,
the last term is the smallest, and an additional process adds no throughput.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

import numpy as np

from benchmarks.batches import SMALL
from benchmarks.cost import Cost, cost_of
from kvstore.client import load, run_in_process, strategies
from kvstore.client.fleet import Fleet, Local
from kvstore.client.strategies import Strategy
from kvstore.measure import Run, cores
from kvstore.measure.cpu_cost import cores_busy
from kvstore.model import Prediction, scaling
from kvstore.server import ShardedServer, serving_sharded

FEW = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Generators and servers that are measured on every machine."""
MOST_PROCESSES = 64


class Load(NamedTuple):
    """A strategy with its options and its number of calls or messages in flight."""

    strategy: Strategy
    in_flight: int
    options: dict[str, Any]


LOADS = {
    "tasks": Load(strategies.tasks, 128, {}),
    "pipelined, batch 128": Load(strategies.pipelined, 64, {"streams": 4, "batch": 128}),
}
Setup = tuple[str, int, int]


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each load and number of processes: throughput, bound, bottleneck."""
    rounds, duration_s = (1, 0.7) if quick else (5, 2.0)
    with ExitStack() as running:
        fleets: dict[int, Fleet | None] = {1: None}
        servers: dict[int, ShardedServer] = {1: running.enter_context(_servers(1))}
        parts = {name: _run(name, servers[1], None, 1, duration_s) for name in LOADS}
        runs: dict[Setup, list[Run]] = {
            (name, p, s): [] for name in LOADS for p, s in setups(cost_of(parts[name]), cores())
        }
        bounds = {setup: _bound(cost_of(parts[setup[0]]), *setup[1:]) for setup in runs}
        for _, p, s in runs:
            if p not in fleets:
                fleets[p] = running.enter_context(Local(p))
            if s not in servers:
                servers[s] = running.enter_context(_servers(s))
        for _ in range(rounds):
            for (name, p, s), found in runs.items():
                found.append(_run(name, servers[s], fleets[p], max(p, s), duration_s))
    for (name, p, s), found in runs.items():
        yield _row(name, p, s, found, bounds[name, p, s], found_alone=runs[name, 1, 1])
    for name, part in parts.items():
        yield from _predicted_rows(name, cost_of(part))


def setups(cost: Cost, machine_cores: int) -> list[tuple[int, int]]:
    """Return the generators and servers to measure: few, and those that fill 4, 8, ... cores."""
    machines = [n for n in (*scaling.MACHINES, machine_cores) if 2 < n <= machine_cores]
    filling = ((each.generators, each.servers) for each in _by_cores(cost, machines))
    return list(dict.fromkeys([*FEW, *(each for each in filling if sum(each) <= MOST_PROCESSES)]))


def _servers(count: int) -> AbstractContextManager[ShardedServer]:
    return serving_sharded(
        count, read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True
    )


def _by_cores(cost: Cost, machines: Sequence[int]) -> list[scaling.Sized]:
    return scaling.by_cores(
        machines,
        client_s=cost.client_cpu_s,
        server_s=cost.server_cpu_s,
        client_serial_s=cost.client_serial_s,
        server_serial_s=cost.server_serial_s,
    )


def _predicted_rows(name: str, cost: Cost) -> Iterator[dict[str, Any]]:
    for each in _by_cores(cost, scaling.MACHINES):
        yield {
            "client": name,
            "generators": each.generators,
            "servers": each.servers,
            "operations/s": "predicted only",
            "bound": f"{each.predicted.value:,.0f}",
            "binds": each.predicted.binds,
            "CPU us client/server": str(cost),
            "cores": each.cores,
        }


def _run(
    name: str, server: ShardedServer, fleet: Fleet | None, times: int, duration_s: float
) -> Run:
    """Return a run with `times` as much in flight as for one generator and one server."""
    strategy, in_flight, options = LOADS[name]
    options = {"in_flight": times * in_flight, "duration_s": duration_s, **options}
    if fleet is None:
        run = run_in_process(strategy, server, SMALL, **options)
    else:
        run = load.run(strategy, server, SMALL, fleet=fleet, **options)
    if set(run.outcomes()) != {"OK"}:  # for example a key that is looked up on the wrong server
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    return run


def _bound(each: Cost, generators: int, servers: int) -> Prediction:
    return scaling.throughput(
        generators=generators,
        servers=servers,
        cores=cores(),
        client_s=each.client_cpu_s,
        server_s=each.server_cpu_s,
        client_serial_s=each.client_serial_s,
        server_serial_s=each.server_serial_s,
    )


def _row(
    load: str, p: int, s: int, runs: list[Run], bound: Prediction, *, found_alone: list[Run]
) -> dict[str, Any]:
    rates = [run.throughput_per_s for run in runs]
    alone = float(np.median([run.throughput_per_s for run in found_alone]))
    return {
        "client": load,
        "generators": p,
        "servers": s,
        "operations/s": f"{np.median(rates):,.0f}",
        "spread": f"{min(rates):,.0f} to {max(rates):,.0f}",
        "over 1 and 1": round(float(np.median(rates)) / alone, 2),
        "bound": f"{bound.value:,.0f}",
        "binds": bound.binds,
        "over bound": round(bound.ratio_of(float(np.median(rates))), 2),
        "CPU us client/server": str(cost_of(*runs)),
        "cores busy": round(float(np.mean([cores_busy(run) for run in runs])), 2),
        "cores": cores(),
    }
