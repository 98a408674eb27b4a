"""The effect of each setting of gRPC, protobuf, Python and the event loop that this course uses.

Runs with and without the setting alternate, so that a machine that slows down affects both. "over
without" is the median of the ratios within a round, and "spread" is their interquartile range. A
setting for speed must have an effect beyond the spread: a throughput ratio above 1, a ratio of CPU
time (client and server together) below 1, or for the garbage collector a smaller share of the time
(client and server, with / without). A setting for correctness must not cost throughput. The last
settings are not used, because they have no effect.
"""

import math
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
from benchmarks.peers.turns import client_with
from kvstore import transport
from kvstore.client import load, strategies, workload
from kvstore.protocol import MESSAGE_LIMIT_BYTES, OWN_CONNECTION
from kvstore.server import Server, serving

SPEED, CORRECTNESS, NOT_USED = "speed", "correctness", "not used"
PROTOBUF = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
PENDING = (
    "grpc.server.max_pending_requests",
    "grpc.server.max_pending_requests_hard_limit",
)
LIMITS = (
    "grpc.server_max_unrequested_time_in_server",
    "grpc.server_handshake_timeout_ms",
    "grpc.keepalive_time_ms",
    "grpc.keepalive_timeout_ms",
    "grpc.max_connection_idle_ms",
    "grpc.max_connection_age_ms",
    "grpc.max_connection_age_grace_ms",
)
WINDOW = ("grpc.http2.bdp_probe", "grpc.http2.lookahead_bytes")
USUAL = Change()
SETTINGS_HERE: dict[str, Any] = {
    "use_asyncio": True,
    "read_delay_s": 0,
    "write_delay_s": 0,
    "locking": "per_key",
}


class Load(NamedTuple):
    """The load under which a setting is measured."""

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


BLOCKING = Load("one call at a time", strategies.blocking, 1, workload.reads(**_SMALL), {})
BOUNDED = Load("bounded x100", strategies.bounded, 100, workload.reads(**_SMALL), {})
CHAINED = Load("chained x100", strategies.chained, 100, workload.reads(**_SMALL), {})
BATCHES = Load(
    "batches of 512",
    strategies.pipelined,
    16,
    workload.reads(**_SMALL),
    {"streams": 8, "batch": 512},
)


class Setting(NamedTuple):
    """A setting, the load under which it is measured, and its purpose."""

    name: str
    side: str
    """The process that has the setting: "client" or "server"."""
    change: Change
    """The change that removes the setting, or adds it if it is not used."""
    load: Load
    kept_for: str


def _settings() -> Iterator[Setting]:
    for side in ("client", "server"):
        for under in (CALLS, STREAMS):
            yield Setting("uvloop", side, Change(plain_loop=True), under, SPEED)
        for under in (CALLS, CROWD):
            yield Setting("settled collector", side, Change(leave_garbage=True), under, SPEED)
    yield Setting(
        "own connection", "client", Change(without=(OWN_CONNECTION[0],)), CALLS, CORRECTNESS
    )
    yield Setting(
        "port not shared", "server", Change(without=("grpc.so_reuseport",)), CALLS, CORRECTNESS
    )
    capped = Change(without=PENDING)
    yield Setting("limit on what waits", "server", capped, CALLS, CORRECTNESS)
    yield Setting("limits on time", "server", Change(without=LIMITS), CALLS, CORRECTNESS)
    for under in (STREAMS, LARGE_WRITES):
        yield Setting(
            "fixed flow control window", "server", Change(without=WINDOW), under, CORRECTNESS
        )
    for option, value, side, under in (
        ("grpc.http2.lookahead_bytes", MESSAGE_LIMIT_BYTES, "client", LARGE_READS),
        ("grpc.experimental.tcp_min_read_chunk_size", 64 * 1024, "client", LARGE_READS),
        ("grpc.http2.bdp_probe", 0, "client", CALLS),
        ("grpc.enable_retries", 0, "client", CALLS),
    ):
        added = Change(added=(option, value))
        yield Setting(f"{option}={value}", side, added, under, NOT_USED)


SETTINGS = tuple(_settings())

PROFILES = (("stock", "poller"), ("poller", "stock"), ("poller", "poller"))
"""Profiles of the client and of the server; each pair is compared with stock on both sides."""
PROFILE_LOADS = (BLOCKING, BOUNDED, CHAINED, CALLS, STREAMS, BATCHES)


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each setting and load; the messages of protobuf first."""
    rounds, seconds = (2, 0.2) if quick else (13, 0.4)
    yield row("upb", "both", "128 reads in a message", SPEED, in_turns(messages(), rounds))
    yield from profiles(rounds, seconds)
    for setting in SETTINGS:
        with ExitStack() as servers:
            turns = turns_of(setting, seconds, servers)
            yield row(
                setting.name, setting.side, setting.load.name, setting.kept_for,
                in_turns(turns, rounds),
            )  # fmt: skip


def profiles(rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield one row for each pair of transport profiles and each load."""
    with ExitStack() as running:
        clients = {name: running.enter_context(client_with(name)) for name in transport.NAMES}
        servers = {
            name: running.enter_context(serving(**{**SETTINGS_HERE, "transport": name}))
            for name in transport.NAMES
        }

        def turn(client: str, server: str, under: Load) -> Turn:
            made = clients[client].turn(
                under.strategy, servers[server].address, under.workload,
                in_flight=under.in_flight, duration_s=seconds, **under.options,
            )  # fmt: skip
            return Turn(made["per_s"], made["client_cpu_s"] + made["server_cpu_s"], math.nan)

        for under in PROFILE_LOADS:
            for client, server in PROFILES:
                turns: dict[str, Callable[[], Turn]] = {
                    "with": partial(turn, client, server, under),
                    "without": partial(turn, transport.STOCK.name, transport.STOCK.name, under),
                }
                sides = [side for side, name in (("client", client), ("server", server))
                         if name != transport.STOCK.name]  # fmt: skip
                yield row(
                    "transport poller", " and ".join(sides), under.name, SPEED,
                    in_turns(turns, rounds),
                )  # fmt: skip


def turns_of(setting: Setting, seconds: float, servers: ExitStack) -> dict[str, Callable[[], Turn]]:
    """Return functions that take a turn with and without the setting; `servers` stops servers."""
    other = setting.change
    with_it, without = (other, USUAL) if setting.kept_for == NOT_USED else (USUAL, other)
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


def _turn(server: Server, change: Change, under: Load, seconds: float) -> Turn:
    """Make one run; return its throughput and the CPU time of client and server per operation."""
    with changed_client(change):
        run = load.run(
            under.strategy, server, under.workload,
            in_flight=under.in_flight, duration_s=seconds,
            settle_garbage=not change.leave_garbage, **under.options,
        )  # fmt: skip
    if set(run.outcomes()) != {"OK"}:
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    both_s = run.client_cpu.total_s + run.server_cpu.total_s
    last = run.samples.iloc[-1]
    paused_s = last["client_pause_s"] + last["server_pause_s"]
    return Turn(run.throughput_per_s, both_s / run.operations_ok, paused_s / last["elapsed_s"])


def messages() -> dict[str, Callable[[], Turn]]:
    """Return functions that measure messages with protobuf in C and with protobuf in Python."""
    return {"with": lambda: _messages("upb"), "without": lambda: _messages("python")}


def _messages(implementation: str) -> Turn:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers.messages"],
        env={**os.environ, PROTOBUF: implementation}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    per_s, cpu_s = map(float, done.stdout.split())
    return Turn(per_s, cpu_s)


def row(
    name: str, side: str, load_name: str, kept_for: str, rounds: dict[str, list[Turn]]
) -> dict[str, Any]:
    """Return the row of a setting: medians with and without it, and ratios within the rounds."""
    rates = ratios(rounds, "with", "without", "per_s")
    cpu_ratios = ratios(rounds, "with", "without", "cpu_s")
    return {
        "setting": name,
        "side": side,
        "load": load_name,
        "with, operations/s": f"{np.median([turn.per_s for turn in rounds['with']]):,.0f}",
        "without": f"{np.median([turn.per_s for turn in rounds['without']]):,.0f}",
        "over without": round(float(np.median(rates)), 2),
        "spread": middle_half(rates),
        "CPU over without": round(float(np.median(cpu_ratios)), 2),
        "spread of that": middle_half(cpu_ratios),
        "collector, % of time": " / ".join(
            f"{100 * np.median([turn.paused for turn in rounds[name]]):.1f}"
            for name in ("with", "without")
        ),
        "kept for": kept_for,
    }
