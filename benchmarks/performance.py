"""Our clients beside other programs that do the same work. Writes docs/performance.md.

The cases have no disk, so they show the limit of one client process and one server process. "of the
first" is the median of the ratios to the first client within a round. Programs that are not
installed are left out, and the page says so.
"""

import base64
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from tqdm import tqdm

from benchmarks import bare, ghz, page, redis
from benchmarks.turns import Rounds, Turn, in_turns, median, ratios
from kvstore.client import run_in_process, strategies, workload
from kvstore.client.fleet import available
from kvstore.client.strategies import Strategy
from kvstore.measure import cores, describe_host
from kvstore.server import Server, serving
from kvstore.server.launch import go_is_installed, serving_go

ROOT: Final = Path(__file__).resolve().parents[1]
PROTO: Final = ROOT / "proto/kvstore/v1/kvstore.proto"
NO_DISK: Final[dict[str, Any]] = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}
SMALL: Final = workload.reads(keys=1_000, key_bytes_mean=16, value_bytes_mean=16, sizes="fixed")

Clients = dict[str, Callable[[], Turn]]


class Case(NamedTuple):
    """Clients that do the same work; the others are compared with the first one."""

    name: str
    clients: Clients


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each client of each case, and write the page at the end.

    A quick run writes its page into `executed/`, so that it does not replace the real one.
    """
    rounds, seconds = (1, 0.3) if quick else (5, 2.0)
    folder = ROOT / ("executed" if quick else "docs")
    lines = [
        "# Performance, measured",
        "",
        "Our clients beside other programs: reads of 16 bytes without a disk, each value compared.",
        "`python3 course.py bench performance` measures them on your machine and writes this page.",
    ]
    with ExitStack() as stack:
        for case in _cases(stack, seconds):
            table = rows(in_turns(case.clients, rounds))
            lines += ["", f"## {case.name}", "", *page.table(table)]
            yield from ({"case": case.name, **row} for row in table)
    folder.mkdir(exist_ok=True)
    path = folder / "performance.md"
    text = [*lines, "", "## Conditions", "", *_conditions(rounds, seconds), ""]
    kept = page.before_and_after(path)[1]
    path.write_text("\n".join([*text, kept]), encoding="utf-8", newline="\n")
    tqdm.write(f"  wrote {path.relative_to(ROOT)}")


def rows(rounds: Rounds) -> list[dict[str, str]]:
    """Return one row of text for each client of a case."""
    first = next(iter(rounds))
    table = []
    for name, turns in rounds.items():
        rates = [turn.per_s for turn in turns]
        cpu_us = 1e6 * float(np.median([turn.cpu_s for turn in turns]))
        table.append(
            {
                "client": name,
                "operations/s": page.four_digits(float(np.median(rates))),
                "spread": f"{page.four_digits(min(rates))} to {page.four_digits(max(rates))}",
                "of the first": f"{median(ratios(rounds, name, first, 'per_s')):.2f}",
                "CPU us of the client": "?" if math.isnan(cpu_us) else f"{cpu_us:.3g}",
            }
        )
    return table


def _conditions(rounds: int, seconds: float) -> list[str]:
    installed = {
        "ghz": ghz.path() is not None,
        "go": go_is_installed(),
        "redis-benchmark": redis.name() is not None,
    }
    missing = [name for name, is_here in installed.items() if not is_here]
    return [
        page.machine(describe_host()),
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
    if ghz.path():
        unary["ghz x100"] = partial(_ghz, server, 100, seconds)
    if in_go is not None:
        unary["tasks x100, server in Go"] = partial(ours, in_go, strategies.tasks, in_flight=100)
    yield Case("Unary calls", unary)

    if ghz.path():
        fast, where = (server, "Python") if in_go is None else (in_go, "Go")
        for in_flight in (50, 100):
            beside: Clients = {
                f"ghz x{in_flight}": partial(_ghz, fast, in_flight, seconds),
                f"rpcload x{in_flight}": partial(_rpcload, fast, in_flight, seconds),
            }
            if available() and cores() > 1:
                beside[f"rpcload x{in_flight}, a worker for each of {cores()} cores"] = partial(
                    _rpcload, fast, in_flight, seconds, f"--workers={cores()}"
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
    if name := redis.name():
        store = stack.enter_context(redis.redis_server(name))
        store.per_s("set", clients=8, requests=20_000)
        batches["redis-benchmark -P 512, GET"] = partial(_redis, store, seconds)
    yield Case("Batches", batches)


def _ours(server: Server, strategy: Strategy, *, seconds: float, **options: Any) -> Turn:
    """Make a run from a process of its own. Raises `RuntimeError` if an operation was not OK."""
    run = run_in_process(strategy, server, SMALL, duration_s=seconds, **options)
    if set(run.outcomes()) != {"OK"}:
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    return Turn(run.throughput_per_s, run.client_cpu.total_s / run.operations_ok)


def _ghz(server: Server, in_flight: int, seconds: float) -> Turn:
    before = os.times()
    requests = max(in_flight, round(8_000 * seconds))
    per_s = ghz.calls_per_s(server, in_flight=in_flight, requests=requests, proto=PROTO)
    after = os.times()  # of the program that has ended; the server runs on
    used_s = after.children_user - before.children_user
    used_s += after.children_system - before.children_system
    return Turn(per_s, used_s / requests if os.name == "posix" else math.nan)


def _rpcload(server: Server, in_flight: int, seconds: float, *flags: str) -> Turn:
    run = rpcload(server, in_flight, seconds, "--no-calibration", *flags)["run"]
    return Turn(run["throughput_per_s"], run["client_cpu_s"] / run["issued"])


def rpcload(server: Server, in_flight: int, seconds: float, *flags: str) -> dict[str, Any]:
    """Return the report of the load test's command for the calls that ghz makes.

    Raises `RuntimeError` if one was not OK.
    """
    key = base64.b64encode(ghz.KEY).decode()
    with ghz.with_key(server):
        command = [sys.executable, "-m", "kvstore.load_test", server.address, ghz.METHOD, *flags]
        command += ["--json", json.dumps({"key": key}), f"--proto={PROTO}"]
        command += [f"--in-flight={in_flight}", f"--seconds={seconds}", "--output=json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"rpcload ended with {done.returncode}: {done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    if set(report["run"]["statuses"]) != {"OK"}:
        raise RuntimeError(f"every call should be answered OK, got {report['run']['statuses']}")
    return report


def _redis(store: redis.Redis, seconds: float) -> Turn:
    rate_per_s = store.per_s("get", clients=8, requests=round(2e6 * seconds), pipeline=512)
    return Turn(rate_per_s, math.nan)
