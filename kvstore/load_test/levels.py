"""Runs with more and more calls in flight: the ceiling of a service, its knee and a prediction.

Two figures are taken from the runs: D + Z, the time of a call that does not queue, and the ceiling,
the throughput that more calls in flight do not raise. The bounds of a closed loop follow from these
two (see `model.bounds`), and so does the knee N* = (D + Z) * ceiling. Throughput is that of calls
that end OK: a call that the service refuses is no work that was done.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from kvstore.client import load
from kvstore.client.channel import Target
from kvstore.client.fleet import Fleet
from kvstore.client.plan import RunOptions
from kvstore.client.strategies import Strategy, bounded, supports
from kvstore.client.workload import MethodCalls
from kvstore.load_test import bottleneck
from kvstore.load_test.bottleneck import Cores, Limit
from kvstore.load_test.estimates import FEWEST, Estimate, Level, failures, steady_part
from kvstore.load_test.first_call import FirstCall, Progress, at_times, first_call, with_an_end
from kvstore.measure import Run, verdict
from kvstore.measure.recorder import Sample
from kvstore.model import Prediction, Station, bounds
from kvstore.numbers import number, percent, rate, seconds

STEP_S: Final = 0.8
"""Seconds of each run, at least. A run lasts several calls of the service."""
ROUNDS: Final = 3
"""A run lasts at least so many calls without a queue, after the first round."""
HELD: Final = 3
"""The level with the highest throughput is run again for so many times as long."""
HELD_S: Final = 5.0
"""Seconds. A level that lasts longer is not run again if its interval is narrow."""
NARROW: Final = 0.025
"""Half the width of an interval, relative to its figure, that is narrow enough."""
SETTLE: Final = 0.25
"""Share of each run that is left out, because connections and caches warm up in it;
at most `SETTLE_S`."""
SETTLE_S: Final = 0.3
GAIN: Final = 1.05
"""The ceiling is reached when twice the calls in flight bring less than this factor, twice."""
MOST_IN_FLIGHT, BEYOND = 1024, 32
"""A level has at most so many calls in flight, and at most so many times those of the knee."""
LONGEST_S: Final = 60.0
"""Seconds of one level at most."""
ERRORS: Final = 0.001
"""Share of the calls that may fail at a level."""
ERROR, CPU_ERROR = 0.03, 0.12
"""How far a further run may be off besides, relative: where delays decide, and where a processor
does."""
A_CORE: Final = 0.6
"""Cores. A process that uses more is short of CPU time now and then."""


class NothingSucceeded(RuntimeError):
    """No call ended OK at any level, so there is no ceiling."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What the short runs showed, before the run that counts."""

    levels: Sequence[Level]
    machine_cores: int
    """Cores of the machine of the load generator."""
    held: Level | None = None
    """The level with the highest throughput, run again for longer; None if it was not."""
    saturated: bool = True
    """Whether more calls in flight brought no more throughput; else the ceiling is a lower
    limit."""
    errors: float = ERRORS
    """Share of the calls that may fail."""

    @property
    def ceiling(self) -> Estimate:
        """The highest throughput of all levels, in calls per second that end OK."""
        return self.top.throughput

    @property
    def ceiling_per_s(self) -> float:
        """X at the ceiling, in calls per second."""
        return self.ceiling.value

    @property
    def no_queue(self) -> Estimate:
        """R without a queue: the shortest mean residence time of all levels, in seconds.

        It is not always the time of a single call in flight. Between two calls, a core may fall
        asleep, and it takes time to wake up.
        """
        return min((each.residence for each in self._answered), key=lambda each: each.value)

    @property
    def cycle(self) -> Estimate:
        """D + Z: the shortest time from one call of a caller to its next one, in seconds.

        It is longer than a call, by what the client needs between two of them.
        """
        shortest = min(self._answered, key=lambda each: each.residence_s + each.gap_s)
        return Estimate.within(shortest.residence_s + shortest.gap_s, shortest.residence.relative)

    @property
    def knee_estimate(self) -> Estimate:
        """N* = (D + Z) * ceiling, with its interval."""
        value, low, high = self.cycle.times(self.ceiling)
        return Estimate(max(1.0, value), max(1.0, low), max(1.0, high))

    @property
    def knee(self) -> float:
        """N*: beyond this many calls in flight, throughput stops growing."""
        return max(1.0, bounds.knee(self.stations))

    def residence_bound_s(self, in_flight: float) -> float:
        """Return max(D, N D_max - Z), the lower bound on R with N calls in flight, in seconds."""
        think_s = max(0.0, self.cycle.value - self.no_queue.value)
        return max(self.no_queue.value, in_flight / self.ceiling_per_s - think_s)

    @property
    def stations(self) -> list[Station]:
        """The bottleneck, with one server, and the rest of the time of a call as a delay."""
        demand_s = 1 / self.ceiling_per_s
        rest_s = max(0.0, self.cycle.value - demand_s)
        name = self.bottleneck if self.limit.known else "the bottleneck"
        return [Station(name, demand_s), Station("the rest", rest_s, math.inf)]

    @property
    def limit(self) -> Limit:
        """What sets the ceiling, with the evidence for it."""
        first = self.fails_from
        refuses = f"{failures(first.statuses)}; {self.failures_begin}" if first else ""
        return bottleneck.limit_of(
            self.top.cores,
            self.machine_cores,
            self.knee_estimate.value,
            refuses=refuses,
        )

    @property
    def bottleneck(self) -> str:
        """What sets the ceiling, in a few words."""
        return self.limit.name

    @property
    def fails_from(self) -> Level | None:
        """The first level at which more calls fail than may, and more than with fewer in flight."""
        before, ended = 0, 0
        held = [self.held] if self.held else []
        for each in sorted([*self.levels, *held], key=lambda each: each.in_flight):
            failed = round(each.failed * each.ended) if each.ended else 0
            usual = max(self.errors, _at_most(before, ended))
            more = failed - each.ended * usual
            if ended and more > math.sqrt(each.ended * usual * (1 - usual)) + 1:
                return each
            before, ended = before + failed, ended + each.ended
        return None

    @property
    def fails_always(self) -> float:
        """Share of the calls that fail with few calls in flight, if it is more than may fail."""
        first = self.fails_from
        few = [each for each in self.levels if first is None or each.in_flight < first.in_flight]
        ended = sum(each.ended for each in few)
        share = sum(each.failed * each.ended for each in few if each.ended) / ended if ended else 0
        return share if share > self.errors else 0.0

    def closed_loop(self, in_flight: int) -> Prediction:
        """Return the predicted throughput with this many calls in flight, with its reason."""
        first = self.fails_from
        if first is None or in_flight < first.in_flight:
            bound = bounds.closed_loop(in_flight, self.stations)
            queueing = bounds.exact_closed_loop(in_flight, self.stations).value
            return replace(bound, interval=self._interval(queueing, bound.value))
        failing = [each for each in self._answered if each.in_flight >= first.in_flight]
        at = [math.log(each.in_flight) for each in failing]
        per_s = float(
            np.interp(math.log(in_flight), at, [each.throughput_per_s for each in failing])
        )
        return Prediction(
            min(per_s, self.ceiling_per_s),
            "calls/s",
            f"from {first.in_flight} calls in flight on, the service fails calls"
            f" ({failures(first.statuses)}): this is what ended OK at the levels around",
            self.bottleneck,
            self._interval(per_s, per_s),
        )

    def _interval(self, low_per_s: float, high_per_s: float) -> tuple[float, float]:
        """Return the interval of a throughput between two models, for 90 % of the runs.

        If the service time of a call is constant, the bound is reached. If it is exponential, calls
        queue before they reach it. Another run differs by the interval of the ceiling, twice.
        """
        processor = max(self.top.cores.generator, self.top.cores.server) >= A_CORE
        error = CPU_ERROR if processor else ERROR
        known = self.ceiling.relative if math.isfinite(self.ceiling.relative) else 0.0
        half = math.hypot(error, math.sqrt(2) * known)
        return low_per_s / (1 + half), high_per_s * (1 + half)

    def open_loop(self, rate_per_s: float) -> Prediction:
        """Return the predicted throughput at this arrival rate, with its reason."""
        used = rate_per_s / self.ceiling_per_s
        if used < 1:
            return Prediction(
                rate_per_s * (1 - self.fails_always),
                "calls/s",
                f"the arrival rate is {percent(used)} of the ceiling of"
                f" {rate(self.ceiling_per_s, 'calls')}; about"
                f" {number(rate_per_s * self.no_queue.value)} calls in flight, L = X * R",
                "arrivals",
            )
        return Prediction(
            self.ceiling_per_s,
            "calls/s",
            f"the arrival rate is {percent(used)} of the ceiling: the queue grows by"
            f" {number(rate_per_s - self.ceiling_per_s)} calls in each second",
            self.bottleneck,
        )

    @property
    def top(self) -> Level:
        """The level with the highest throughput, from its longer run if there is one.

        Levels at which more calls fail than may do not count: they are beyond what the service can
        do. If every level is one of them, the best one is what is known.
        """
        first = self.fails_from
        if self.held is not None and not (first and self.held.in_flight >= first.in_flight):
            return self.held
        good = [each for each in self.levels if not first or each.in_flight < first.in_flight]
        return max(
            [each for each in good if each.throughput_per_s > 0] or self._answered, key=_throughput
        )

    @property
    def _answered(self) -> Sequence[Level]:
        """The levels at which calls ended OK."""
        every = [*self.levels, *([self.held] if self.held else [])]
        return [each for each in every if each.throughput_per_s > 0]

    @property
    def failures_begin(self) -> str:
        """With how many calls in flight, and at which throughput, the first calls fail; or ""."""
        first = self.fails_from
        if first is None:
            return ""
        before = [each for each in self._answered if each.in_flight < first.in_flight]
        at = f", the first at {rate(before[-1].throughput_per_s)}" if before else ""
        return f"failures begin with {first.in_flight} in flight{at}"

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name, for JSON."""
        return {
            "knee": self.knee,
            "knee_95": list(self.knee_estimate[1:]),
            "ceiling_per_s": self.ceiling_per_s,
            "ceiling_95": list(self.ceiling[1:]),
            "saturated": self.saturated,
            "no_queue_s": self.no_queue.value,
            "no_queue_95": list(self.no_queue[1:]),
            "cycle_s": self.cycle.value,
            "cycle_95": list(self.cycle[1:]),
            "bottleneck": self.bottleneck,
            "limit": {**self.limit._asdict(), "known": self.limit.known},
            "levels": [each.as_dict() for each in self.levels],
            "held": self.held.as_dict() if self.held else None,
        }


def calibrate(
    strategy: Strategy,
    target: Target,
    calls: MethodCalls,
    options: RunOptions,
    *,
    fleet: Fleet | None = None,
    step_s: float = STEP_S,
    errors: float = ERRORS,
    first: FirstCall | None = None,
    progress: Progress = lambda text: None,
) -> Calibration:
    """Double the calls in flight until the throughput stops growing; return what was seen.

    A level lasts `step_s` seconds, and longer for a service whose calls take long: at least
    `ROUNDS` calls one after the other. `progress` gets a line with the expected time first, then a
    line for each level and at least every two seconds.

    A level that brings no gain is run again, and the better of its runs counts: other programs can
    only lower a throughput. At the end, the best level is run for longer, and sets the ceiling.
    Levels that last long and whose intervals are narrow are run once. The last level has at most 32
    times the calls in flight of the knee: a server that is short of CPU time gains for long,
    because it handles several calls at a time. `errors` is the share of the calls that may fail.
    Where more calls fail, the levels between the last good one and this one are run too.

    A strategy without a limit in flight is replaced by `bounded`, which has one. A `fleet` makes
    the levels that have a call for each of its workers. `first` is the result of `first_call`, if
    it was made. Raises `FirstCallFailed`, `NothingSucceeded`, and what `load.run` raises.
    """
    if not supports(strategy).limit:
        strategy = bounded
    first = first or first_call(target, calls, options, progress)
    runs = _Levels(
        strategy,
        target,
        with_an_end(calls, first),
        options,
        fleet,
        step_s,
        progress,
        first.took_s,
    )
    progress(runs.expected())
    levels: list[Level] = []
    flat = 0
    in_flight, most = 1, float(MOST_IN_FLIGHT)
    while flat < 2 and in_flight <= most:
        best = max(map(_throughput, levels), default=0.0)
        level = runs.level(in_flight, best)
        flat_once = not level.throughput.value >= GAIN * best
        if _fails(levels, level, errors):
            flat_once = True
        elif flat_once and not _certain(level):  # or was it a pause of the machine?
            level = max(level, runs.level(in_flight, best), key=_throughput)
            flat_once = not level.throughput.value >= GAIN * best
        flat = (2 if _certain(level) else flat + 1) if flat_once else 0
        levels.append(level)
        in_flight *= 2
        if any(each.throughput.value > 0 for each in levels):
            so_far = Calibration(levels=levels, machine_cores=runs.cores)
            most = min(MOST_IN_FLIGHT, BEYOND * so_far.knee)
    if not any(each.throughput.value > 0 for each in levels):
        ended = ", ".join(failures(each.statuses) for each in levels if each.ended)
        raise NothingSucceeded(f"no call ended OK at any level: {ended or 'none ended'}")
    so_far = Calibration(levels=levels, machine_cores=runs.cores, errors=errors)
    while (between := _between(so_far)) is not None:
        levels.append(runs.level(between, so_far.ceiling_per_s))
        levels.sort(key=lambda each: each.in_flight)
        so_far = replace(so_far, levels=levels)
    top = so_far.top
    return replace(
        so_far,
        held=None if _certain(top) else runs.level(top.in_flight, top.throughput.value, HELD),
        saturated=flat >= 2,
    )


def _at_most(failed: int, ended: int) -> float:
    """Return the upper end of the 95 % interval of a share that was seen.

    No failure of 7 calls may be a share of 0.4. The interval is that of Agresti and Coull (1998).
    """
    share = (failed + 2) / (ended + 4)
    return share + 2 * math.sqrt(share * (1 - share) / (ended + 4))


def _fails(before: Sequence[Level], level: Level, errors: float) -> bool:
    """Return whether more calls fail from this level on, or from an earlier one."""
    known = Calibration(levels=[*before, level], machine_cores=1, errors=errors)
    return known.fails_from is not None


def _throughput(level: Level) -> float:
    return level.throughput.value if level.throughput.value > 0 else 0.0


def _certain(level: Level) -> bool:
    """Return whether a level lasted long and its throughput is known well."""
    return level.lasted_s > HELD_S and level.throughput.relative <= NARROW


def _between(calibration: Calibration) -> int | None:
    """Return the number in flight between the last level without failures and the first with them.

    None if there is no such level. Failures may begin between two levels, below the ceiling.
    """
    first = calibration.fails_from
    if first is None:
        return None
    below = [each.in_flight for each in calibration.levels if each.in_flight < first.in_flight]
    if not below or first.in_flight - below[-1] < 2:
        return None
    return (below[-1] + first.in_flight) // 2


@dataclass
class _Levels:
    """Makes the runs of a calibration, each as long as this service needs."""

    strategy: Strategy
    target: Target
    calls: MethodCalls
    options: RunOptions
    fleet: Fleet | None
    step_s: float
    progress: Progress
    shortest_s: float
    """The time of a call without a queue, as far as it is known, in seconds."""
    cores: int = 1

    def expected(self) -> str:
        """Return a line with the time that the calibration will take."""
        one_s = max(self.step_s, (2 + ROUNDS) * self.shortest_s)
        return (
            f"calibration: a call takes about {seconds(self.shortest_s)}. Each level lasts"
            f" {seconds(one_s)} or more, so expect {5 * one_s:,.0f} to {12 * one_s:,.0f} s"
        )

    def level(self, in_flight: int, best_per_s: float, longer: float = 1.0) -> Level:
        """Make a level. It is made again and longer if it did not reach a steady state."""
        lasting_s = self._seconds(in_flight, best_per_s, longer)
        level = self._run(in_flight, lasting_s)
        if not level.steady and lasting_s < LONGEST_S:
            slower = max(2.0, (1 + FEWEST) / level.rounds) if level.rounds else 2.0 * FEWEST
            level = self._run(in_flight, min(LONGEST_S, slower * lasting_s))
        if level.residence.value > 0:
            self.shortest_s = min(self.shortest_s or math.inf, level.residence.value)
        return level

    def _seconds(self, in_flight: int, best_per_s: float, longer: float) -> float:
        queued_s = in_flight / best_per_s if best_per_s > 0 else 0.0
        round_s = max(self.shortest_s, queued_s)
        rounds = max(FEWEST, math.ceil(ROUNDS * self.shortest_s / round_s) if round_s else FEWEST)
        needed_s = min(LONGEST_S, 1.03 * (1 + rounds) * round_s + SETTLE_S)
        return max(longer * self.step_s, needed_s if needed_s > self.step_s else 0.0)

    def _run(self, in_flight: int, lasting_s: float) -> Level:
        def shown(sample: Sample) -> str:
            return (
                f"calibration: {in_flight} in flight, {sample.elapsed_s:.1f} of {lasting_s:.1f} s,"
                f" {sample.answered:,.0f} ended"
            )

        fleet, options = self.fleet, self.options
        least = getattr(fleet, "workers", None) or 2
        pids = bottleneck.server_pids(self.target)
        before = bottleneck.thread_times_s(pids)
        run = load.run(
            self.strategy,
            self.target,
            self.calls,
            replace(
                options,
                in_flight=in_flight,
                duration_s=lasting_s,
                rate_per_s=None,
                rates=(),
                calls=None,
                joins=(),
                connections=min(options.connections, in_flight),
                drain_s=options.deadline_s,
            ),
            fleet=fleet if fleet is not None and in_flight >= least else None,
            on_sample=at_times(self.progress, shown),
        )
        thread_s = bottleneck.busiest_thread_s(before, bottleneck.thread_times_s(pids))
        self.cores = int(run.host["cores"])
        level = level_of(run, thread_s)
        self.progress(level_line(level))
        return level


def level_of(run: Run, server_thread_s: float = math.nan) -> Level:
    """Return the level of a closed loop, without its first part."""
    until_s = float(run.records["sent_s"].max(initial=0.0))
    steady = steady_part(
        run.records,
        run.in_flight,
        min(SETTLE * until_s, SETTLE_S),
        float(run.settings.get("duration_s") or until_s),
    )
    return replace(steady, cores=_cores(run, until_s, server_thread_s), lasted_s=run.window_s)


def _cores(run: Run, sending_s: float, server_thread_s: float) -> Cores:
    """Return the processor time while calls were sent: afterwards the run only waits."""
    if not sending_s:
        return Cores()
    judged = verdict(run)
    most = float(run.host["cores"])  # the clock of CPU time has ticks
    used = (
        judged.client_cores * run.window_s / sending_s,
        run.client_cpu.total_s / sending_s,
        run.server_cpu.total_s / sending_s,
        server_thread_s / sending_s,
        judged.other_cores,
    )
    return Cores(*(float(np.minimum(each, most)) for each in used))


def level_line(level: Level) -> str:
    """Return the line that reports a level. On a busy machine none of its calls may have ended."""
    begin = f"calibration: {level.in_flight} in flight"
    if not level.ended:
        return f"{begin}, no call ended in the run"
    failed = f", failed: {failures(level.statuses)}" if level.failed else ""
    if not level.throughput.value > 0:
        return f"{begin}, too few calls ended OK{failed}"
    end = "" if level.steady else ", not steady"
    return (
        f"{begin}, {rate(level.throughput_per_s, 'calls')}, {seconds(level.residence_s)}, X·R/N"
        f" {level.little:.2f}{failed}{end}"
    )
