"""The evidence: our clients beside other programs, case by case. Writes docs/performance.md.

The rounds of a case are interleaved: in each round every program takes a turn, in changing order.
"of the reference" is the median of the ratios within a round. The cases without a disk show the
limit of one client process and one server process; the others compare with the bound that the model
gives. Programs that are not installed are left out, and the page says so.
"""

import math
from collections.abc import Iterator, Set
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from tqdm import tqdm

from benchmarks import bare, performance_page, redis
from benchmarks.cost import cost_of
from benchmarks.ladder import ENDS
from benchmarks.performance_page import Case, Round, Turns
from kvstore.client import run_in_process, strategies, workload
from kvstore.client.strategies import Strategy
from kvstore.course.lessons.lesson_06.external_clients import PROGRAMS, path_of
from kvstore.measure import Run, describe_host
from kvstore.model import Station, bounds, service_time_s
from kvstore.server import Server, serving
from kvstore.server.launch import go_is_installed, serving_go

ROOT: Final = Path(__file__).resolve().parents[1]
NO_DISK: Final[dict[str, Any]] = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}
DISK: Final = {"read_delay_s": 0.010, "write_delay_s": 0.050}
SMALL: Final = workload.reads(key_bytes_mean=8, value_bytes_mean=16, sizes="fixed")
LIKE_REDIS: Final = workload.reads(
    keys=1_000, key_bytes_mean=16, value_bytes_mean=16, sizes="fixed"
)
CROWD: Final = 10_000
CROWD_WORK_S: Final = 0.040


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each program of each case, and write the page at the end.

    A quick run writes its page into `executed/`, so that it does not replace the real one.
    """
    rounds, share = (1, 0.15) if quick else (5, 1.0)
    folder = ROOT / ("executed" if quick else "docs")
    with ExitStack() as stack:
        found = _cases(stack)
        for case in found:
            for number in tqdm(range(rounds), desc=case.name, unit="round", leave=False):
                first = number % len(case.turns)
                for turns in case.turns[first:] + case.turns[:first]:
                    taken, bound_per_s = turns.take(case.seconds * share)
                    turns.rounds.append(taken)
                    turns.over_bound.append(taken.per_s / bound_per_s)
            yield from performance_page.rows(case)
    folder.mkdir(exist_ok=True)
    for path in performance_page.write(folder, found, describe_host(), rounds, missing()):
        tqdm.write(f"  wrote {path.relative_to(ROOT)}")


def missing() -> list[str]:
    """Return the names of the programs that are not installed here."""
    here = {name: path_of(name) is not None for name in PROGRAMS}
    here |= {
        "go": go_is_installed(),
        "redis-benchmark": redis.name() is not None,
    }
    return [name for name, found in here.items() if not found]


def _cases(stack: ExitStack) -> list[Case]:
    stock = stack.enter_context(serving(use_asyncio=True, **NO_DISK))
    poller = stack.enter_context(serving(use_asyncio=True, transport="poller", **NO_DISK))
    in_go = stack.enter_context(serving_go(**NO_DISK)) if go_is_installed() else None
    other_store = None
    if name := redis.name():
        other_store = stack.enter_context(redis.redis_server(name))
        other_store.per_s("set", clients=8, requests=20_000)
    unary = [
        _ours("tasks", stock, strategies.tasks, 100),
        _ours("tasks", stock, strategies.tasks, 100, transport="poller"),
        _ours("chained", stock, strategies.chained, 100, transport="poller"),
        _ours("bounded", stock, strategies.bounded, 100, transport="poller"),
        _bare(strategies.tasks, stock, in_flight=100),
        *(_ghz(stock, in_flight) for in_flight in (50, 100) if path_of("ghz")),
    ]
    single = [
        _ours("64 streams", stock, strategies.pipelined, 128, streams=64),
        _ours("64 streams", stock, strategies.pipelined, 128, streams=64, transport="poller"),
        _ours("64 streams", poller, strategies.pipelined, 128, streams=64, transport="poller"),
        _ours("1 stream", poller, strategies.pipelined, 100, streams=1, transport="poller"),
        _bare(strategies.pipelined, stock, in_flight=128, streams=64),
    ]
    if in_go is not None:
        unary.append(_ours("server in Go", in_go, strategies.tasks, 100))
        single.append(
            _ours("64 streams, server in Go", in_go, strategies.pipelined, 128, streams=64)
        )
    batches = [
        _ours(
            f"batches of {size}", server, strategies.pipelined, max(16, 8192 // size),
            LIKE_REDIS, streams=8, batch=size, transport=profile,
        )
        for size, server, profile in (
            (512, stock, "stock"), (512, stock, "poller"), (512, poller, "poller"),
            (4096, stock, "stock"), (4096, poller, "poller"),
        )
    ]  # fmt: skip
    if other_store is not None:
        batches.append(Turns("redis-benchmark -P 512, GET", partial(_redis, other_store)))
    return [
        Case("Unary calls", "reads of 16 bytes, no disk", unary),
        Case("One operation in a message", "reads of 16 bytes, no disk", single),
        Case(
            "Batches", "1,000 keys of 16 bytes, reads of 16 bytes, no disk; each value compared",
            batches,
        ),
        Case(
            "100 in flight, a lock per key", "10 ms reads, 50 ms writes, 64 KiB values",
            [
                _with_disk("bounded", strategies.bounded),
                _with_disk("chained", strategies.chained),
                _with_disk("8 streams", strategies.pipelined, streams=8),
                _with_disk("bounded", strategies.bounded, "poller"),
                _with_disk("8 streams", strategies.pipelined, "poller", streams=8),
            ],
            seconds=12.0,
        ),
        Case(
            "10,000 in flight", "40 ms reads of 16 bytes",
            [
                Turns("tasks", partial(_crowd, strategies.tasks, {})),
                Turns("8 streams", partial(_crowd, strategies.pipelined, {"streams": 8})),
            ],
            seconds=10.0,
        ),
    ]  # fmt: skip


def _ours(
    name: str,
    server: Server,
    strategy: Strategy,
    in_flight: int,
    work: workload.Workload = SMALL,
    *,
    transport: str = "stock",
    **options: Any,
) -> Turns:
    """Our client in a process of its own, which makes one run in each turn."""

    def turn(seconds: float) -> tuple[Round, float]:
        run = run_in_process(
            strategy, server, work,
            in_flight=in_flight, duration_s=seconds, transport=transport, **options,
        )  # fmt: skip
        return _round(run), math.nan

    profiles = f"client {transport}, server {server.settings.transport}"
    return Turns(f"{name} x{in_flight} ({profiles})", turn)


def _round(run: Run, ends: Set[str] = frozenset({"OK"})) -> Round:
    """Return the figures of a run. Raises `RuntimeError` if a status is not one of `ends`."""
    if set(run.outcomes()) - ends:
        raise RuntimeError(f"every operation should be answered, got {run.outcomes()}")
    cost = cost_of(run)
    per_s = run.throughput_per_s if ends == {"OK"} else run.answered_per_s
    return Round(float(per_s), cost.client_cpu_s, cost.server_cpu_s)


def _bare(strategy: Strategy, server: Server, **options: int) -> Turns:
    """The strategy alone, on gRPC's own channel in this process."""
    shape, watched = bare.Shape(strategy, **options), psutil.Process(server.pid)

    def turn(seconds: float) -> tuple[Round, float]:
        before = watched.cpu_times()
        done = bare.run(shape, server.address, seconds)
        after = watched.cpu_times()
        server_s = after.user + after.system - before.user - before.system
        return Round(done.per_s, done.cpu_s, server_s / done.operations), math.nan

    return Turns(f"bare loop of grpcio, {shape}", turn)


def _ghz(server: Server, in_flight: int) -> Turns:
    def turn(seconds: float) -> tuple[Round, float]:
        done = PROGRAMS["ghz"](
            server, streams=in_flight, requests=max(in_flight, round(8_000 * seconds)), timeout_s=60
        )
        lost = done.requests - done.answered_ok
        return Round(done.throughput_per_s, math.nan, math.nan, lost=lost), math.nan

    return Turns(f"ghz x{in_flight}", turn)


def _redis(store: redis.Redis, seconds: float) -> tuple[Round, float]:
    per_s = store.per_s("get", clients=8, requests=round(2e6 * seconds), pipeline=512)
    return Round(per_s, math.nan, math.nan), math.nan


def _with_disk(name: str, strategy: Strategy, transport: str = "stock", **options: Any) -> Turns:
    def turn(seconds: float) -> tuple[Round, float]:
        with serving(use_asyncio=True, locking="per_key", transport=transport, **DISK) as server:
            run = run_in_process(
                strategy, server, workload.crud(),
                in_flight=100, duration_s=seconds, transport="poller", **options,
            )  # fmt: skip
        disk = Station("disk", service_time_s(run.mix(), **DISK), 100)
        return _round(run, ENDS), bounds.closed_loop(100, [disk]).value

    return Turns(f"{name} x100 (client poller, server {transport})", turn)


def _crowd(strategy: Strategy, options: dict[str, Any], seconds: float) -> tuple[Round, float]:
    """10,000 calls in flight; the bound is that of the CPU time per call with 1,000 in flight."""
    with serving(use_asyncio=True, locking="per_key", read_delay_s=CROWD_WORK_S) as server:
        few = run_in_process(
            strategy, server, SMALL, in_flight=1_000, duration_s=seconds / 4, **options
        )
    with serving(use_asyncio=True, locking="per_key", read_delay_s=CROWD_WORK_S) as server:
        run = run_in_process(
            strategy, server, SMALL, in_flight=CROWD, duration_s=seconds, deadline_s=60, **options
        )
    cost, work = cost_of(few), Station("work", CROWD_WORK_S, math.inf)
    bound = min(cost.most().value, bounds.closed_loop(CROWD, [work]).value)
    rss_bytes = run.samples["client_rss_bytes"]
    call_bytes = float(rss_bytes.max() - rss_bytes.iloc[0]) / CROWD
    return _round(run)._replace(call_bytes=call_bytes), bound
