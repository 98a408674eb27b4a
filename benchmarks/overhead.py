"""The overhead of our client over a bare loop, and of the measured channel over gRPC's own.

Three clients make the same calls in turn, in this process, against one server: our client
(`load.run`), the strategy alone on the measured channel, and the strategy alone on gRPC's own
channel, which is the bare loop. Rounds are short and many, their order changes, and ratios are
computed within a round. "spread" is the interquartile range of the rounds. If the server is
saturated or one call waits for the other, throughput says little about the client, and "CPU over
bare" shows its CPU time. The target is at least 0.95 of the throughput of the bare loop.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import bare
from benchmarks.bare import KEY_BYTES, VALUE, Shape
from benchmarks.turns import Rounds, Turn, in_turns, median, middle_half, ratios
from kvstore.client import load, strategies, workload
from kvstore.server import Server, serving

WORKLOAD = workload.reads(key_bytes_mean=KEY_BYTES, value_bytes_mean=len(VALUE), sizes="fixed")
SHAPES = (
    Shape(strategies.blocking, 1),
    Shape(strategies.bounded, 100),
    Shape(strategies.chained, 100),
    Shape(strategies.tasks, 100),
    Shape(strategies.pipelined, 100),
    Shape(strategies.pipelined, 100, streams=8),
    Shape(strategies.pipelined, 128, streams=8, batch=8),
    Shape(strategies.pipelined, 64, streams=8, batch=128),
    Shape(strategies.pipelined, 16, streams=8, batch=512),
)


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each shape."""
    rounds, seconds = (3, 0.2) if quick else (11, 0.6)
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        for shape in SHAPES:
            yield row(str(shape), in_turns(clients(shape, server, seconds), rounds))


def clients(shape: Shape, server: Server, seconds: float) -> dict[str, Callable[[], Turn]]:
    """Return the clients by name: functions that take one turn of this shape."""
    return {
        "ours": partial(ours, shape, server, seconds),
        "bare": partial(bare.run, shape, server.address, seconds),
        "measured": partial(bare.run, shape, server.address, seconds, measured=True),
    }


def ours(shape: Shape, server: Server, seconds: float) -> Turn:
    """Take a turn of our strategy. Raises `RuntimeError` if an operation was not OK."""
    pipelined = shape.strategy is strategies.pipelined
    options: dict[str, Any] = {"streams": shape.streams, "batch": shape.batch} if pipelined else {}
    run = load.run(
        shape.strategy, server, WORKLOAD, in_flight=shape.in_flight, duration_s=seconds, **options
    )
    if set(run.outcomes()) != {"OK"}:
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    return Turn(run.throughput_per_s, run.client_cpu.total_s / run.operations_ok)


def row(name: str, rounds: Rounds) -> dict[str, Any]:
    """Return the row of a shape: medians, and the interquartile range of the ratios."""
    rates, cpu = (ratios(rounds, "ours", "bare", figure) for figure in ("per_s", "cpu_s"))
    return {
        "client": name,
        "bare, operations/s": f"{np.median([turn.per_s for turn in rounds['bare']]):,.0f}",
        "over bare": median(rates),
        "spread": middle_half(rates),
        "CPU us, ours": f"{1e6 * np.median([turn.cpu_s for turn in rounds['ours']]):.3g}",
        "bare": f"{1e6 * np.median([turn.cpu_s for turn in rounds['bare']]):.3g}",
        "CPU over bare": median(cpu),
        "spread of that": middle_half(cpu),
        "measured over bare": median(ratios(rounds, "measured", "bare", "per_s")),
        "CPU measured over bare": median(ratios(rounds, "measured", "bare", "cpu_s")),
    }
