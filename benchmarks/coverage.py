"""How often the model's intervals hold, and how wide they are: core lessons, ladder, `rpcload`.

An interval stands for 90 % of the runs. The core lessons run in the fast mode, and each of their
comparisons has one interval. Each step of the ladder and each service of `rpcload` has one, too.
The target is 80 to 98 % that hold, and a median half width of at most 15 % on a quiet machine.
"""

import math
import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from tqdm import tqdm

from benchmarks import ladder
from benchmarks.harness import four_digits
from benchmarks.others import rpcload_report
from kvstore.course import comparisons, mode
from kvstore.server import serving
from tools.run_notebooks import chosen, one_kernel

SERVICES: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "one lock, 10 ms": ({"locking": "global"}, 20),
    "10 ms each, below the knee": ({"locking": "per_key", "use_asyncio": True}, 4),
    "a pool of 8 threads": ({"locking": "per_key", "threads": 8}, 32),
    "a pool of 8, half full": ({"locking": "per_key", "threads": 8}, 4),
    "no disk: a processor": ({"read_delay_s": 0.0, "use_asyncio": True}, 50),
}
"""Settings of a server, and the calls in flight of the run that is predicted."""


class Case(NamedTuple):
    """A value of a model with its interval, and what was measured."""

    name: str
    low: float
    high: float
    measured: float

    @property
    def holds(self) -> bool:
        """Whether the measured value is in the interval."""
        return self.low <= self.measured <= self.high

    @property
    def half_width(self) -> float:
        """Half the width of the interval, as a share of its middle on a log scale."""
        return math.sqrt(self.high / self.low) - 1


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each part and one for all; name each interval that does not hold."""
    every: list[Case] = []
    for part in (lessons, steps, services):
        cases = list(part(quick))
        for each in cases:
            if not each.holds:
                low, high, measured = map(four_digits, (each.low, each.high, each.measured))
                tqdm.write(f"  {each.name}: {measured} measured, {low} to {high} predicted")
        every += cases
        yield row(part.__name__, cases)
    yield row("all", every)


def row(part: str, cases: list[Case]) -> dict[str, str]:
    """Return a row of the table."""
    if not cases:
        return {"part": part, "intervals": "0", "held": "-", "median half width": "-"}
    return {
        "part": part,
        "intervals": str(len(cases)),
        "held": f"{np.mean([each.holds for each in cases]):.0%}",
        "median half width": f"{np.median([each.half_width for each in cases]):.0%}",
    }


def lessons(quick: bool) -> Iterator[Case]:
    """Yield each comparison of the core lessons that has an interval."""
    os.environ[mode.VARIABLE] = "fast"
    with one_kernel() as execute:
        for path in chosen(["00", "03"] if quick else ["core"]):
            done = execute(path)
            if done.error:
                tqdm.write(f"  {done.name}: {done.error}")
            for each in done.published(comparisons.MIME_TYPE):
                if each.get("model_interval") and each["measured"] is not None:
                    low, high = each["model_interval"]
                    yield Case(each["question_id"], low, high, each["measured"])


def steps(quick: bool) -> Iterator[Case]:
    """Yield each step of the ladder."""
    for rung in ladder.rungs(ladder.Pace(2, 0.5, 0.3) if quick else ladder.Pace(3, 0.6, 0.4)):
        if rung.interval_per_s is not None:
            yield Case(rung.name, *rung.interval_per_s, rung.measured_per_s)
        if quick:
            return


def services(quick: bool) -> Iterator[Case]:
    """Yield the prediction of `rpcload` for each service."""
    for name, (settings, in_flight) in list(SERVICES.items())[: 1 if quick else None]:
        with serving(**settings) as server:
            report = rpcload_report(server, in_flight, 3.0)
        low, high = report["prediction"]["throughput_90"]
        yield Case(name, low, high, report["run"]["throughput_per_s"])
