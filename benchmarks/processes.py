"""Several generators and several servers: what a process more brings, until the cores bind.

p generator processes make one run against s server processes, with one operation to a call
(asyncio tasks) and with 128 to a message (streams). The bound is worked out before the rounds,
from the processor time of one operation on each side in a run with one process on each:
X <= min(p / d_client, s / d_server, cores / (d_client + d_server)). Rounds are interleaved.
Where both sides share few cores, the last term is the lesson: a process more brings nothing.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from benchmarks.batches import SMALL
from benchmarks.cost import cost_of
from kvstore.client import run_in_process, strategies
from kvstore.client.strategies import Strategy
from kvstore.measure import Run, cores
from kvstore.measure.price import cores_busy
from kvstore.model import Prediction, processes
from kvstore.server import ShardedServer, serving_sharded

COUNTS = (1, 2)


class Way(NamedTuple):
    """A way of asking, and how much of it is in flight."""

    strategy: Strategy
    in_flight: int
    options: dict[str, Any]


WAYS = {
    "tasks": Way(strategies.tasks, 128, {}),
    "pipelined, batch 128": Way(strategies.pipelined, 64, {"streams": 4, "batch": 128}),
}
Place = tuple[str, int, int]


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each way and number of processes: rate over its bound, and what binds."""
    rounds, duration_s = (1, 0.7) if quick else (5, 2.0)
    runs: dict[Place, list[Run]] = {(way, p, s): [] for way in WAYS for p in COUNTS for s in COUNTS}
    with ExitStack() as running:
        servers = {
            s: running.enter_context(
                serving_sharded(
                    s, read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True
                )
            )
            for s in COUNTS
        }
        parts = {way: _run(way, servers[1], 1, duration_s) for way in WAYS}
        bounds = {place: _bound(parts[place[0]], *place[1:]) for place in runs}
        for _ in range(rounds):
            for (way, p, s), found in runs.items():
                found.append(_run(way, servers[s], p, duration_s))
    for (way, p, s), found in runs.items():
        yield _row(way, p, s, found, bounds[way, p, s], found_alone=runs[way, 1, 1])


def _run(way: str, server: ShardedServer, generators: int, duration_s: float) -> Run:
    strategy, in_flight, options = WAYS[way]
    run = run_in_process(
        strategy, server, SMALL,
        processes=generators, in_flight=in_flight, duration_s=duration_s, **options,
    )  # fmt: skip
    if set(run.outcomes()) != {"OK"}:  # a key that is looked for on the wrong server, say
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    return run


def _bound(part: Run, generators: int, servers: int) -> Prediction:
    each = cost_of(part)
    return processes.throughput(
        generators=generators,
        servers=servers,
        cores=cores(),
        client_s=each.client_cpu_s,
        server_s=each.server_cpu_s,
        client_serial_s=each.client_serial_s,
        server_serial_s=each.server_serial_s,
    )


def _row(
    way: str, p: int, s: int, runs: list[Run], bound: Prediction, *, found_alone: list[Run]
) -> dict[str, Any]:
    rates = [run.throughput_per_s for run in runs]
    alone = float(np.median([run.throughput_per_s for run in found_alone]))
    return {
        "client": way,
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
