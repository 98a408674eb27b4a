"""Short runs with more and more calls in flight, and the prediction that follows from them.

Two figures are taken from the runs: D + Z, the residence time of a call that does not queue, and
the ceiling, the throughput that more calls in flight do not raise. The bounds of a closed loop
follow from these two (see `model.bounds`), and so does the knee N* = (D + Z) * ceiling.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import grpc

from kvstore.client import load
from kvstore.client.channel import NOT_REACHED, Target
from kvstore.client.errors import ServerNotReached
from kvstore.client.fleet import Fleet
from kvstore.client.method_calls import MethodCalls, MethodOperations
from kvstore.client.options import RunOptions
from kvstore.client.strategies import Strategy, bounded, supports
from kvstore.measure import Run, during, verdict
from kvstore.measure.cpu_cost import BUSY, FULL
from kvstore.model import Prediction, Station, bounds

STEP_S: Final = 0.8
"""Seconds of each run."""
SETTLE: Final = 0.25
"""Share of each run that is left out, because connections and caches warm up in it."""
GAIN: Final = 1.05
"""The ceiling is reached when twice the calls in flight bring less than this factor, twice."""
MOST_IN_FLIGHT: Final = 1024
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
            judged.other_cores,
        )


@dataclass(frozen=True)
class Calibration:
    """What the short runs showed, before the run that counts."""

    levels: Sequence[Level]
    cores: int
    """Cores of the machine of the load generator."""

    @property
    def ceiling_per_s(self) -> float:
        """The highest throughput of all levels, in calls per second."""
        return self._top.throughput_per_s

    @property
    def no_queue_s(self) -> float:
        """D + Z: the shortest mean residence time of all levels, in seconds.

        It is not always the time of a single call in flight. Between two calls, a core may fall
        asleep, and it takes time to wake up.
        """
        return min(level.residence_s for level in self.levels)

    @property
    def stations(self) -> list[Station]:
        """The bottleneck, with one server, and the rest of the time of a call as a delay."""
        demand_s = 1 / self.ceiling_per_s
        rest_s = max(0.0, self.no_queue_s - demand_s)
        return [Station(self.bottleneck, demand_s), Station("the rest", rest_s, math.inf)]

    @property
    def knee(self) -> float:
        """N*: beyond this many calls in flight, throughput stops growing."""
        return max(1.0, bounds.knee(self.stations))

    @property
    def bottleneck(self) -> str:
        """What limits the throughput, as far as processor time shows it."""
        top = self._top
        both = top.generator_cores + top.server_cores
        if top.generator_cores >= BUSY:
            return "the load generator"
        if both >= FULL * self.cores:
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
        return max(self.levels, key=lambda level: level.throughput_per_s)


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
    only lower a throughput. The last level has at most 16 times the calls in flight of the knee.

    A strategy without a limit in flight is replaced by `bounded`, which has one. `settings` are
    those of `load.run`. A `fleet` makes the levels that have a call for each of its workers.
    Raises `FirstCallFailed`, and what `load.run` raises.
    """
    options = RunOptions.of(strategy, options, settings)
    if not supports(strategy).limit:
        strategy = bounded
    first_call(target, calls, options)
    cores = 1

    def level(in_flight: int) -> Level:
        nonlocal cores
        run = load.run(
            strategy,
            target,
            calls,
            replace(
                options, in_flight=in_flight, duration_s=step_s, rate_per_s=None, calls=None,
                joins=(), connections=min(options.connections, in_flight),
            ),
            fleet=fleet if fleet is not None and in_flight >= (fleet.workers or 2) else None,
        )  # fmt: skip
        cores = int(run.host["cores"])
        seen = Level.of(run)
        progress(
            f"calibration: {in_flight} in flight, {seen.throughput_per_s:,.0f} calls/s,"
            f" {1e3 * seen.residence_s:,.3g} ms"
        )
        return seen

    levels: list[Level] = []
    flat = 0
    in_flight, most = 1, float(MOST_IN_FLIGHT)
    while flat < 2 and in_flight <= most:
        best = max((each.throughput_per_s for each in levels), default=0.0)
        seen = level(in_flight)
        if seen.throughput_per_s < GAIN * best:  # or was it a pause of the machine?
            seen = max(seen, level(in_flight), key=lambda each: each.throughput_per_s)
        flat = flat + 1 if seen.throughput_per_s < GAIN * best else 0
        levels.append(seen)
        in_flight *= 2
        most = min(MOST_IN_FLIGHT, 16 * Calibration(levels, cores).knee)
    return Calibration(levels, cores)


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
    }.get(code, "correct the request; a load of failing calls measures the failure")
    return FirstCallFailed(f"the first call of {calls.method} ended with {said}. Next: {hint}")
