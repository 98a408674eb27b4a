"""Several load generators and servers: throughput against its bound, until the cores are full.

p generators, workers of a local fleet, make one run against s server processes, with one
operation in a call (asyncio tasks) and with 128 in a message (streams). The bound is computed
before the rounds from the CPU time of one operation, measured in a run with one process each, with
serial parts D':

    X <= min(p / D'_client, s / D'_server, cores / (D_client + D_server))

Rounds are interleaved. If client and server processes share few cores, the last term is the
smallest, and an additional process adds no throughput.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from benchmarks.batches import SMALL
from benchmarks.cost import cost_of
from kvstore.client import load, run_in_process, strategies
from kvstore.client.fleet import Fleet, Local
from kvstore.client.strategies import Strategy
from kvstore.measure import Run, cores
from kvstore.measure.cpu_cost import cores_busy
from kvstore.model import Prediction, scaling
from kvstore.server import ShardedServer, serving_sharded

COUNTS = (1, 2)


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
    runs: dict[Setup, list[Run]] = {
        (name, p, s): [] for name in LOADS for p in COUNTS for s in COUNTS
    }
    with ExitStack() as running:
        fleets = {p: running.enter_context(Local(p)) for p in COUNTS if p > 1}
        servers = {
            s: running.enter_context(
                serving_sharded(
                    s, read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True
                )
            )
            for s in COUNTS
        }
        parts = {name: _run(name, servers[1], None, duration_s) for name in LOADS}
        bounds = {setup: _bound(parts[setup[0]], *setup[1:]) for setup in runs}
        for _ in range(rounds):
            for (name, p, s), found in runs.items():
                found.append(_run(name, servers[s], fleets.get(p), duration_s))
    for (name, p, s), found in runs.items():
        yield _row(name, p, s, found, bounds[name, p, s], found_alone=runs[name, 1, 1])


def _run(name: str, server: ShardedServer, fleet: Fleet | None, duration_s: float) -> Run:
    strategy, in_flight, options = LOADS[name]
    options = {"in_flight": in_flight, "duration_s": duration_s, **options}
    if fleet is None:
        run = run_in_process(strategy, server, SMALL, **options)
    else:
        run = load.run(strategy, server, SMALL, fleet=fleet, **options)
    if set(run.outcomes()) != {"OK"}:  # for example a key that is looked up on the wrong server
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    return run


def _bound(part: Run, generators: int, servers: int) -> Prediction:
    each = cost_of(part)
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
