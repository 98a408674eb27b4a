"""Search for the highest arrival rate that meets an objective, by open-loop steps.

A step is one run at a constant rate. Its latency is measured from the due times. A step counts only
if the load generator kept its due times: otherwise it says nothing about the service.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from kvstore.client import load
from kvstore.client.channel import Target
from kvstore.client.fleet import Fleet
from kvstore.client.method_calls import MethodCalls
from kvstore.client.options import RunOptions
from kvstore.client.strategies import Strategy
from kvstore.load_test.calibration import Progress
from kvstore.measure import Run, latencies_s, quantile, verdict
from kvstore.measure.audit import in_flight_steps
from kvstore.measure.cpu_cost import BUSY
from kvstore.protocol import OK

STEP_S: Final = 3.0
"""Seconds of each step."""
SETTLE: Final = 0.2
"""Share of each step that is left out: its first calls open connections and fill caches."""
PRECISION: Final = 1.02
"""The search ends when the two rates around the answer differ by this factor at most."""
GROW: Final = 1.25
"""Factor between two rates until one rate meets the objective and one does not."""
LATE: Final = 0.25
"""A generator that sends its calls later than this share of the latency objective is late."""
MOST_STEPS: Final = 60


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a service has to keep. Raises `ValueError` for a value that makes no sense."""

    latency_s: float
    """Limit on the latency at `share` of the calls, in seconds from their due time."""
    share: float = 0.99
    errors: float = 0.001
    """Limit on the share of calls that do not end as OK."""

    def __post_init__(self) -> None:
        if not 0 < self.latency_s < math.inf:
            raise ValueError(f"the latency objective must be above 0 seconds, got {self.latency_s}")
        if not 0 < self.share < 1:
            raise ValueError(f"share must be between 0 and 1, got {self.share}")
        if not 0 <= self.errors < 1:
            raise ValueError(f"errors must be a share from 0 to 1, got {self.errors}")

    def __str__(self) -> str:
        return f"p{100 * self.share:g} <= {1e3 * self.latency_s:g} ms, errors <= {self.errors:.3%}"


@dataclass(frozen=True, slots=True)
class Step:
    """One run at a constant arrival rate."""

    rate_per_s: float
    latency_s: float
    """Latency at the objective's share, in seconds from the due time."""
    errors: float
    """Share of the calls that did not end as OK."""
    meets: bool
    """Whether the objective is met."""
    generator: str = ""
    """Why the generator was the limit; empty if it kept its due times."""

    def __str__(self) -> str:
        end = "meets the objective" if self.meets else "does not meet it"
        return (
            f"{self.rate_per_s:,.0f} calls/s: {1e3 * self.latency_s:,.3g} ms,"
            f" errors {self.errors:.2%}: {self.generator or end}"
        )


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    rate_per_s: float
    """The highest rate that met the objective; 0 if none did."""
    fails_per_s: float
    """The lowest rate above it that did not meet it; infinite if the search did not get there."""
    steps: tuple[Step, ...]
    limit: str = ""
    """Why the search ended early: the generator could not send more, or Ctrl-C; else empty."""

    def __str__(self) -> str:
        if self.limit and self.rate_per_s:
            return f"at least {self.rate_per_s:,.0f} calls/s: {self.limit}"
        if self.limit:
            return f"no rate was found: {self.limit}"
        if not self.rate_per_s:
            return f"no rate down to {self.fails_per_s:,.3g} calls/s meets the objective"
        return f"{self.rate_per_s:,.0f} calls/s meet the objective, {self.fails_per_s:,.0f} do not"


def highest_rate(
    try_at: Callable[[float], Step], guess_per_s: float, *, precision: float = PRECISION
) -> Found:
    """Return the highest rate whose step meets the objective.

    It starts at half of `guess_per_s` and grows or shrinks until one rate passes and one fails.
    Then it takes the rate in the middle (a bisection) until both differ by `precision`. A rate
    fails if two steps fail at it: a single pause of the machine says nothing about the service.
    The search ends at a rate that the generator cannot send, and after Ctrl-C.
    """
    steps: list[Step] = []

    def meets(rate_per_s: float) -> bool:
        votes = [try_at(rate_per_s)]
        while not votes[-1].meets or votes[-1].generator:
            steps.append(votes[-1])
            limits = [step.generator for step in votes if step.generator]
            if len(limits) == 2:
                raise _GeneratorLimit(limits[-1])
            if len(votes) - len(limits) == 2:
                return False
            votes.append(try_at(rate_per_s))
        steps.append(votes[-1])
        return True

    low, high = 0.0, math.inf
    rate = guess_per_s / 2
    try:
        while len(steps) < MOST_STEPS and not (high <= precision * low):
            if meets(rate):
                low = rate
            else:
                high = rate
            if math.isinf(high):
                rate = low * GROW
            elif not low:
                rate = high / (GROW * GROW)
                if rate < guess_per_s / 1000:
                    break
            else:
                rate = math.sqrt(low * high)
    except _GeneratorLimit as limit:
        return Found(low, math.inf, tuple(steps), str(limit))
    except KeyboardInterrupt:
        return Found(low, high, tuple(steps), "interrupted")
    return Found(low, high, tuple(steps))


class _GeneratorLimit(Exception):
    """The load generator could not send at a rate."""


def search(
    strategy: Strategy,
    target: Target,
    calls: MethodCalls,
    objective: Objective,
    guess_per_s: float,
    options: RunOptions | None = None,
    *,
    fleet: Fleet | None = None,
    step_s: float = STEP_S,
    precision: float = PRECISION,
    progress: Progress = lambda text: None,
    **settings: Any,
) -> Found:
    """Return the highest rate at which the service meets the objective.

    `guess_per_s` is the ceiling that a calibration found. `settings` are those of `load.run`, such
    as `in_flight`, the limit; the errors are the same.
    """
    options = RunOptions.of(strategy, options, settings)

    def try_at(rate_per_s: float) -> Step:
        run = load.run(
            strategy, target, calls,
            replace(options, rate_per_s=rate_per_s, duration_s=step_s, calls=None, joins=()),
            fleet=fleet,
        )  # fmt: skip
        step = step_of(run, objective)
        progress(f"search: {step}")
        return step

    return highest_rate(try_at, guess_per_s, precision=precision)


def step_of(run: Run, objective: Objective) -> Step:
    """Return the step of an open-loop run: its latency, its errors, and the generator's health."""
    due_s = run.records["due_s"]
    settled = replace_records(run, due_s >= SETTLE * float(due_s.max(initial=0.0)))
    latency_s = quantile(latencies_s(settled), objective.share).value_s
    errors = float((settled.records["status"] != OK).mean()) if len(settled.records) else 1.0
    meets = latency_s <= objective.latency_s and errors <= objective.errors
    rate = float(run.settings["rate_per_s"])
    return Step(rate, latency_s, errors, meets, _generator_limit(settled, objective))


def replace_records(run: Run, chosen: Any) -> Run:
    """Return the run with these records only."""
    return replace(run, records=run.records[chosen])


def _generator_limit(run: Run, objective: Objective) -> str:
    """Return why the generator was the limit of a step; empty if it was not.

    Calls that wait because the limit in flight is reached are late because of the service.
    """
    records = run.records
    if not len(records):
        return "no call was sent"
    judged = verdict(run)
    _, level = in_flight_steps(records["sent_s"], records["done_s"])
    full = run.in_flight and level.max() >= run.in_flight
    late_s = float(np.quantile(records["sent_s"] - records["due_s"], objective.share))
    if judged.client_cores >= BUSY:
        return f"the load generator used {judged.client_cores:.2f} of a core"
    if late_s > LATE * objective.latency_s and not full:
        return f"the load generator was late: {1e3 * late_s:,.3g} ms at p{100 * objective.share:g}"
    return ""
