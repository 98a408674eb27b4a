"""Our clients beside other programs that do the same work. Writes docs/performance.md.

The cases have no disk, so they show the limit of one client process and one server process. "of the
first" is the median of the ratios to the first client within a round. Programs that are not
installed are left out, and the page says so.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, NamedTuple

from tqdm import tqdm

from benchmarks import bare, harness, others
from benchmarks.harness import Clients, Turn, in_turns, turn_of
from kvstore.client import run_in_process, strategies, workload
from kvstore.client.fleet import available
from kvstore.client.strategies import Strategy
from kvstore.measure import cores, describe_host
from kvstore.server import Server, serving
from kvstore.server.launch import go_is_installed, serving_go

NO_DISK: Final[dict[str, Any]] = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}
SMALL: Final = workload.reads(keys=1_000, key_bytes_mean=16, value_bytes_mean=16, sizes="fixed")


class Case(NamedTuple):
    """Clients that do the same work; the others are compared with the first one."""

    name: str
    clients: Clients


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each client of each case, and write the page at the end."""
    rounds, seconds = (1, 0.3) if quick else (5, 2.0)
    lines = [
        "# Performance, measured",
        "",
        "Our clients beside other programs: reads of 16 bytes without a disk, each value compared.",
        "`python3 course.py bench performance` measures them on your machine and writes this page.",
    ]
    with ExitStack() as stack:
        for case in _cases(stack, seconds):
            table = harness.rows(in_turns(case.clients, rounds))
            lines += ["", f"## {case.name}", "", *harness.markdown(table)]
            yield from ({"case": case.name, **row} for row in table)
    lines += ["", "## Conditions", "", *_conditions(rounds, seconds)]
    tqdm.write(f"  wrote {harness.write('performance.md', quick, lines)}")


def _conditions(rounds: int, seconds: float) -> list[str]:
    installed = {
        "ghz": others.ghz_path() is not None,
        "go": go_is_installed(),
        "redis-benchmark": others.redis_name() is not None,
    }
    missing = [name for name, is_here in installed.items() if not is_here]
    return [
        harness.machine(describe_host()),
        f"{rounds} rounds; in each, every client of a case takes one turn of {seconds:g} s, and the"
        " order changes.",
        "`operations/s` is the median of the rounds, `spread` the lowest and the highest. `of the",
        "first` compares with the first client of the case within each round. CPU times are",
        "microseconds for one operation; a question mark: not measured. Client and server are two",
        "processes on one machine.",
        *([f"Not installed, and left out: {', '.join(missing)}."] if missing else []),
    ]


def _cases(stack: ExitStack, seconds: float) -> Iterator[Case]:
    server = stack.enter_context(serving(use_asyncio=True, **NO_DISK))
    in_go = stack.enter_context(serving_go(**NO_DISK)) if go_is_installed() else None
    ours = partial(_ours, seconds=seconds)

    unary: Clients = {
        "tasks x100": partial(ours, server, strategies.tasks, in_flight=100),
        "bounded x100": partial(ours, server, strategies.bounded, in_flight=100),
        "bare loop of grpcio, tasks x100": partial(
            bare.run, bare.Shape(strategies.tasks, 100), server.address, seconds
        ),
    }
    if others.ghz_path():
        unary["ghz x100"] = partial(others.ghz, server, 100, seconds)
    if in_go is not None:
        unary["tasks x100, server in Go"] = partial(ours, in_go, strategies.tasks, in_flight=100)
    yield Case("Unary calls", unary)

    if others.ghz_path():
        fast, where = (server, "Python") if in_go is None else (in_go, "Go")
        for in_flight in (50, 100):
            beside: Clients = {
                f"ghz x{in_flight}": partial(others.ghz, fast, in_flight, seconds),
                f"rpcload x{in_flight}": partial(others.rpcload, fast, in_flight, seconds),
            }
            if available() and cores() > 1:
                beside[f"rpcload x{in_flight}, a worker for each of {cores()} cores"] = partial(
                    others.rpcload, fast, in_flight, seconds, f"--workers={cores()}"
                )
            yield Case(f"Load tests, {in_flight} in flight, server in {where}", beside)

    streams: dict[str, Any] = {"in_flight": 128, "streams": 64}
    single: Clients = {
        "64 streams x128": partial(ours, server, strategies.pipelined, **streams),
        "bare loop of grpcio, 64 streams x128": partial(
            bare.run, bare.Shape(strategies.pipelined, **streams), server.address, seconds
        ),
    }
    if in_go is not None:
        single["64 streams x128, server in Go"] = partial(
            ours, in_go, strategies.pipelined, **streams
        )
    yield Case("One operation in a message", single)

    batches: Clients = {
        f"batches of {size} x16": partial(
            ours, server, strategies.pipelined, in_flight=16, streams=8, batch=size
        )
        for size in (512, 4096)
    }
    if name := others.redis_name():
        redis = stack.enter_context(others.redis(name))
        batches["redis-benchmark -P 512, GET"] = partial(redis, seconds)
    yield Case("Batches", batches)


def _ours(server: Server, strategy: Strategy, *, seconds: float, **options: Any) -> Turn:
    """Make a run from a process of its own. Raises `RuntimeError` if an operation was not OK."""
    return turn_of(run_in_process(strategy, server, SMALL, duration_s=seconds, **options))
