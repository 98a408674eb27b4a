"""The rows of the table: a plan is one row, and makes one round of it."""

import shutil
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cost import Cost, cost_of
from benchmarks.peers import tools
from benchmarks.peers.bare import bare
from benchmarks.results import Round, Row
from kvstore.client import run_in_process, strategies, workload
from kvstore.measure import Run
from kvstore.measure.recorder import PACKED
from kvstore.model import Prediction, Station, bounds
from kvstore.server import Server

SMALL = workload.reads(key_bytes_mean=8, value_bytes_mean=16, sizes="fixed")
IN_FLIGHT = (1, 10, 100, 1_000, 10_000)
CROWD, GO = "asyncio, 40 ms of work", "Go net/rpc"
CALIBRATED_AT = {CROWD: 1_000}
"""Calls in flight of the calibration run of a prediction; 16 on a server without a disk."""
CROWD_S = 30.0
"""Seconds for 10,000 calls of one or two seconds each; a tenth of it in a quick run."""
MEMORY_FROM = 1_000
"""With fewer calls in flight, their memory cannot be separated from that of the process."""
BATCH = 128
PACED_CALLS = 2_000
"""Calls of a client without a concurrency limit, which is paced."""


@dataclass(frozen=True)
class Plan:
    """One row of the table."""

    server: str
    client: str
    in_flight: int
    strategy: strategies.Strategy | None = None
    """None for a bare loop or another tool."""
    shape: str = ""
    """The bare loop of the same shape, one of `bare.LOOPS`."""
    tool: str = ""
    streams: int = 1
    batch: int = 1
    options: tuple[tuple[str, int], ...] = field(default=())

    @property
    def counts_memory(self) -> bool:
        """Whether the memory of a call in flight can be measured."""
        return self.strategy is not None and self.in_flight >= MEMORY_FROM

    def row(self) -> Row:
        """The row without its rounds."""
        row = Row(self.server, self.client, self.in_flight)
        if self.strategy is not None and self.shape:
            row.bare = self.bare_plan().row().name
        return row

    def bare_plan(self) -> "Plan":
        """Return the plan of the bare loop with which this plan is compared."""
        client = f"bare {self.shape}" + _on_streams(self.streams, self.batch)
        return Plan(
            self.server, client, self.in_flight,
            shape=self.shape, streams=self.streams, batch=self.batch,
        )  # fmt: skip


def plans(quick: bool) -> list[Plan]:
    """Return all plans in the order of measurement; a bare loop precedes plans of its shape."""
    found: dict[Plan, None] = {}
    for server in ("asyncio", "threads"):
        for plan in _ours(server, (1, 100) if quick else IN_FLIGHT):
            if plan.shape:
                found[plan.bare_plan()] = None
            found[plan] = None
        for name in tools.installed():
            for in_flight in (1, 100):
                found[Plan(server, name, in_flight, tool=name)] = None
    for strategy, streams in (
        (strategies.bounded, 1),
        (strategies.tasks, 1),
        (strategies.pipelined, 8),
    ):
        found[_plan(CROWD, strategy, "", 10_000, streams)] = None
    if shutil.which("go"):
        for in_flight in (1, 100):
            found[Plan(GO, "its own pipeline", in_flight)] = None
    return list(found)


def _ours(server: str, sizes: tuple[int, ...]) -> list[Plan]:
    def some(strategy: Any, shape: str, least: int, most: int, streams: int = 1) -> list[Plan]:
        chosen = [n for n in sizes if least <= n <= most]
        return [_plan(server, strategy, shape, n, streams) for n in chosen]

    return [
        *some(strategies.blocking, "sync", 1, 1),
        *some(strategies.threads, "sync", 10, 1_000),  # 10,000 threads are another experiment
        *some(strategies.bounded, "future", 1, 10_000),
        *some(strategies.chained, "chain", 1, 10_000),
        *some(strategies.turns, "", 100, 10_000),
        *some(strategies.tasks, "aio", 1, 10_000),
        *some(strategies.pipelined, "stream", 1, 10_000),
        *some(strategies.pipelined, "stream", 100, 10_000, streams=8),
        _plan(server, strategies.pipelined, "stream", 100, 8, BATCH),
        Plan(server, "futures, paced", 0, strategies.futures),
    ]


def _plan(
    server: str, strategy: Any, shape: str, in_flight: int, streams: int = 1, batch: int = 1
) -> Plan:
    client = strategy.__name__ + _on_streams(streams, batch)
    pipelined = strategy is strategies.pipelined
    return Plan(
        server, client, in_flight, strategy, shape, streams=streams, batch=batch,
        options=(("streams", streams), ("batch", batch)) if pipelined else (),
    )  # fmt: skip


def _on_streams(streams: int, batch: int) -> str:
    return (f" on {streams} streams" if streams > 1 else "") + (
        f", batches of {batch}" if batch > 1 else ""
    )


def make(plan: Plan, server: Server, seconds: float, rate_per_s: float | None = None) -> Round:
    """Make one round of the plan."""
    if plan.tool:
        return tools.tool(plan.tool, server, plan.in_flight, seconds)
    if plan.strategy is None:
        return Round(
            *bare(
                plan.shape, server,
                in_flight=plan.in_flight, seconds=seconds, streams=plan.streams, batch=plan.batch,
            )
        )  # fmt: skip
    if plan.server == CROWD:
        seconds = max(seconds, CROWD_S if seconds > 1 else CROWD_S / 10)
    return round_of(run_of(plan, server, plan.in_flight, seconds), memory=plan.counts_memory)


def run_of(plan: Plan, server: Server, in_flight: int, seconds: float) -> Run:
    """Make one run of the plan's strategy with `in_flight` calls."""
    assert plan.strategy is not None
    how: dict[str, Any] = {"duration_s": seconds, **dict(plan.options)}
    if plan.strategy is strategies.futures:  # without a pace it measures its own backlog
        how |= {"duration_s": None, "calls": PACED_CALLS, "rate_per_s": PACE_PER_S}
    return run_in_process(
        plan.strategy, server, SMALL,
        in_flight=max(1, in_flight), deadline_s=120.0, **how,
    )  # fmt: skip


PACE_PER_S = 1_000.0
"""Calls per second, far below the capacity of any server here: the pace is the prediction."""


def round_of(run: Run, *, memory: bool) -> Round:
    """Return the figures of a run; every operation that was not answered OK is lost."""
    cost = cost_of(run)
    operations = int(run.records["operations"].sum())
    unknown = run.issued - len(run.records)
    lost = operations - run.operations_ok + unknown
    if not memory:
        return Round(run.throughput_per_s, cost.client_cpu_s, cost.server_cpu_s, lost=lost)
    return Round(
        run.throughput_per_s,
        cost.client_cpu_s,
        cost.server_cpu_s,
        _call_bytes(run, "client", apart_bytes=len(run.records) * PACKED.itemsize),
        _call_bytes(run, "server"),
        lost,
    )


def _call_bytes(run: Run, side: str, apart_bytes: int = 0) -> float:
    """Return the growth of a process for each call in flight; NaN if there were few calls.

    `apart_bytes` is growth for another reason: the records, one for every call of the run.
    """
    rss_bytes, most = run.samples[f"{side}_rss_bytes"], float(run.samples["in_flight"].max())
    if most < MEMORY_FROM / 2:
        return float("nan")
    return (float(rss_bytes.max() - rss_bytes.iloc[0]) - apart_bytes) / most


def predict(plan: Plan, server: Server, seconds: float, rows: dict[Plan, Row]) -> Prediction | None:
    """Return the prediction for a plan from earlier measurements; None for other programs.

    With one call in flight it is the round trip of the bare loop. With more it is the bound from
    the CPU time of a call in a run with fewer calls in flight, never in the run itself.
    """
    if plan.strategy is None:
        return None
    if plan.strategy is strategies.futures:
        return Prediction(PACE_PER_S, "calls/s", "X is at most the arrival rate", "pace")
    if plan.in_flight == 1:
        return Prediction(
            rows[plan.bare_plan()].rounds[-1].per_s,
            "calls/s",
            "the round trip of a bare loop",
            "round trip",
        )
    work_s = server.settings.read_delay_s
    cost = _calibrated(plan, server, max(seconds, 0.5))
    stations = [Station("work", work_s, float("inf")), *cost.stations()]
    by_callers = bounds.closed_loop(plan.in_flight * plan.batch, stations)
    most = cost.most()
    return most if most.value <= by_callers.value else by_callers


_COSTS: dict[tuple[str, str], Cost] = {}
"""Costs by server and client: one calibration for all numbers in flight."""


def _calibrated(plan: Plan, server: Server, seconds: float) -> Cost:
    key = (server.identity, plan.client)
    if key not in _COSTS:
        in_flight = CALIBRATED_AT.get(plan.server, 16)
        _COSTS[key] = cost_of(run_of(plan, server, in_flight, seconds))
    return _COSTS[key]
