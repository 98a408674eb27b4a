"""Search for the highest arrival rate that meets an objective, by open-loop steps.

A step is one run at a constant rate. Its latency is measured from the due times. A step meets the
objective only in a steady state: while the calls in flight grow, the latency of a longer step would
be higher. A step counts only if the load generator kept its due times: otherwise it says nothing
about the service. No rate above the ceiling is tried, because no rate above it lasts.
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kvstore.client import load
from kvstore.client.channel import Target
from kvstore.client.fleet import Fleet
from kvstore.client.plan import RunOptions
from kvstore.client.strategies import Strategy
from kvstore.client.workload import MethodCalls
from kvstore.load_test.estimates import T_95
from kvstore.load_test.first_call import Progress, at_times
from kvstore.load_test.levels import Calibration
from kvstore.measure import Run, findings, latencies_s, quantile, verdict
from kvstore.measure.audit import in_flight_steps
from kvstore.measure.figures import started_s
from kvstore.measure.recorder import Sample, Times
from kvstore.measure.validity import BUSY
from kvstore.numbers import number, percent, rate, seconds
from kvstore.protocol import OK, STATUSES

SEARCH_S: Final = 150.0
"""Seconds of all steps of a search."""
FEWEST_STEPS: Final = 12
"""A search has time for so many steps at least."""
SHORTEST_S, LONGEST_S = 3.0, 12.0
"""Seconds of a step, if none are given."""
BEYOND: Final = 10
"""A step lasts until so many calls are beyond the percentile."""
FORGETS: Final = 1.5
"""A step is counted from so many relaxation times of its queue on: it begins empty."""
SETTLE: Final = 0.2
"""Share of each step that is left out, at least: its first calls open connections."""
START, GROW, SHRINK = 0.7, 1.15, 1.5
"""Share of the ceiling at which the search begins, and factors between rates until one of them
meets the objective and one does not."""
CLEAR: Final = 0.2
"""A step with no late call, or with more than this share, is a clear answer."""
PRECISION: Final = 1.02
"""A search with clear answers ends when the rates around the answer differ by this factor."""
SPREAD: Final = 0.08
"""The later steps are at the rate that seems best and at this distance around it (in log rate):
their late calls differ by some factor then, and lie on a line."""
WINDOW: Final = 2.5
"""Steps within so many spreads of the answer are used for it."""
MARGIN: Final = 0.985
"""The answer is this part of the rate at which the share of late calls meets the objective: even at
that rate, half of all runs would miss it."""
LATE: Final = 0.25
"""A generator that sends its calls later than this share of the latency objective is late."""
GROWS: Final = 0.03
"""The calls in flight may grow by this share of the calls of a step."""
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
    calls: int = 0
    """Calls that count: those due after the first part of the step."""
    late: int = 0
    """Those that took longer than the objective or were cut off, or all while the queue grew."""
    failed: int = 0
    """Those that did not end as OK."""
    lasted_s: float = 0.0
    arrived_per_s: float = math.nan
    """The rate of the arrivals as they were drawn; NaN if they were even."""
    seed: int | None = None
    """Seed of the arrivals."""
    short: str = ""
    """Why the step is too short for its percentile; empty if it is not."""

    def __str__(self) -> str:
        end = "meets the objective" if self.meets else self.why or "does not meet it"
        drawn = "" if self.seed is None else f" (seed {self.seed})"
        return (
            f"{rate(self.rate_per_s, 'calls')}: {seconds(self.latency_s)},"
            f" errors {percent(self.errors)}: {self.generator or end}{drawn}"
        )


@dataclass(frozen=True)
class SearchResult:
    """The result of a search."""

    rate_per_s: float
    """The highest rate that meets the objective; 0 if none does."""
    low_per_s: float
    """The 95 % interval of the rate at which the objective is just met; NaN where it is unknown."""
    high_per_s: float
    steps: tuple[Step, ...]
    limit: str = ""
    """Why the search ended early: the ceiling or the generator was reached, no rate can meet the
    objective, or Ctrl-C; else empty."""

    @property
    def short(self) -> str:
        """Why the steps near the rate were too short for their percentile, if they were."""
        near = (self.rate_per_s / GROW, self.rate_per_s * (1 + SPREAD / 2))
        short = [e.short for e in self.steps if e.short and near[0] <= e.rate_per_s <= near[1]]
        return short[-1] if short else ""

    def __str__(self) -> str:
        if self.limit and self.short:
            met = f"{rate(self.rate_per_s, 'calls')} met the objective"
            return f"{met} in steps that are too short to be sure: {self.limit}"
        if self.limit and self.rate_per_s:
            return f"at least {rate(self.rate_per_s, 'calls')}: {self.limit}"
        if self.limit:
            return f"no rate was found: {self.limit}"
        if not self.rate_per_s:
            return f"no rate down to {rate(self.high_per_s, 'calls')} meets the objective"
        low, high = number(self.low_per_s), number(self.high_per_s)
        between = (
            "the interval is not known from so few calls"
            if math.isnan(self.low_per_s) or math.isnan(self.high_per_s)
            else f"it is just met at {low} to {high} (95 % interval)"
        )
        return f"{rate(self.rate_per_s, 'calls')} meet the objective; {between}"


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long the steps of a search last, from the ceiling of the service.

    A queue that begins empty has forgotten it after its relaxation time, which for a queue with
    ceiling C is about 1 / (C (1 - sqrt(rate / C))^2): near the ceiling, it is longer than any step
    (J. Abate, W. Whitt, "Transient behavior of the M/M/1 queue", Queueing Systems 2, 1987).
    """

    ceiling_per_s: float
    step_s: float | None = None
    """Seconds of each step; None for a length that fits the rate."""
    search_s: float = SEARCH_S
    random: bool = True
    """Whether arrivals are random. If they are even, hardly a queue forms below the ceiling."""

    @property
    def longest_s(self) -> float:
        """Seconds of the longest step."""
        return self.step_s or min(LONGEST_S, self.search_s / FEWEST_STEPS)

    @property
    def whole_s(self) -> float:
        """Seconds of all steps together."""
        return max(self.search_s, FEWEST_STEPS * (self.step_s or 0.0))

    @property
    def most_per_s(self) -> float:
        """The highest rate whose queue forgets its start in half of the longest step."""
        if not self.random:
            return self.ceiling_per_s
        apart = math.sqrt(2 * FORGETS / (self.ceiling_per_s * self.longest_s))
        return self.ceiling_per_s * max(0.5, 1 - apart) ** 2

    def settle_s(self, rate_per_s: float) -> float:
        """Return the seconds after which the queue of a step has forgotten its start."""
        apart = 1 - math.sqrt(min(rate_per_s / self.ceiling_per_s, 0.9999))
        return FORGETS / (self.ceiling_per_s * apart**2) if self.random else 0.0

    def of(self, rate_per_s: float) -> tuple[float, float]:
        """Return the seconds of a step at this rate, and those of its first part."""
        settle_s = self.settle_s(rate_per_s)
        enough_s = settle_s + max(settle_s, BEYOND / (1 - SHARE) / rate_per_s)
        lasts_s = self.step_s or min(max(enough_s, SHORTEST_S), self.longest_s)
        return lasts_s, min(max(settle_s, SETTLE * lasts_s), lasts_s / 2)

    def short(self, rate_per_s: float, calls: int) -> str:
        """Return why a step at this rate with so many calls is too short; empty if it is not."""
        lasts_s, _ = self.of(rate_per_s)
        if (settle_s := self.settle_s(rate_per_s)) > 0.51 * lasts_s:
            return f"at {rate(rate_per_s)} a queue forgets its start after {seconds(settle_s)} only"
        if calls * (1 - SHARE) < BEYOND / 2:
            return (
                f"{number(calls * (1 - SHARE))} of the {calls:,} calls of a step are beyond the"
                f" p{100 * SHARE:g}"
            )
        return ""


def highest_rate(
    try_at: Callable[[float], Step], lengths: Lengths, objective: Objective
) -> SearchResult:
    """Return the highest rate whose calls meet the objective, from steps at several rates.

    First, the rate grows or shrinks until one step meets the objective and one does not. A rate
    fails if two steps fail at it: a single pause of the machine says nothing about the service.
    While answers are clear (no late call, or very many), the rate in the middle comes next, until
    both differ by `PRECISION`. Between clear answers, the share of late calls rises smoothly: steps
    around the best rate so far then fill the time, and the answer is where a line through
    log(share) over log(rate) meets the objective (see `crossing`).

    The search ends at a rate that the generator cannot send, and after Ctrl-C.
    """
    steps: list[Step] = []
    try:
        return _highest(try_at, steps, lengths, objective)
    except _GeneratorLimit as limit:
        return SearchResult(_best(steps), math.nan, math.nan, tuple(steps), str(limit))
    except KeyboardInterrupt:
        return SearchResult(_best(steps), math.nan, math.nan, tuple(steps), "interrupted")


def _highest(
    try_at: Callable[[float], Step],
    steps: list[Step],
    lengths: Lengths,
    objective: Objective,
) -> SearchResult:
    most_per_s = lengths.most_per_s

    def left() -> bool:
        return sum(each.lasted_s for each in steps) < lengths.whole_s

    def step(rate_per_s: float) -> Step:
        """Make a step; repeat it if the generator was late, because that may be a pause."""
        for _ in range(2):
            steps.append(try_at(rate_per_s))
            if not steps[-1].generator:
                return steps[-1]
        raise _GeneratorLimit(steps[-1].generator)

    low, high, clear_low, clear_high = 0.0, math.inf, 0.0, math.inf
    next_per_s = min(START * lengths.ceiling_per_s, most_per_s)
    while left():
        tried, clear = step(next_per_s), True
        if not tried.meets and not (low and _share(tried) <= CLEAR):
            again = step(next_per_s)
            clear = not again.meets
            tried = min(tried, again, key=lambda each: (not each.meets, _share(each)))
        if tried.meets:
            low = next_per_s
        else:
            high = next_per_s
        if not _share(tried):
            clear_low = max(clear_low, next_per_s)
        elif _share(tried) > CLEAR:
            clear_high = min(clear_high, next_per_s)
        clear = clear and not 0 < _share(tried) <= CLEAR
        if low >= most_per_s or (low and high < math.inf and not clear):
            break
        if low and high <= PRECISION * low:
            if (clear_low, clear_high) == (low, high):
                return SearchResult(low, low, high, tuple(steps))
            break
        if math.isinf(high):
            next_per_s = min(GROW * low, most_per_s)
        elif low:
            next_per_s = math.sqrt(low * high)
        else:
            next_per_s = high / SHRINK
            if next_per_s < lengths.ceiling_per_s / 1000:
                return SearchResult(0.0, 0.0, high, tuple(steps))
    if not low:
        return SearchResult(0.0, 0.0, high, tuple(steps))
    best = most_per_s if math.isinf(high) else math.sqrt(low * high)
    spread = SPREAD
    if clear_low and clear_high < math.inf:
        spread = min(SPREAD, max(math.log(PRECISION) / 2, math.log(clear_high / clear_low) / 2))
    answer = math.nan
    for around in itertools.cycle((-1, 1, 0)):
        answer, *interval = crossing(steps, best, WINDOW * spread, objective)
        if not left():
            break
        if math.isfinite(answer):
            best = float(np.clip(answer, best / GROW, best * GROW))
        else:  # as good as all are late, or none is
            near = [each for each in steps if abs(math.log(each.rate_per_s / best)) <= spread]
            best *= GROW if all(each.meets for each in near) else 1 / GROW
        best = min(best, most_per_s)
        step(min(best * math.exp(spread * around), most_per_s))
    if best >= most_per_s and not answer < most_per_s:
        return SearchResult(most_per_s, most_per_s, math.nan, tuple(steps), _too_near(lengths))
    if not math.isfinite(answer):
        return SearchResult(low, math.nan, math.nan, tuple(steps))
    ends = [min(max(end, 0.0), lengths.ceiling_per_s) for end in interval]
    return SearchResult(MARGIN * answer, ends[0], ends[1], tuple(steps))


def _share(step: Step) -> float:
    """Return the share of the calls that were late or failed."""
    return (step.late + step.failed) / step.calls if step.calls else 1.0


def _best(steps: Sequence[Step]) -> float:
    missed = min((each.rate_per_s for each in steps if not each.meets), default=math.inf)
    met = (each.rate_per_s for each in steps if each.meets and each.rate_per_s < missed)
    return max(met, default=0.0)


def _too_near(lengths: Lengths) -> str:
    if not lengths.random or lengths.most_per_s >= lengths.ceiling_per_s:
        return "this is the ceiling"
    return (
        f"nearer to the ceiling of {rate(lengths.ceiling_per_s)}, a queue forgets its start later"
        " than within half a step: for a closer answer give longer ones with --step"
    )


class _GeneratorLimit(Exception):
    """The load generator could not send at a rate."""


UNKNOWN: Final = (math.nan, math.nan, math.nan)
FEWEST_IN_FIT: Final = 4
_SLOPE: Final = 15.0
"""The slope with which the fit begins, and its largest change in a round."""


def crossing(
    steps: Sequence[Step], near_per_s: float, window: float, objective: Objective
) -> tuple[float, float, float]:
    """Return the rate at which the objective is just met, and its 95 % interval.

    Steps count whose log rate is at most `window` from `near_per_s`. The late calls and the calls
    that failed are two limits, and the one that is met at the lower rate is the answer. NaN if the
    steps do not show it.
    """
    near = [
        each
        for each in steps
        if not each.generator
        and each.calls
        and abs(math.log(each.rate_per_s / near_per_s)) <= window + 1e-9
    ]
    if len(near) < FEWEST_IN_FIT:
        return UNKNOWN
    drawn = np.array([each.arrived_per_s for each in near])
    at = np.where(np.isnan(drawn), [each.rate_per_s for each in near], drawn)
    noise = np.where(np.isnan(drawn), 0.0, [1 / (e.arrived_per_s * e.lasted_s) for e in near])
    calls = np.array([each.calls for each in near], float)
    limits = {1 - SHARE: [each.late for each in near], objective.errors: [e.failed for e in near]}
    crossings = [
        _crossing(at, calls, np.array(counts, float), max(limit, 0.1 / calls.sum()), noise.mean())
        for limit, counts in limits.items()
        if sum(counts)
    ]
    return min((each for each in crossings if math.isfinite(each[0])), default=UNKNOWN)


def _crossing(
    at: Times, calls: Times, counts: Times, limit: float, noise: float
) -> tuple[float, float, float]:
    """Return where a quasi-Poisson model of log(share) over log(rate) meets a share.

    The rate of a step is that of the arrivals as they were drawn, because it explains a part of the
    late calls. `noise` is its variance, relative to the rate squared: over a long time, the rate
    varies so much, and the share rises more than it falls.

    Late calls come in groups, one for each long queue, so their variance is larger than that of a
    Poisson distribution, and it grows with the rate. The variance of the line is estimated from its
    residuals (HC3; J. G. MacKinnon, H. White, Journal of Econometrics 29, 1985), and the interval
    of the rate is that of Fieller. NaN if the share does not meet the limit near these rates.
    """
    middle = float(np.log(at).mean())
    x = np.log(at) - middle
    if not np.ptp(x) > 0:
        return UNKNOWN
    design = np.stack([np.ones_like(x), x], axis=1)
    line = np.array([math.log(counts.sum() / calls.sum()), _SLOPE])
    for _ in range(60):
        expected = calls * np.exp(np.clip(design @ line, -30, 3))
        information = design.T @ (design * expected[:, None]) + 1e-9 * np.eye(2)
        change = np.linalg.solve(information, design.T @ (counts - expected))
        line = line + np.clip(change, (-2, -_SLOPE), (2, _SLOPE))
        if np.abs(change).max() < 1e-8:
            break
    level, slope = float(line[0]) + float(line[1]) ** 2 * noise / 2 - math.log(limit), line[1]
    if not slope > 0 or not at.min() / GROW <= math.exp(middle - level / slope) <= at.max() * GROW:
        return UNKNOWN
    inverse = np.linalg.inv(information)
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design) * expected
    residuals = (counts - expected) / np.maximum(1 - leverage, 0.2)
    (v, w), (_, u) = inverse @ (design.T @ (design * residuals[:, None] ** 2)) @ inverse
    t2 = T_95[min(len(at) - 2, len(T_95)) - 1] ** 2
    a, b, c = slope**2 - t2 * u, 2 * (level * slope - t2 * w), level**2 - t2 * v
    ends = [math.nan, math.nan]
    if a > 0 and b * b > 4 * a * c:  # else the slope may be 0: any rate is possible
        ends = [(-b + sign * math.sqrt(b * b - 4 * a * c)) / (2 * a) for sign in (-1, 1)]
    low, high = (math.exp(min(middle + end, 700)) for end in ends)
    return math.exp(middle - level / slope), low, high


def search(
    strategy: Strategy,
    target: Target,
    calls: MethodCalls,
    objective: Objective,
    calibration: Calibration,
    options: RunOptions,
    *,
    fleet: Fleet | None = None,
    step_s: float | None = None,
    search_s: float = SEARCH_S,
    progress: Progress = lambda text: None,
) -> SearchResult:
    """Return the highest rate at which the service meets the objective.

    Each step draws its own seed; with a seed in the options, they count up from it. `seen` is a
    calibration of the same calls. An objective below the time of one call is refused: the result
    has no steps, and its limit says why. The steps last `search_s` seconds together. Each is as
    long as its rate and percentile need, or `step_s` seconds. The errors are those of `load.run`.
    """
    if reason := _no_rate_can_meet(objective, calibration):
        return SearchResult(0.0, 0.0, math.inf, (), reason)
    lengths = Lengths(
        ceiling_per_s=calibration.ceiling_per_s,
        step_s=step_s,
        search_s=search_s,
        random=options.arrivals == "random",
    )
    seeds = itertools.repeat(None) if options.seed is None else itertools.count(options.seed)
    began_s = time.perf_counter()

    def shown(rate_per_s: float, sample: Sample) -> str:
        gone_s = time.perf_counter() - began_s
        return (
            f"search: {gone_s:.0f} of at most about {lengths.whole_s:.0f} s;"
            f" {rate(rate_per_s, 'calls')}, {sample.in_flight:,.0f} in flight"
        )

    def try_at(rate_per_s: float) -> Step:
        lasts_s, settle_s = lengths.of(rate_per_s)
        run = load.run(
            strategy,
            target,
            calls,
            replace(
                options,
                rate_per_s=rate_per_s,
                rates=(),
                calls=None,
                joins=(),
                duration_s=lasts_s,
                seed=next(seeds),
                drain_s=max(2 * objective.latency_s, 2 * calibration.no_queue.value),
            ),
            fleet=fleet,
            on_sample=at_times(progress, lambda sample: shown(rate_per_s, sample)),
        )
        step = step_of(run, objective, settle_s=settle_s)
        step = replace(step, short=lengths.short(rate_per_s, step.calls))
        progress(f"search: {step}")
        return step

    return highest_rate(try_at, lengths, objective)


def _no_rate_can_meet(objective: Objective, calibration: Calibration) -> str:
    """Return why the objective cannot be met even with few calls in flight; empty if it can."""
    if calibration.no_queue.value > objective.latency_s:
        return (
            f"one call alone takes {seconds(calibration.no_queue.value)}, which is more than the"
            f" objective of {seconds(objective.latency_s)}: no rate can meet it"
        )
    if calibration.fails_always > objective.errors:
        return (
            f"{percent(calibration.fails_always)} of the calls fail with few in flight already, and"
            f" {percent(objective.errors)} may fail: no rate can meet it"
        )
    return ""


def step_of(run: Run, objective: Objective, *, settle_s: float | None = None) -> Step:
    """Return the step of an open-loop run: its latency, its errors, and the generator's health.

    The first `settle_s` seconds are left out; without it, a fifth of the run.
    """
    due_s = run.records["due_s"]
    lasted_s = float(run.settings.get("duration_s") or run.window_s)
    random = run.settings.get("arrivals") == "random"
    from_s = SETTLE * due_s.max(initial=0.0) if settle_s is None else settle_s
    settled = replace(run, records=run.records[due_s >= from_s])
    taken_s = latencies_s(settled)
    latency_s = quantile(taken_s, SHARE).value_s
    status = settled.records["status"]
    errors = float((status != OK).mean()) if len(status) else 1.0
    step = Step(
        float(run.settings["rate_per_s"]),
        latency_s,
        errors,
        False,
        calls=len(status),
        late=int((taken_s > objective.latency_s).sum()),
        failed=0 if _cut_only(settled) else int((status != OK).sum()),
        lasted_s=lasted_s,
        arrived_per_s=len(due_s) / lasted_s if random and lasted_s else math.nan,
        seed=run.settings.get("seed"),
    )
    if errors > objective.errors and not _cut_only(settled):
        named = np.bincount(status[status != OK])
        return replace(step, why=f"fails: most with {STATUSES[int(named.argmax())]}")
    if generator := _generator_limit(settled, objective):
        return replace(step, generator=generator)
    if growth := growing(run):
        return replace(step, why=growth, late=step.calls)
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
    edges_s = np.linspace(SETTLE * end_s, end_s, 9)
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
    if frozen := [each for each in findings(run) if each.name == "clock"]:
        return frozen[0].text
    judged = verdict(run)
    _, level = in_flight_steps(records["sent_s"], records["done_s"])
    full = run.in_flight and level.max() >= run.in_flight
    late_s = float(np.quantile(records["sent_s"] - records["due_s"], SHARE))
    if judged.client_cores >= BUSY:
        return f"the load generator used {judged.client_cores:.2f} of a core"
    if late_s > LATE * objective.latency_s and not full:
        return f"the load generator was late: {seconds(late_s)} at p99"
    return ""
