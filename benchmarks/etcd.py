"""Our service on etcd, beside etcd's own load generator and beside the bound of the processors.

Three etcd nodes with their logs on a disk, on this machine; creates of 64 bytes. Each create passes
from our client through our service to etcd, and needs CPU time in all of them. The bound is
computed before the rounds: the client's part from a run with a service that has its data in memory,
the parts of our service and of etcd from one run of all.

    X <= cores / (D_client + D_service + D_etcd)

etcd's part has to come from such a run. The more creates arrive together, the more of them share an
entry of the log: etcd's own tool costs it far less CPU time for each put with 100 clients than with
one. In batches, 100 creates are one message, and one transaction of etcd.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import psutil

from kvstore.client import run_in_process, strategies, workload
from kvstore.client.strategies import Strategy
from kvstore.course import external_clients
from kvstore.measure import cores
from kvstore.server import Server, etcd_cluster, serving
from kvstore.server.etcd_nodes import EtcdCluster

NODES = 3
IN_FLIGHT = 100
BATCH, BATCHES_IN_FLIGHT = 100, 32
TOOL = "etcd-benchmark"
"""The load generator of etcd's project (`tools/benchmark` in its repository), by this name."""
TOOL_NAME = f"etcd's own tool, {IN_FLIGHT} clients"
TOOL_PER_S = 10_000
"""Puts of the tool for each second of a turn: it takes their number, not a duration."""
WORK = workload.Workload(mix={"create": 1}, value_bytes_mean=64, sizes="fixed")
STACK: dict[str, Any] = {
    "use_asyncio": True, "locking": "per_key", "write_delay_s": 0, "group_commit": True,
}  # fmt: skip


class Turn(NamedTuple):
    """What one program did in one turn; the times are CPU seconds of one operation."""

    per_s: float
    client_s: float
    service_s: float
    etcd_s: float


Program = Callable[[Server, EtcdCluster, float], Turn]


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each program: operations/s, CPU time of each, share of the bound.

    Each turn has a new cluster: etcd becomes slower as its database grows.
    """
    rounds, seconds = (1, 1.0) if quick else (5, 3.0)
    unary = partial(_ours, strategies.tasks, in_flight=IN_FLIGHT)
    programs: dict[str, Program] = {}
    if external_clients.path_of(TOOL):
        programs[TOOL_NAME] = _tool
    programs[f"our client, {IN_FLIGHT} in flight"] = unary
    programs[f"our client, batches of {BATCH}"] = partial(
        _ours, strategies.pipelined, in_flight=BATCHES_IN_FLIGHT, streams=8, batch=BATCH
    )
    first = next(iter(programs))
    with serving(**STACK) as in_memory:
        client_s = unary(in_memory, None, seconds).client_s
    whole = _turn(unary, seconds)
    parts = Turn(math.nan, client_s, whole.service_s, whole.etcd_s)
    bound_per_s = cores() / sum(parts[1:])
    turns: dict[str, list[Turn]] = {name: [] for name in programs}
    for number in range(rounds):
        order = [*programs][number % len(programs) :] + [*programs][: number % len(programs)]
        for name in order:
            turns[name].append(_turn(programs[name], seconds))
    yield _row("bound of the cores", [parts._replace(per_s=bound_per_s)])
    for name, taken in turns.items():
        ratios = [one.per_s / other.per_s for one, other in zip(taken, turns[first], strict=True)]
        yield _row(name, taken) | {
            f"of {first}": round(float(np.median(ratios)), 2),
            "of the bound": round(float(np.median([one.per_s for one in taken])) / bound_per_s, 2),
        }


def _turn(program: Program, seconds: float) -> Turn:
    with etcd_cluster(NODES) as cluster, serving(store=cluster.store, **STACK) as service:
        return program(service, cluster, seconds)


def _row(name: str, taken: list[Turn]) -> dict[str, Any]:
    rates = [one.per_s for one in taken]
    row = {
        "program": name,
        "operations/s": round(float(np.median(rates))),
        "spread": f"{min(rates):,.0f} to {max(rates):,.0f}",
    }
    for place, part in enumerate(("client", "service", "etcd"), start=1):
        row[f"{part} CPU us"] = round(1e6 * float(np.median([one[place] for one in taken])), 1)
    return row


def _ours(
    strategy: Strategy, server: Server, cluster: EtcdCluster | None, seconds: float, **options: Any
) -> Turn:
    before_s = _cpu_s(cluster)
    run = run_in_process(strategy, server, WORK, duration_s=seconds, **options)
    etcd_s = _cpu_s(cluster) - before_s
    if set(run.outcomes()) != {"OK"}:
        raise RuntimeError(f"not every create was acknowledged: {run.outcomes()}")
    count = run.operations_ok
    return Turn(
        run.throughput_per_s,
        run.client_cpu.total_s / count,
        run.server_cpu.total_s / count,
        etcd_s / count,
    )


def _tool(service: Server, cluster: EtcdCluster, seconds: float) -> Turn:
    count = round(TOOL_PER_S * seconds)
    before_s, own = _cpu_s(cluster), psutil.Process().cpu_times()
    output = external_clients.run(
        TOOL,
        [
            f"--endpoints={cluster.leader().address}", "--conns=1", f"--clients={IN_FLIGHT}", "put",
            f"--total={count}", "--key-size=16", f"--key-space-size={count}", "--val-size=64",
        ],
        timeout_s=60 + 10 * seconds,
    )  # fmt: skip
    after = psutil.Process().cpu_times()
    client_s = after.children_user + after.children_system
    client_s -= own.children_user + own.children_system
    (per_s,) = re.findall(r"Requests/sec:\s*([\d.]+)", output)
    return Turn(float(per_s), client_s / count, 0.0, (_cpu_s(cluster) - before_s) / count)


def _cpu_s(cluster: EtcdCluster | None) -> float:
    """CPU seconds of all nodes so far."""
    nodes = () if cluster is None else cluster.nodes
    return float(sum(sum(psutil.Process(node.pid).cpu_times()[:2]) for node in nodes))
