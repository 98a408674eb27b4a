"""What the client costs beyond a bare loop over the same stub, shape by shape.

Three ways to make the same calls take turns in this one process, against one server: ours, the
bare loop of the same shape, and that loop with its answers unread (which nobody should do: it
shows what reading and comparing them costs; batches of ours are compared, so the loop's are).
Rounds are short and many, in an order that changes; ratios are taken within a round. "spread"
is the middle half of the rounds. A rate says little where the server has no time left or one
call waits for the other: there "CPU over bare" is the price. It is wanted that ours makes at
least 0.95 of the bare loop's rate.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers.loops import KEY_BYTES, VALUE, Asked, made, new_key
from kvstore import garbage
from kvstore.client import load, strategies, workload
from kvstore.server import Server, serving

ASKED = workload.reads(key_bytes_mean=KEY_BYTES, value_bytes_mean=len(VALUE), sizes="fixed")
CLIENTS = ("ours", "bare", "unread")


class Shape(NamedTuple):
    """A strategy and the bare loop that does the same."""

    strategy: strategies.Strategy
    loop: str
    in_flight: int
    streams: int = 1
    batch: int = 1

    def __str__(self) -> str:
        streams = f" on {self.streams} streams" if self.loop == "stream" else ""
        batches = f", batches of {self.batch}" if self.batch > 1 else ""
        return f"{self.strategy.__name__} x{self.in_flight}{streams}{batches}"


SHAPES = (
    Shape(strategies.blocking, "sync", 1),
    Shape(strategies.bounded, "future", 100),
    Shape(strategies.chained, "chain", 100),
    Shape(strategies.tasks, "aio", 100),
    Shape(strategies.pipelined, "stream", 100),
    Shape(strategies.pipelined, "stream", 100, streams=8),
    Shape(strategies.pipelined, "stream", 128, streams=8, batch=8),
    Shape(strategies.pipelined, "stream", 64, streams=8, batch=128),
    Shape(strategies.pipelined, "stream", 16, streams=8, batch=512),
)


class Turn(NamedTuple):
    """One turn of one client."""

    per_s: float
    """Operations per second."""
    cpu_s: float
    """Processor seconds of this process for each operation."""
    paused: float = 0.0
    """The share of the time in which Python's collector was at work, where it is looked at."""


Rounds = dict[str, list[Turn]]
"""The turns of each client, round by round."""


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each shape."""
    rounds, seconds = (3, 0.2) if quick else (11, 0.6)
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        for shape in SHAPES:
            yield row(str(shape), in_turns(clients(shape, server, seconds), rounds))


def clients(shape: Shape, server: Server, seconds: float) -> dict[str, Callable[[], Turn]]:
    """How each of `CLIENTS` takes a turn of this shape."""
    asked = Asked(
        server.address, new_key(server.address), seconds,
        in_flight=shape.in_flight, streams=shape.streams, batch=shape.batch,
    )  # fmt: skip
    return {
        "ours": lambda: ours(shape, server, seconds),
        "bare": lambda: bare(shape, asked),
        "unread": lambda: bare(shape, asked._replace(verified=False)),
    }


def ours(shape: Shape, server: Server, seconds: float) -> Turn:
    """A turn of our strategy. Raises `RuntimeError` when an operation was not OK."""
    pipelined = shape.strategy is strategies.pipelined
    options: dict[str, Any] = {"streams": shape.streams, "batch": shape.batch} if pipelined else {}
    run = load.run(
        shape.strategy, server, ASKED, in_flight=shape.in_flight, duration_s=seconds, **options
    )
    if set(run.outcomes()) != {"OK"}:
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    return Turn(run.throughput_per_s, run.client_cpu.total_s / run.operations_ok)


def bare(shape: Shape, asked: Asked) -> Turn:
    """A turn of the bare loop, with the collector as ours has it."""
    with garbage.settled():
        did = made(shape.loop, asked)
    return Turn(did.operations / did.took_s, did.cpu_s / did.operations)


def in_turns(turns: dict[str, Callable[[], Turn]], rounds: int) -> Rounds:
    """Let each take its turn in every round, each time another one first; a round warms up."""
    names = list(turns)
    found: Rounds = {name: [] for name in names}
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            turn = turns[name]()
            if number:
                found[name].append(turn)
    return found


def ratios(rounds: Rounds, over: str, under: str, figure: str) -> list[float]:
    """What one client's figure is of another's, in every round."""
    pairs = zip(rounds[over], rounds[under], strict=True)
    return [getattr(one, figure) / getattr(other, figure) for one, other in pairs]


def row(name: str, rounds: Rounds) -> dict[str, Any]:
    """The medians, and the middle half of the ratios."""
    rates = ratios(rounds, "ours", "bare", "per_s")
    prices = ratios(rounds, "ours", "bare", "cpu_s")
    return {
        "client": name,
        "bare, operations/s": f"{_median(rounds, 'bare', 'per_s'):,.0f}",
        "over bare": round(float(np.median(rates)), 3),
        "spread": middle_half(rates),
        "CPU us, ours": f"{1e6 * _median(rounds, 'ours', 'cpu_s'):.3g}",
        "bare": f"{1e6 * _median(rounds, 'bare', 'cpu_s'):.3g}",
        "CPU over bare": round(float(np.median(prices)), 3),
        "spread of that": middle_half(prices),
        "CPU unread over bare": round(
            float(np.median(ratios(rounds, "unread", "bare", "cpu_s"))), 3
        ),
    }


def _median(rounds: Rounds, client: str, figure: str) -> float:
    return float(np.median([getattr(turn, figure) for turn in rounds[client]]))


def middle_half(values: list[float]) -> str:
    """The lower and the upper quartile."""
    low, high = np.quantile(values, (0.25, 0.75))
    return f"{low:.2f} to {high:.2f}"
