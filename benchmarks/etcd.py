"""Our service on etcd, beside etcd's own load generator and beside the bound of the processors.

One etcd node with its log on a disk, on this machine; updates of 64 bytes. Each update passes from
our client through our service to etcd, and needs CPU time in all three. The bound is computed
before the rounds from three parts, each measured where it is the only one that is sought: the
client's with a service that has its data in memory, etcd's under etcd's own tool (without it, under
our service), and that of our service in one run of all three.

    X <= cores / (D_client + D_service + D_etcd)

The rounds are interleaved. In batches, 100 updates are one message, and one transaction of etcd.
"""

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
from kvstore.server.etcd_nodes import EtcdNode

IN_FLIGHT = 100
BATCH, BATCHES_IN_FLIGHT = 100, 16
TOOL = "etcd-benchmark"
"""The load generator of etcd's project (`tools/benchmark` in its repository), by this name."""
TOOL_RATE_PER_S = 4_000
"""Updates of the tool for each second of a turn: it takes their number, not a duration."""
WORK = workload.writes(keys=1_000, value_bytes_mean=64, sizes="fixed")
STACK: dict[str, Any] = {"use_asyncio": True, "locking": "per_key", "write_delay_s": 0}


class Turn(NamedTuple):
    """What one program did in one turn; the times are CPU seconds of one update."""

    per_s: float
    client_s: float
    service_s: float
    etcd_s: float


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each program: updates/s, CPU time of one update, share of the bound."""
    rounds, seconds = (1, 1.0) if quick else (5, 6.0)
    unary = partial(_ours, strategies.tasks, in_flight=IN_FLIGHT)
    batches = partial(
        _ours, strategies.pipelined, in_flight=BATCHES_IN_FLIGHT, streams=8, batch=BATCH
    )
    with etcd_cluster(1) as cluster, serving(store=cluster.store, **STACK) as service:
        node = cluster.leader()
        programs: dict[str, Callable[[float], Turn]] = {}
        if external_clients.path_of(TOOL):
            programs[f"etcd's own tool, {IN_FLIGHT} clients"] = partial(_tool, node)
        programs[f"our client, {IN_FLIGHT} in flight"] = partial(unary, service, node)
        programs[f"our client, batches of {BATCH}"] = partial(batches, service, node)
        first = next(iter(programs))
        with serving(**STACK) as in_memory:
            parts = Turn(
                0.0,
                unary(in_memory, None, seconds).client_s,
                unary(service, node, seconds).service_s,
                programs[first](seconds).etcd_s,
            )
        bound_per_s = cores() / sum(parts[1:])
        turns: dict[str, list[Turn]] = {name: [] for name in programs}
        for number in range(rounds):
            order = [*programs][number % len(programs) :] + [*programs][: number % len(programs)]
            for name in order:
                turns[name].append(programs[name](seconds))
    yield _row("bound of the cores", [parts._replace(per_s=bound_per_s)])
    for name, taken in turns.items():
        ratios = [one.per_s / other.per_s for one, other in zip(taken, turns[first], strict=True)]
        yield _row(name, taken) | {
            f"of {first}": round(float(np.median(ratios)), 2),
            "of the bound": round(float(np.median([one.per_s for one in taken])) / bound_per_s, 2),
        }


def _row(name: str, taken: list[Turn]) -> dict[str, Any]:
    rates = [one.per_s for one in taken]
    row = {
        "program": name,
        "updates/s": round(float(np.median(rates))),
        "spread": f"{min(rates):,.0f} to {max(rates):,.0f}",
    }
    for place, part in enumerate(("client", "service", "etcd"), start=1):
        row[f"{part} CPU us"] = round(1e6 * float(np.median([one[place] for one in taken])), 1)
    return row


def _ours(
    strategy: Strategy, server: Server, node: EtcdNode | None, seconds: float, **options: Any
) -> Turn:
    before_s = _cpu_s(node)
    run = run_in_process(strategy, server, WORK, duration_s=seconds, **options)
    etcd_s = _cpu_s(node) - before_s
    if set(run.outcomes()) != {"OK"}:
        raise RuntimeError(f"not every update was acknowledged: {run.outcomes()}")
    count = run.operations_ok
    return Turn(
        run.throughput_per_s,
        run.client_cpu.total_s / count,
        run.server_cpu.total_s / count,
        etcd_s / count,
    )


def _tool(node: EtcdNode, seconds: float) -> Turn:
    count = round(TOOL_RATE_PER_S * seconds)
    before_s, own = _cpu_s(node), psutil.Process().cpu_times()
    output = external_clients.run(
        TOOL,
        [
            f"--endpoints={node.address}", "--conns=10", f"--clients={IN_FLIGHT}", "put",
            f"--total={count}", "--key-size=8", "--key-space-size=1000", "--val-size=64",
        ],
        timeout_s=60 + 10 * seconds,
    )  # fmt: skip
    after = psutil.Process().cpu_times()
    client_s = after.children_user + after.children_system
    client_s -= own.children_user + own.children_system
    (per_s,) = re.findall(r"Requests/sec:\s*([\d.]+)", output)
    return Turn(float(per_s), client_s / count, 0.0, (_cpu_s(node) - before_s) / count)


def _cpu_s(node: EtcdNode | None) -> float:
    return 0.0 if node is None else float(sum(psutil.Process(node.pid).cpu_times()[:2]))
