"""Search for the highest arrival rate that meets an objective, by open-loop steps.

A step is one run at a constant rate. Its latency is measured from the due times. A step meets the
objective only in a steady state: while the calls in flight grow, the latency of a longer step would
be higher. A step counts only if the load generator kept its due times: otherwise it says nothing
about the service. No rate above the ceiling is tried, because no rate above it lasts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from kvstore.client import load
from kvstore.client.channel import Target
from kvstore.client.fleet import Fleet
from kvstore.client.plan import RunOptions
from kvstore.client.strategies import Strategy
from kvstore.client.workload import MethodCalls
from kvstore.load_test.first_call import Progress, at_times
from kvstore.load_test.levels import Calibration
from kvstore.measure import Run, latencies_s, quantile, verdict
from kvstore.measure.audit import in_flight_steps
from kvstore.measure.figures import started_s
from kvstore.measure.recorder import Sample
from kvstore.measure.validity import BUSY
from kvstore.numbers import number, percent, rate, seconds
from kvstore.protocol import OK, STATUSES

RATE_STEP_S: Final = 3.0
"""Seconds of each step, at least."""
STEP_CALLS, STEP_TIMES = 200, 8
"""A step has so many calls, and lasts so many times as long as a call, unless it would last longer
than `LONGEST_STEP_S`."""
LONGEST_STEP_S: Final = 20.0
RATE_SETTLE: Final = 0.2
"""Share of each step that is left out: its first calls open connections and fill caches."""
PRECISION: Final = 1.02
"""The search ends when the two rates around the answer differ by this factor at most."""
GROW: Final = 1.25
"""Factor between two rates until one rate meets the objective and one does not."""
LATE: Final = 0.25
"""A generator that sends its calls later than this share of the latency objective is late."""
GROWS: Final = 0.03
"""The calls in flight may grow by this share of the calls of a step."""
MOST_STEPS: Final = 60
SHARE: Final = 0.99
"""Share of the calls whose latency an objective limits."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a service has to keep. Raises `ValueError` for a value that makes no sense."""

    latency_s: float
    """Limit on the p99 of the latency, in seconds from the due time."""
    errors: float = 0.001
    """Limit on the share of calls that do not end as OK."""

    def __post_init__(self) -> None:
        if not 0 < self.latency_s < math.inf:
            raise ValueError(f"the latency objective must be above 0 seconds, got {self.latency_s}")
        if not 0 <= self.errors < 1:
            raise ValueError(f"errors must be a share from 0 to 1, got {self.errors}")

    def __str__(self) -> str:
        return f"p99 <= {seconds(self.latency_s)}, errors <= {percent(self.errors)}"


@dataclass(frozen=True, slots=True)
class Step:
    """One run at a constant arrival rate."""

    rate_per_s: float
    latency_s: float
    """The p99 of the latency, in seconds from the due time."""
    errors: float
    """Share of the calls that did not end as OK."""
    meets: bool
    """Whether the objective is met, in a steady state."""
    generator: str = ""
    """Why the generator was the limit; empty if it kept its due times."""
    why: str = ""
    """Why the objective is not met; empty if it is."""

    def __str__(self) -> str:
        end = "meets the objective" if self.meets else self.why or "does not meet it"
        return (
            f"{rate(self.rate_per_s, 'calls')}: {seconds(self.latency_s)},"
            f" errors {percent(self.errors)}: {self.generator or end}"
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
    """Why the search ended early: the ceiling or the generator was reached, no rate can meet the
    objective, or Ctrl-C; else empty."""

    def __str__(self) -> str:
        if self.limit and self.rate_per_s:
            return f"at least {rate(self.rate_per_s, 'calls')}: {self.limit}"
        if self.limit:
            return f"no rate was found: {self.limit}"
        if not self.rate_per_s:
            return f"no rate down to {rate(self.fails_per_s, 'calls')} meets the objective"
        met, missed = rate(self.rate_per_s, "calls"), number(self.fails_per_s)
        return f"{met} meet the objective, {missed} do not"


def highest_rate(
    try_at: Callable[[float], Step], ceiling_per_s: float, *, precision: float = PRECISION
) -> Found:
    """Return the highest rate up to the ceiling whose step meets the objective.

    It starts at half of the ceiling and grows or shrinks until one rate passes and one fails.
    Then it takes the rate in the middle (a bisection) until both differ by `precision`. A rate
    fails if two steps fail at it: a single pause of the machine says nothing about the service.
    The search ends at a rate that the generator cannot send, at the ceiling, and after Ctrl-C.
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
    next_per_s = ceiling_per_s / 2
    try:
        while len(steps) < MOST_STEPS and not (high <= precision * low):
            if meets(next_per_s):
                low = next_per_s
                if low >= ceiling_per_s:
                    return Found(low, math.inf, tuple(steps), "this is the ceiling")
            else:
                high = next_per_s
            if math.isinf(high):
                next_per_s = min(low * GROW, ceiling_per_s)
            elif not low:
                next_per_s = high / (GROW * GROW)
                if next_per_s < ceiling_per_s / 1000:
                    break
            else:
                next_per_s = math.sqrt(low * high)
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
    seen: Calibration,
    options: RunOptions | None = None,
    *,
    fleet: Fleet | None = None,
    step_s: float = RATE_STEP_S,
    precision: float = PRECISION,
    progress: Progress = lambda text: None,
    **settings: Any,
) -> Found:
    """Return the highest rate at which the service meets the objective.

    Arrivals are random, as those of users, unless `options` or `settings` say otherwise
    (`arrivals="even"`). `seen` is a calibration of the same calls. An objective below the time of
    one call is refused: the result has no steps, and its limit says why. A step lasts `step_s`
    seconds, and longer for slow calls and low rates. `settings` are those of `load.run`, such as
    `in_flight`, the limit; the errors are the same.
    """
    if options is None and "arrivals" not in settings:
        settings["arrivals"] = "random"
    options = RunOptions.of(strategy, options, settings)
    if seen.no_queue.value > objective.latency_s:
        return Found(
            0.0, math.inf, (),
            f"one call alone takes {seconds(seen.no_queue.value)}, which is more than the"
            f" objective of {seconds(objective.latency_s)}: no rate can meet it",
        )  # fmt: skip
    if seen.fails_always > objective.errors:
        return Found(
            0.0, math.inf, (),
            f"{percent(seen.fails_always)} of the calls fail with few in flight already, and"
            f" {percent(objective.errors)} may fail: no rate can meet it",
        )  # fmt: skip

    def shown(rate_per_s: float, sample: Sample) -> str:
        return (
            f"search: {rate(rate_per_s, 'calls')}, {sample.elapsed_s:.1f} s,"
            f" {sample.in_flight:,.0f} in flight"
        )

    def try_at(rate_per_s: float) -> Step:
        enough_s = max(STEP_TIMES * seen.no_queue.value, STEP_CALLS / rate_per_s)
        run = load.run(
            strategy, target, calls,
            replace(
                options, rate_per_s=rate_per_s, rates=(), calls=None, joins=(),
                duration_s=max(step_s, min(enough_s, LONGEST_STEP_S)),
                drain_s=max(2 * objective.latency_s, 2 * seen.no_queue.value),
            ),
            fleet=fleet,
            on_sample=at_times(progress, lambda sample: shown(rate_per_s, sample)),
        )  # fmt: skip
        step = step_of(run, objective)
        progress(f"search: {step}")
        return step

    return highest_rate(try_at, seen.ceiling_per_s, precision=precision)


def step_of(run: Run, objective: Objective) -> Step:
    """Return the step of an open-loop run: its latency, its errors, and the generator's health."""
    due_s = run.records["due_s"]
    settled = replace(run, records=run.records[due_s >= RATE_SETTLE * due_s.max(initial=0.0)])
    latency_s = quantile(latencies_s(settled), SHARE).value_s
    status = settled.records["status"]
    errors = float((status != OK).mean()) if len(status) else 1.0
    rate_per_s = float(run.settings["rate_per_s"])
    step = Step(rate_per_s, latency_s, errors, False)
    if errors > objective.errors and not _cut_only(settled):
        named = np.bincount(status[status != OK])
        return replace(step, why=f"fails: most with {STATUSES[int(named.argmax())]}")
    if generator := _generator_limit(settled, objective):
        return replace(step, generator=generator)
    if growth := growing(run):
        return replace(step, why=growth)
    if latency_s > objective.latency_s or errors > objective.errors:
        return replace(step, why="does not meet the objective")
    return replace(step, meets=True)


def _cut_only(run: Run) -> bool:
    """Return whether the calls that failed were cut off: they show a queue, and no failure."""
    records = run.records
    failed = records[records["status"] != OK]
    cut_s = float(run.settings.get("duration_s") or math.inf)
    return bool((failed["done_s"] >= cut_s).all())


def growing(run: Run) -> str:
    """Return how the calls in the system grew over an open loop; empty in a steady state.

    They are those that were due and have not ended. A line through their number over the second
    part of the run shows the growth, and half of the time is compared with the other half, because
    random arrivals make the number go up and down.
    """
    records = run.records
    if not len(records):
        return "no call ended"
    due_s = started_s(records)
    end_s = float(due_s.max())
    edges_s = np.linspace(RATE_SETTLE * end_s, end_s, 9)
    at_s, level = in_flight_steps(due_s, records["done_s"])
    inside = level[np.maximum(0, np.searchsorted(at_s, edges_s, side="right") - 1)].astype(float)
    slope_per_s, _ = np.polyfit(edges_s, inside, 1)
    grown = slope_per_s * float(edges_s[-1] - edges_s[0])
    arrived = float(((due_s >= edges_s[0]) & (due_s <= end_s)).sum())
    middle = len(inside) // 2
    rises = inside[middle + 1 :].min() > inside[:middle].max()
    if rises and grown > max(GROWS * arrived, 2 * math.sqrt(max(1.0, inside.mean()))):
        return (
            f"not steady: waiting calls grew from {inside[0]:,.0f} to {inside[-1]:,.0f},"
            f" by {number(slope_per_s)} a second"
        )
    return ""


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
    late_s = float(np.quantile(records["sent_s"] - records["due_s"], SHARE))
    if judged.client_cores >= BUSY:
        return f"the load generator used {judged.client_cores:.2f} of a core"
    if late_s > LATE * objective.latency_s and not full:
        return f"the load generator was late: {seconds(late_s)} at p99"
    return ""
