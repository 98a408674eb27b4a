"""Throughput by operations in a message, up to the most that this machine can do.

A message of k operations takes a + b k seconds of CPU time in the bottleneck process, so
X <= k / (a + b k). Two sizes give a and b; the other sizes test them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import pandas as pd

from kvstore.client import load
from kvstore.client.strategies import pipelined
from kvstore.client.workload import Workload
from kvstore.course import views
from kvstore.course.rendering import counted
from kvstore.course.views.style import rounded
from kvstore.measure import Run, accounts
from kvstore.measure.cpu_cost import busy, pace_s
from kvstore.model import Prediction, batching

ENDS: Final = (1, 1_024)
"""The two sizes that give a and b: far apart, or the noise would be larger than b."""
BETWEEN: Final = (8, 32, 128)
TOP: Final = 4_096
"""A size beyond both ends, to which the line is extrapolated."""

SMALL: Final = Workload(
    mix={"retrieve": 1, "update": 1}, preload=128,
    key_bytes_mean=8, value_bytes_mean=16, sizes="fixed",
)  # fmt: skip
"""Half reads, half updates. The client compares each value that is read with the one written."""
FLIGHT: Final = {"in_flight": 32, "streams": 8}
"""Messages in flight at every size, and the streams that share them."""


class Cost(NamedTuple):
    """The CPU time of a message: a once, and b for each operation in it."""

    per_message_s: float
    per_operation_s: float

    def throughput(self, size: int) -> Prediction:
        """Return operations per second in messages of this size: k / (a + b k)."""
        return batching.throughput(size, **self._asdict())


def cost(ends: Mapping[int, Run]) -> Cost:
    """Return a and b from the CPU time of messages of two sizes."""
    a_s, b_s = batching.fit({size: pace_s(run) for size, run in ends.items()})
    return Cost(max(a_s, 0.0), max(b_s, 1e-9))  # clocks of 10 ms can make either negative


def climb(
    server: object,
    sizes: Sequence[int],
    *,
    duration_s: float,
    rounds: int,
    make_run: Callable[..., Run] = load.run,
) -> dict[int, Run]:
    """Run each size of message, interleaved, and return the fastest round of each."""
    best: dict[int, Run] = {}
    for size in counted(list(sizes) * rounds, "size, run"):
        run = make_run(pipelined, server, SMALL, duration_s=duration_s, batch=size, **FLIGHT)
        if size not in best or run.throughput_per_s > best[size].throughput_per_s:
            best[size] = run
    return best


def worst_factor(runs: Mapping[int, Run], predicted: Cost) -> float:
    """Return the largest ratio of measured and predicted CPU time: 2 is double or half."""
    ratios = [pace_s(run) * predicted.throughput(size).value / size for size, run in runs.items()]
    return math.exp(max(abs(math.log(ratio)) for ratio in ratios))


def while_at_work(run: Run, bound: Prediction) -> float:
    """Return measured over bound, for the time in which the bottleneck process was running.

    The bound assumes a processor without other programs. If other programs use it too, this ratio
    still tests the model.
    """
    return bound.ratio_of(run.throughput_per_s) / busy(run)


def verified(runs: Mapping[int, Run]) -> int:
    """Return the operations of these runs; 0 unless all were answered OK and every read compared.

    A wrong value ends its run with an error, so a finished run has none.
    """
    counts = [accounts(run) for run in runs.values()]
    return sum(each.ok for each in counts if all(one.ok == one.issued for one in counts))


PUBLISHED_PER_S: Final = 16.55
"""The first step: the published blocking client in Java."""


def ladder(climbed: Mapping[int, Run]) -> dict[str, Run | Prediction | float]:
    """Return all steps so far: as published, as predicted in lesson 03, as measured here."""
    unit = "operations/s"
    return {
        "published\n(01)": PUBLISHED_PER_S,
        "one lock\n(03)": Prediction(25, unit, "1 / 40 ms"),
        "100 in flight\n(03)": Prediction(2_500, unit, "100 / 40 ms"),
        **{f"stream,\nk = {size:,}": climbed[size] for size in sorted(climbed) if size != 8},
    }


def ladder_table(steps: Mapping[str, Run | Prediction | float]) -> pd.DataFrame:
    """Return the throughput of each step, and its ratio to the first."""
    table = views.ladder_table(steps)
    table.index = table.index.str.replace("\n", " ")
    table["times the first"] = table["throughput (operations/s)"] / PUBLISHED_PER_S
    return rounded(table)
