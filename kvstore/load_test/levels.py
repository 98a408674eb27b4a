"""Runs at one level after the other: calls in flight up to the knee, rates up to an objective.

Two figures are taken from the runs: D + Z, the residence time of a call that does not queue, and
the ceiling, the throughput that more calls in flight do not raise. The bounds of a closed loop
follow from these two (see `model.bounds`), and so does the knee N* = (D + Z) * ceiling.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import grpc
import numpy as np

from kvstore.client import load
from kvstore.client.channel import DROPPED, NOT_REACHED, Target
from kvstore.client.errors import ServerNotReached
from kvstore.client.fleet import Fleet
from kvstore.client.options import RunOptions
from kvstore.client.strategies import Strategy, bounded, supports
from kvstore.client.workload import MethodCalls, MethodOperations
from kvstore.measure import Run, during, latencies_s, quantile, verdict
from kvstore.measure.audit import in_flight_steps
from kvstore.measure.cpu_cost import BUSY, FULL
from kvstore.model import Prediction, Station, bounds
from kvstore.protocol import OK

STEP_S: Final = 0.8
"""Seconds of each run."""
HELD: Final = 3
"""The level with the highest throughput is run again for so many times as long."""
SETTLE: Final = 0.25
"""Share of each run that is left out, because connections and caches warm up in it."""
GAIN: Final = 1.05
"""The ceiling is reached when twice the calls in flight bring less than this factor, twice."""
MOST_IN_FLIGHT, BEYOND = 1024, 32
"""A level has at most so many calls in flight, and at most so many times those of the knee."""
SHARED: Final = 0.75
"""If client and server together use this share of all cores, they wait for each other's. They do
not reach all of it: a message passes from thread to thread, and each has to be woken."""
OTHERS: Final = 0.3
"""Cores. Other programs that use more than this may be what limits the throughput."""

Progress = Callable[[str], object]
"""A function that is called with a line of text as the work goes on."""


class FirstCallFailed(RuntimeError):
    """The first call to the service did not end as OK, so a load test makes no sense."""


@dataclass(frozen=True, slots=True)
class Level:
    """A short run with `in_flight` calls in flight."""

    in_flight: int
    throughput_per_s: float
    """X: calls that ended per second, with any status."""
    residence_s: float
    """R: mean seconds from sending a call to its end."""
    generator_cores: float
    """Cores that the generator's serial part used; NaN if unknown."""
    server_cores: float
    """Cores that the server used; NaN if its process cannot be observed."""
    all_cores: float = field(default=math.nan, compare=False)
    """Cores that all threads of the generator and the server used; NaN if one is unknown."""
    other_cores: float = field(default=math.nan, compare=False)
    """Cores that other programs on this machine used."""

    @classmethod
    def of(cls, run: Run) -> "Level":
        """Return the level of a run, without its first part."""
        last_sent_s = float(run.records["sent_s"].max(initial=0.0))
        steady = during(run, SETTLE * last_sent_s, max(last_sent_s, 1e-9))
        judged = verdict(run)
        return cls(
            run.in_flight,
            steady.answered_per_s,
            steady.residence_mean_s,
            judged.client_cores,
            run.server_cpu.total_s / run.window_s if run.window_s else math.nan,
            (run.client_cpu.total_s + run.server_cpu.total_s) / (run.window_s or math.nan),
            judged.other_cores,
        )


@dataclass(frozen=True)
class Calibration:
    """What the short runs showed, before the run that counts."""

    levels: Sequence[Level]
    cores: int
    """Cores of the machine of the load generator."""
    held: Level | None = None
    """The level with the highest throughput, run again for longer; None if it was not."""

    @property
    def ceiling_per_s(self) -> float:
        """The throughput of the longer run, or the highest of all levels, in calls per second."""
        return self._top.throughput_per_s

    @property
    def no_queue_s(self) -> float:
        """R without a queue: the shortest mean residence time of all levels, in seconds.

        It is not always the time of a single call in flight. Between two calls, a core may fall
        asleep, and it takes time to wake up.
        """
        return min(level.residence_s for level in self.levels)

    @property
    def cycle_s(self) -> float:
        """D + Z: the shortest time from one call to the next, N / X, of all levels, in seconds.

        It is longer than a call, by what the client needs between two of them.
        """
        rates = [(each.in_flight, each.throughput_per_s) for each in self.levels]
        return min((n / x for n, x in rates if x), default=math.nan)

    def residence_bound_s(self, in_flight: float) -> float:
        """Return max(D, N D_max - Z), the lower bound on R with N calls in flight, in seconds."""
        think_s = max(0.0, self.cycle_s - self.no_queue_s)
        return max(self.no_queue_s, in_flight / self.ceiling_per_s - think_s)

    @property
    def stations(self) -> list[Station]:
        """The bottleneck, with one server, and the rest of the time of a call as a delay."""
        demand_s = 1 / self.ceiling_per_s
        rest_s = max(0.0, self.cycle_s - demand_s)
        return [Station(self.bottleneck, demand_s), Station("the rest", rest_s, math.inf)]

    @property
    def knee(self) -> float:
        """N*: beyond this many calls in flight, throughput stops growing."""
        return max(1.0, bounds.knee(self.stations))

    @property
    def bottleneck(self) -> str:
        """What limits the throughput, as far as processor time shows it."""
        top = self._top
        if top.generator_cores >= BUSY:
            return "the load generator"
        if top.all_cores >= SHARED * self.cores:
            return "a processor that client and server share"
        if top.server_cores >= FULL * self.cores:
            return "the server's processor"
        server_cores = 0.0 if math.isnan(top.server_cores) else top.server_cores
        busy = top.generator_cores + server_cores + top.other_cores
        if top.other_cores > OTHERS and busy >= FULL * self.cores:
            return "a processor that other programs use too"
        if math.isnan(top.server_cores):
            return "the server or its back end"
        return "a pool, a lock or a disk"

    def closed_loop(self, in_flight: int) -> Prediction:
        """Return the predicted throughput with this many calls in flight, with its reason."""
        return bounds.closed_loop(in_flight, self.stations)

    def open_loop(self, rate_per_s: float) -> Prediction:
        """Return the predicted throughput at this arrival rate, with its reason."""
        used = rate_per_s / self.ceiling_per_s
        if used < 1:
            return Prediction(
                rate_per_s,
                "calls/s",
                f"the arrival rate is {used:.0%} of the ceiling of {self.ceiling_per_s:,.4g}"
                f" calls/s; about {rate_per_s * self.no_queue_s:,.3g} calls in flight, L = X * R",
                "arrivals",
            )
        return Prediction(
            self.ceiling_per_s,
            "calls/s",
            f"the arrival rate is {used:.0%} of the ceiling: the queue grows by"
            f" {rate_per_s - self.ceiling_per_s:,.4g} calls in each second",
            self.bottleneck,
        )

    @property
    def _top(self) -> Level:
        return self.held or max(self.levels, key=lambda level: level.throughput_per_s)


def calibrate(
    strategy: Strategy,
    target: Target,
    calls: MethodCalls,
    options: RunOptions | None = None,
    *,
    fleet: Fleet | None = None,
    step_s: float = STEP_S,
    progress: Progress = lambda text: None,
    **settings: Any,
) -> Calibration:
    """Double the calls in flight until the throughput stops growing; return what was seen.

    A level that brings no gain is run again, and the better of its runs counts: other programs can
    only lower a throughput. At the end, the best level is run for longer, and sets the ceiling.
    The last level has at most 32 times the calls in flight of the knee: a server that is short of
    CPU time gains for long, because it handles several calls at a time.

    A strategy without a limit in flight is replaced by `bounded`, which has one. `settings` are
    those of `load.run`. A `fleet` makes the levels that have a call for each of its workers.
    Raises `FirstCallFailed`, and what `load.run` raises.
    """
    options = RunOptions.of(strategy, options, settings)
    if not supports(strategy).limit:
        strategy = bounded
    first_call(target, calls, options)
    cores = 1

    def level(in_flight: int, seconds: float) -> Level:
        nonlocal cores
        run = load.run(
            strategy,
            target,
            calls,
            replace(
                options, in_flight=in_flight, duration_s=seconds, rate_per_s=None, calls=None,
                joins=(), connections=min(options.connections, in_flight),
            ),
            fleet=fleet if fleet is not None and in_flight >= (fleet.workers or 2) else None,
        )  # fmt: skip
        cores = int(run.host["cores"])
        seen = Level.of(run)
        progress(said(seen))
        return seen

    levels: list[Level] = []
    flat = 0
    in_flight, most = 1, float(MOST_IN_FLIGHT)
    while flat < 2 and in_flight <= most:
        best = max((each.throughput_per_s for each in levels), default=0.0)
        seen = level(in_flight, step_s)
        if seen.throughput_per_s < GAIN * best:  # or was it a pause of the machine?
            seen = max(seen, level(in_flight, step_s), key=lambda each: each.throughput_per_s)
        flat = flat + 1 if seen.throughput_per_s < GAIN * best else 0
        levels.append(seen)
        in_flight *= 2
        most = min(MOST_IN_FLIGHT, BEYOND * Calibration(levels, cores).knee)
    top = max(levels, key=lambda each: each.throughput_per_s)
    return Calibration(levels, cores, level(top.in_flight, HELD * step_s))


def said(level: Level) -> str:
    """Return the line that reports a level. On a busy machine none of its calls may have ended."""
    begin = f"calibration: {level.in_flight} in flight, {level.throughput_per_s:,.0f} calls/s"
    if math.isnan(level.residence_s):
        return f"{begin}, no call ended in the short run"
    return f"{begin}, {1e3 * level.residence_s:,.3g} ms"


def first_call(target: Target, calls: MethodCalls, options: RunOptions) -> None:
    """Make one call. Raises `FirstCallFailed` with the reason when it does not end as OK."""
    operations = MethodOperations(calls)
    metadata = tuple(options.metadata.items()) or None
    with target.channel() as channel:
        method = getattr(channel, calls.shape)(f"/{calls.method}")
        operation = operations.draw()
        request: Any = iter(operation.request) if calls.sends_stream else operation.request
        try:
            replies = method(
                request, timeout=options.deadline_s, metadata=metadata, wait_for_ready=False
            )
            if calls.shape.endswith("_stream"):
                for _ in replies:
                    pass
        except grpc.RpcError as error:
            raise _explained(error, target, calls, options) from None


def _explained(
    error: grpc.RpcError, target: Target, calls: MethodCalls, options: RunOptions
) -> Exception:
    code = error.code()
    said = f"{code.name}: {error.details() or 'no details'}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return FirstCallFailed(
            f"the first call of {calls.method} did not end within its deadline of"
            f" {options.deadline_s:g} s: give a longer one with --deadline-s"
        )
    if code in NOT_REACHED:
        return ServerNotReached(f"the server at {target.address} does not answer ({said})")
    token = "give the token that it requires with --token FILE, or with --metadata"
    hint = {
        grpc.StatusCode.UNIMPLEMENTED: "the server does not have this method",
        grpc.StatusCode.UNAUTHENTICATED: token,
        grpc.StatusCode.PERMISSION_DENIED: token,
        DROPPED: "repeat this when the server is idle: it drops calls while too many wait for it, "
        "those whose deadline has passed among them",
    }.get(code, "correct the request; a load of failing calls measures the failure")
    return FirstCallFailed(f"the first call of {calls.method} ended with {said}. Next: {hint}")


# ---- search of a rate ---------------------------------------------------------------------------
# Search for the highest arrival rate that meets an objective, by open-loop steps.
#
# A step is one run at a constant rate. Its latency is measured from the due times. A step counts
# only if the load generator kept its due times: otherwise it says nothing about the service.


RATE_STEP_S: Final = 3.0
"""Seconds of each step."""
RATE_SETTLE: Final = 0.2
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
    step_s: float = RATE_STEP_S,
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
    settled = replace_records(run, due_s >= RATE_SETTLE * float(due_s.max(initial=0.0)))
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
