"""What each setting brings that this course makes of gRPC, protobuf, Python and its event loop.

With it and without it take turns against servers that are both up, so that a machine that slows
down slows both; "over without" is the median of the rounds' own ratios and "spread" their middle
half. A setting that is there for speed has to show here: a rate above 1 or processor time (of
client and server together) below 1, beyond the spread; or, of the collector, less of the time
(both sides', with / without). Others are there because something would be wrong without them,
and have to cost nothing; the last were tried and are not used, because they bring nothing.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.overhead import Turn, in_turns, middle_half, ratios
from benchmarks.peers.changed import Change, changed_client, changed_server
from kvstore.client import load, strategies, workload
from kvstore.server import Server
from kvstore.wire import MESSAGE_LIMIT_BYTES, OWN_CONNECTION

SPEED, RIGHT, TRIED = "speed", "correctness", "not used"
PROTOBUF = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
PENDING = (
    "grpc.server.max_pending_requests",
    "grpc.server.max_pending_requests_hard_limit",
)
USUAL = Change()


class Load(NamedTuple):
    """What is asked while a setting is looked at."""

    name: str
    strategy: strategies.Strategy
    in_flight: int
    workload: workload.Workload
    options: dict[str, Any]


_SMALL: dict[str, Any] = {"key_bytes_mean": 8, "value_bytes_mean": 16, "sizes": "fixed"}
_LARGE: dict[str, Any] = {"key_bytes_mean": 8, "value_bytes_mean": 64 * 1024, "sizes": "fixed"}
CALLS = Load("calls x100", strategies.tasks, 100, workload.reads(**_SMALL), {})
STREAMS = Load(
    "8 streams x100", strategies.pipelined, 100, workload.reads(**_SMALL), {"streams": 8}
)
CROWD = Load("calls x5000", strategies.tasks, 5_000, workload.reads(**_SMALL), {})
LARGE_READS = Load("64 KiB reads x100", strategies.tasks, 100, workload.reads(**_LARGE), {})
LARGE_WRITES = Load("64 KiB writes x100", strategies.tasks, 100, workload.writes(**_LARGE), {})


class Setting(NamedTuple):
    """One setting, the load that shows it, and what it is for."""

    name: str
    side: str
    """Whose it is: "client" or "server"."""
    change: Change
    """How to do without it, or, of what is only tried, with it."""
    load: Load
    kept_for: str


def _settings() -> Iterator[Setting]:
    for side in ("client", "server"):
        for asked in (CALLS, STREAMS):
            yield Setting("uvloop", side, Change(plain_loop=True), asked, SPEED)
        for asked in (CALLS, CROWD):
            yield Setting("settled collector", side, Change(leave_garbage=True), asked, SPEED)
    yield Setting("own connection", "client", Change(without=(OWN_CONNECTION[0],)), CALLS, RIGHT)
    yield Setting("port not shared", "server", Change(without=("grpc.so_reuseport",)), CALLS, RIGHT)
    capped = Change(without=PENDING)
    yield Setting("no cap on what waits", "server", capped, CALLS, RIGHT)
    for option, value, side, asked in (
        ("grpc.http2.lookahead_bytes", MESSAGE_LIMIT_BYTES, "client", LARGE_READS),
        ("grpc.http2.lookahead_bytes", MESSAGE_LIMIT_BYTES, "server", LARGE_WRITES),
        ("grpc.experimental.tcp_min_read_chunk_size", 64 * 1024, "client", LARGE_READS),
        ("grpc.http2.bdp_probe", 0, "client", CALLS),
        ("grpc.enable_retries", 0, "client", CALLS),
    ):
        tried = Change(tried=(option, value))
        yield Setting(f"{option}={value}", side, tried, asked, TRIED)


SETTINGS = tuple(_settings())


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each setting and load; the messages of protobuf first."""
    rounds, seconds = (2, 0.2) if quick else (13, 0.4)
    yield row("upb", "both", "128 reads in a message", SPEED, in_turns(messages(), rounds))
    for setting in SETTINGS:
        with ExitStack() as servers:
            turns = turns_of(setting, seconds, servers)
            yield row(
                setting.name, setting.side, setting.load.name, setting.kept_for,
                in_turns(turns, rounds),
            )  # fmt: skip


def turns_of(setting: Setting, seconds: float, servers: ExitStack) -> dict[str, Callable[[], Turn]]:
    """How to take a turn with the setting and one without; `servers` ends what they ask."""
    other = setting.change
    with_it, without = (other, USUAL) if setting.kept_for == TRIED else (USUAL, other)
    changes = {"with": with_it, "without": without}
    if setting.side == "client":
        server = servers.enter_context(changed_server(USUAL))
        return {
            name: partial(_turn, server, change, setting.load, seconds)
            for name, change in changes.items()
        }
    return {
        name: partial(
            _turn, servers.enter_context(changed_server(change)), USUAL, setting.load, seconds
        )
        for name, change in changes.items()
    }


def _turn(server: Server, change: Change, asked: Load, seconds: float) -> Turn:
    """One run, and the processor time of both sides for each operation."""
    with changed_client(change):
        run = load.run(
            asked.strategy, server, asked.workload,
            in_flight=asked.in_flight, duration_s=seconds,
            settle_garbage=not change.leave_garbage, **asked.options,
        )  # fmt: skip
    if set(run.outcomes()) != {"OK"}:
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    both_s = run.client_cpu.total_s + run.server_cpu.total_s
    last = run.samples.iloc[-1]
    paused_s = last["client_pause_s"] + last["server_pause_s"]
    return Turn(run.throughput_per_s, both_s / run.operations_ok, paused_s / last["elapsed_s"])


def messages() -> dict[str, Callable[[], Turn]]:
    """Messages made, encoded and decoded with protobuf in C, and with protobuf in Python."""
    return {"with": lambda: _messages("upb"), "without": lambda: _messages("python")}


def _messages(implementation: str) -> Turn:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers.messages"],
        env={**os.environ, PROTOBUF: implementation}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    per_s, cpu_s = map(float, done.stdout.split())
    return Turn(per_s, cpu_s)


def row(
    name: str, side: str, asked: str, kept_for: str, rounds: dict[str, list[Turn]]
) -> dict[str, Any]:
    """Medians with and without, and the ratios of the rounds."""
    rates = ratios(rounds, "with", "without", "per_s")
    prices = ratios(rounds, "with", "without", "cpu_s")
    return {
        "setting": name,
        "side": side,
        "load": asked,
        "with, operations/s": f"{np.median([turn.per_s for turn in rounds['with']]):,.0f}",
        "without": f"{np.median([turn.per_s for turn in rounds['without']]):,.0f}",
        "over without": round(float(np.median(rates)), 2),
        "spread": middle_half(rates),
        "CPU over without": round(float(np.median(prices)), 2),
        "spread of that": middle_half(prices),
        "collector, % of time": " / ".join(
            f"{100 * np.median([turn.paused for turn in rounds[name]]):.1f}"
            for name in ("with", "without")
        ),
        "kept for": kept_for,
    }
