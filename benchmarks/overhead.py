"""The overhead of our client over a bare loop, and of the measured channel over gRPC's own.

Three clients make the same calls in turn, in this process, against one server: the strategy alone
on gRPC's own channel, which is the bare loop; our client (`load.run`); and the strategy alone on
the measured channel. If the server is saturated or one call waits for the other, throughput says
little about the client, and its CPU time says more. The target is at least 0.95 of the throughput
of the bare loop.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks import bare
from benchmarks.bare import KEY_BYTES, VALUE, Shape
from benchmarks.harness import Clients, Turn, in_turns, rows, turn_of
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
    """Yield one row for each client of each shape."""
    rounds, seconds = (3, 0.2) if quick else (11, 0.6)
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        for shape in SHAPES:
            for row in rows(in_turns(clients(shape, server, seconds), rounds)):
                yield {"shape": str(shape), **row}


def clients(shape: Shape, server: Server, seconds: float) -> Clients:
    """Return the clients of this shape, the bare loop first."""
    return {
        "bare loop": partial(bare.run, shape, server.address, seconds),
        "ours": partial(ours, shape, server, seconds),
        "measured channel": partial(bare.run, shape, server.address, seconds, measured=True),
    }


def ours(shape: Shape, server: Server, seconds: float) -> Turn:
    """Take a turn of our client. Raises `RuntimeError` if an operation was not OK."""
    return turn_of(
        load.run(
            shape.strategy,
            server,
            WORKLOAD,
            in_flight=shape.in_flight,
            streams=shape.streams,
            batch=shape.batch,
            duration_s=seconds,
        )
    )
