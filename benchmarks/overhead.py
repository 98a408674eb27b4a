"""The overhead of our client over a bare loop, and of the measured channel over gRPC's own.

Four clients make the same calls in turn, in this process, against one server: our client
(`load.run`), the bare loop of the same shape, and the strategy as a learner runs it, on the
measured channel and on gRPC's own. The last two differ in nothing but the channel. Rounds are short
and many, their order changes, and ratios are computed within a round. "spread" is the interquartile
range of the rounds. If the server is saturated or one call waits for the other, throughput says
little about the client, and "CPU over bare" shows its CPU time. The target is at least 0.95 of the
throughput of the bare loop, and of the plain channel.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import learner
from benchmarks.loops import KEY_BYTES, VALUE, LoopOptions, new_key, run_loop
from kvstore import gc_control
from kvstore.client import load, strategies, workload
from kvstore.server import Server, serving

WORKLOAD = workload.reads(key_bytes_mean=KEY_BYTES, value_bytes_mean=len(VALUE), sizes="fixed")


class Shape(NamedTuple):
    """A strategy, and the bare loop that makes the same calls."""

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
    """The figures of one turn of one client."""

    per_s: float
    """Operations per second."""
    cpu_s: float
    """CPU seconds of this process for each operation."""
    paused: float = 0.0
    """The share of the time that garbage collections of Python took, if it is measured."""


Rounds = dict[str, list[Turn]]
"""The turns of each client, round by round."""


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each shape."""
    rounds, seconds = (3, 0.2) if quick else (11, 0.6)
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        for shape in SHAPES:
            yield row(str(shape), in_turns(clients(shape, server, seconds), rounds))


def clients(shape: Shape, server: Server, seconds: float) -> dict[str, Callable[[], Turn]]:
    """Return the clients by name: functions that take one turn of this shape."""
    options = LoopOptions(
        server.address, new_key(server.address), seconds,
        in_flight=shape.in_flight, streams=shape.streams, batch=shape.batch,
    )  # fmt: skip
    return {
        "ours": lambda: ours(shape, server, seconds),
        "bare": lambda: bare(shape, options),
        **{
            name: partial(learners, shape, options, channel)
            for name, channel in learner.CHANNELS.items()
        },
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


def bare(shape: Shape, options: LoopOptions) -> Turn:
    """Take a turn of the bare loop, with the same garbage collector settings as our client."""
    with gc_control.settled():
        result = run_loop(shape.loop, options)
    return Turn(result.operations / result.took_s, result.cpu_s / result.operations)


def learners(shape: Shape, options: LoopOptions, channel: learner.Channel) -> Turn:
    """Take a turn of the strategy as a learner runs it: on a channel, without `load.run`."""
    with gc_control.settled():
        result = learner.run(shape.strategy, options, channel)
    return Turn(result.operations / result.took_s, result.cpu_s / result.operations)


def in_turns(turns: dict[str, Callable[[], Turn]], rounds: int) -> Rounds:
    """Let each client take a turn in every round, in changing order; the first round warms up."""
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
    """Return the ratio of a figure of two clients, for each round."""
    pairs = zip(rounds[over], rounds[under], strict=True)
    return [getattr(one, figure) / getattr(other, figure) for one, other in pairs]


def row(name: str, rounds: Rounds) -> dict[str, Any]:
    """Return the row of a shape: medians, and the interquartile range of the ratios."""
    rates = ratios(rounds, "ours", "bare", "per_s")
    cpu_ratios = ratios(rounds, "ours", "bare", "cpu_s")
    return {
        "client": name,
        "bare, operations/s": f"{_median(rounds, 'bare', 'per_s'):,.0f}",
        "over bare": round(float(np.median(rates)), 3),
        "spread": middle_half(rates),
        "CPU us, ours": f"{1e6 * _median(rounds, 'ours', 'cpu_s'):.3g}",
        "bare": f"{1e6 * _median(rounds, 'bare', 'cpu_s'):.3g}",
        "CPU over bare": round(float(np.median(cpu_ratios)), 3),
        "spread of that": middle_half(cpu_ratios),
        "measured over plain": round(
            float(np.median(ratios(rounds, "measured", "plain", "per_s"))), 3
        ),
        "CPU measured over plain": round(
            float(np.median(ratios(rounds, "measured", "plain", "cpu_s"))), 3
        ),
    }


def _median(rounds: Rounds, client: str, figure: str) -> float:
    return float(np.median([getattr(turn, figure) for turn in rounds[client]]))


def middle_half(values: list[float]) -> str:
    """Return the lower and the upper quartile as text."""
    low, high = np.quantile(values, (0.25, 0.75))
    return f"{low:.2f} to {high:.2f}"
