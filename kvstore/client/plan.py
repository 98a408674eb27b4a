"""The plan of a run: its strategy, server, workload and options, checked together once.

Where several generators make one run, each has a `Part` of it.
"""

import difflib
import math
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from kvstore.client import pacing
from kvstore.client.channel import Target, target_of
from kvstore.client.connections import Choose
from kvstore.client.strategies import Strategy, Supports, blocking, supports, tasks, threads
from kvstore.client.workload import MethodCalls, Workload
from kvstore.flags import setting
from kvstore.measure.recorder import MOST_OPERATIONS
from kvstore.protocol import generator_of

ARRIVALS = ("even", "random")
MOST_SEED = 1_000_000_000
"""Seeds are drawn below this number: short enough to be typed again."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to make a run: the calls in flight, the duration, the connections.

    Raises `ValueError` for a value that makes no sense.
    """

    in_flight: int = setting(1, "limit of calls in flight")
    connections: int = setting(1, "connections, which share the calls in flight evenly")
    streams: int = setting(1, "streams, which share the requests in flight evenly")
    batch: int = setting(1, "operations in each request of a stream")
    duration_s: float | None = setting(None, "seconds after which nothing more is sent")
    calls: int | None = setting(None, "operations after which nothing more is sent")
    rate_per_s: float | None = setting(None, "constant arrival rate: an open loop")
    rates: tuple[tuple[float, float], ...] = setting(
        (), "an open loop in steps: [calls/s, seconds] of each"
    )
    arrivals: str = setting(
        "even", "gaps between arrivals: even, or random as between users", choices=ARRIVALS
    )
    seed: int | None = setting(None, "seed of random arrivals; without it, each run draws its own")
    joins: tuple[float, ...] = setting((), "when each caller starts, in seconds, in order")
    deadline_s: float = setting(30.0, "time limit of each call, in seconds")
    drain_s: float | None = setting(
        None, "seconds after duration_s until open calls are cut off; without it they may end"
    )
    keep_going: bool = setting(False, "go on while the server is away")
    memory_ceiling_bytes: float = setting(
        math.inf, "end the run when client or server uses this much memory"
    )
    sample_interval_s: float = setting(0.1, "seconds between two samples")
    service_config: Mapping[str, Any] = setting(
        {}, "gRPC's service config for the calls, such as a retryPolicy"
    )

    def __post_init__(self) -> None:
        for name in ("in_flight", "connections", "streams", "batch"):
            _check_count(name, getattr(self, name))
        for name in ("duration_s", "calls", "rate_per_s", "deadline_s", "sample_interval_s"):
            value = getattr(self, name)
            if value is None and name in ("duration_s", "calls", "rate_per_s"):
                continue
            if not (_is_number(value) and value > 0):
                unit = " seconds" if name.endswith("_s") and name != "rate_per_s" else ""
                raise ValueError(f"{name} must be above 0{unit}, got {value!r}")
        if self.rate_per_s == math.inf:
            raise ValueError("rate_per_s must be finite, got inf")
        if self.drain_s is not None and not (_is_number(self.drain_s) and self.drain_s >= 0):
            raise ValueError(f"drain_s must be 0 or more seconds, got {self.drain_s!r}")
        if self.arrivals not in ARRIVALS:
            raise ValueError(
                f"arrivals must be one of {', '.join(ARRIVALS)}, got {self.arrivals!r}"
            )
        if self.seed is not None and (not isinstance(self.seed, int) or self.seed < 0):
            raise ValueError(f"seed must be a whole number of 0 or more, got {self.seed!r}")
        if self.rates and self.rate_per_s is not None:
            raise ValueError("give rate_per_s or rates, not both")
        if not all(0 <= rate < math.inf and 0 < lasts_s < math.inf for rate, lasts_s in self.rates):
            raise ValueError(
                "rates has a rate of 0 or more calls/s and seconds above 0 for each step, got"
                f" {self.rates!r}"
            )
        if self.calls is not None and self.calls % 1:
            raise ValueError(f"calls must be a whole number, got {self.calls!r}")
        if self.batch > MOST_OPERATIONS:
            raise ValueError(
                f"batch must be at most {MOST_OPERATIONS:,} operations, got {self.batch:,}: with"
                " far fewer, the CPU time per operation is as low (lesson 05)"
            )
        if self.streams > self.in_flight:
            raise ValueError(
                f"{self.streams} streams need at least as many requests in flight, got"
                f" in_flight={self.in_flight}"
            )
        joins = self.joins
        if list(joins) != sorted(joins) or not all(0 <= at_s < math.inf for at_s in joins):
            raise ValueError("joins must be seconds from the start of the run, 0 or more, in order")
        if joins and len(joins) != self.in_flight:
            raise ValueError(
                f"joins has {len(joins)} times and in_flight is {self.in_flight}: each caller has"
                " one call in flight, so give one time for each"
            )

    @property
    def paced(self) -> bool:
        """Whether the run is an open loop."""
        return self.rate_per_s is not None or bool(self.rates)

    @property
    def sending_s(self) -> float:
        """Seconds after which nothing more is sent; infinite if only a count ends the run."""
        in_steps_s = sum(lasts_s for _, lasts_s in self.rates) or math.inf
        return min(self.duration_s or math.inf, in_steps_s)

    @property
    def random_arrivals(self) -> bool:
        """Whether the run is an open loop whose due times are drawn."""
        return self.paced and self.arrivals == "random"

    def with_seed(self) -> "RunOptions":
        """Return the options with a seed of their own, if arrivals are random and have none."""
        if not self.random_arrivals or self.seed is not None:
            return self
        return replace(self, seed=secrets.randbelow(MOST_SEED))

    def due_times(self) -> Iterator[float] | None:
        """Return the due times of the whole run without its end; None for a closed loop."""
        if self.rates:
            return pacing.steps(self.rates, random_gaps=self.random_arrivals, seed=self.seed)
        if self.rate_per_s is None:
            return None
        if self.arrivals == "random":
            return pacing.poisson(self.rate_per_s, seed=self.seed)
        return pacing.constant_rate(self.rate_per_s)

    @classmethod
    def of(
        cls, strategy: Strategy, options: "RunOptions | None", settings: Mapping[str, Any]
    ) -> "RunOptions":
        """Return the given options (or the defaults) with these settings changed.

        Raises `ValueError` for a setting that is no option of a run.
        """
        options = options or cls()
        known = [each.name for each in fields(cls)]
        for name in settings:
            if name not in known:
                raise ValueError(_unknown(name, strategy, known))
        changes = dict(settings)
        if "joins" in changes:
            changes["joins"] = tuple(map(float, changes["joins"] or ()))
        return replace(options, **changes)


def name_of(strategy: Strategy) -> str:
    """Return the name of the strategy."""
    return str(getattr(strategy, "__name__", "strategy"))


def _check_kinds(strategy: object, workload: object) -> None:
    if not callable(strategy):
        raise ValueError(
            "strategy must be a function of kvstore.client.strategies, by its name and without"
            f" quotes, got {strategy!r}"
        )
    if not isinstance(workload, Workload | MethodCalls):
        called = ": it lacks its parentheses" if callable(workload) else ""
        raise ValueError(
            f"workload must be a Workload, such as `workload.reads()`, got {workload!r}{called}"
        )


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        why = "write it without quotes" if isinstance(value, str) else "with 0 nothing is sent"
        raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}: {why}")


def _unknown(name: str, strategy: Strategy, known: list[str]) -> str:
    if name == "processes":
        return "several processes that share the load are a fleet: fleet=Local(2)"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f": did you mean {near[0]}?" if near else ""
    return f"neither a run nor {name_of(strategy)} has an option {name}{hint}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Each generator's part of a run that several make together.
#
# The parts add up to the whole run: they divide the operations, calls in flight and due times.


MOST_GENERATORS = 32
"""With more generators, keys of a single byte would not reach every one of them."""
SEEDS_APART = 1_000_003
"""Distance between the seeds of two generators: larger than the seeds that users choose."""


AnyWorkload = TypeVar("AnyWorkload", bound=Workload | MethodCalls)


class Part(NamedTuple):
    """Generator `number`, from 0, of `of`. The parts of all generators add up to the whole run."""

    number: int = 0
    of: int = 1

    def count(self, whole: int) -> int:
        """Return this part of a number of calls; parts differ by one at most."""
        return whole // self.of + (self.number < whole % self.of)

    def due_times(self, whole: Iterator[float]) -> Iterator[float]:
        """Return every `of`-th due time, starting with number `number`."""
        return islice(whole, self.number, None, self.of)

    def workload(self, whole: AnyWorkload, seeds_apart: int = SEEDS_APART) -> AnyWorkload:
        """Return the workload of this part: the same settings, another seed.

        The keys that are created before the run are divided, at least one for each part. The calls
        of another service's method are the same for all parts.
        """
        if self.of == 1 or not isinstance(whole, Workload):
            return whole
        preload = max(1, self.count(whole.preload)) if whole.preload else 0
        return replace(whole, seed=whole.seed + self.number * seeds_apart, preload=preload)

    def owns(self, key: bytes) -> bool:
        """Return whether this generator may use the key: no two generators use the same."""
        return self.of == 1 or generator_of(key, self.of) == self.number


WHOLE = Part()
"""The only part of a run that one generator makes."""


def parts(generators: int) -> list[Part]:
    """Return the parts of a run of so many generators. Raises `ValueError` for a wrong number."""
    whole = isinstance(generators, int) and not isinstance(generators, bool)
    if not whole or not 1 <= generators <= MOST_GENERATORS:
        raise ValueError(
            f"a fleet has a whole number of workers from 1 to {MOST_GENERATORS}, got {generators!r}"
        )
    return [Part(number, generators) for number in range(generators)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run that can be made, or one generator's part of it. `Plan.of` has checked it."""

    strategy: Strategy
    can: Supports
    """What the strategy supports."""
    target: Target
    workload: Workload | MethodCalls
    options: RunOptions
    due_times: Iterator[float] | None = None
    """Due times in place of a constant rate."""
    part: Part = WHOLE
    choose: Choose | None = None
    """Chooses the server of each call, where each of several servers has all keys."""

    @classmethod
    def of(
        cls,
        strategy: Strategy,
        server: object,
        workload: Workload | MethodCalls,
        options: RunOptions | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        due_times: Iterator[float] | None = None,
        choose: Choose | None = None,
        for_fleet: bool = False,
    ) -> "Plan":
        """Return the plan of a run, with the arguments of `load.run`.

        Raises `ValueError` for an option that makes no sense, or that the strategy, the workload or
        a fleet does not support.
        """
        options = RunOptions.of(strategy, options, settings or {}).with_seed()
        _check_kinds(strategy, workload)
        target, can = target_of(server), supports(strategy)
        plan = cls(
            strategy=strategy,
            can=can,
            target=target,
            workload=workload,
            options=options,
            due_times=due_times,
            choose=choose,
        )
        plan._check_method()
        plan._check_options()
        plan._check_choose()
        if for_fleet and choose is not None:
            raise ValueError("a function that chooses cannot be sent to a fleet: leave one out")
        if for_fleet and due_times is not None:
            raise ValueError("due times cannot be sent to a fleet: use rate_per_s")
        if for_fleet and options.joins:
            raise ValueError("callers join one by one in one process only: leave out the fleet")
        return plan

    @property
    def name(self) -> str:
        """The name of the strategy."""
        return name_of(self.strategy)

    @property
    def paced(self) -> bool:
        """Whether the run is an open loop."""
        return self.due_times is not None or self.options.paced

    @property
    def streams(self) -> int:
        """The number of streams; 0 for a strategy that makes unary calls."""
        return self.options.streams if self.can.streams else 0

    def pace(self) -> Iterator[float] | None:
        """Return the due times of this part; None for a closed loop."""
        if self.due_times is None and (whole := self.options.due_times()) is not None:
            return self.part.due_times(whole)
        return self.due_times

    def divided(self, generators: int) -> list["Plan"]:
        """Return the plan of each of several generators. Raises `ValueError` for too small a count.

        All options but the calls in flight and the number of calls hold for each of them.
        """
        return [
            replace(
                self, part=part, options=self._share(part), workload=part.workload(self.workload)
            )
            for part in parts(generators)
        ]

    def _share(self, part: Part) -> RunOptions:
        changes: dict[str, Any] = {}
        for name in ("in_flight", "calls"):
            value = getattr(self.options, name)
            if value is None or (name == "in_flight" and not self.can.limit):
                continue
            if value < part.of:
                raise ValueError(
                    f"{part.of} workers share {name}, so it must be {part.of} or more,"
                    f" got {value!r}"
                )
            changes[name] = part.count(value)
        return replace(self.options, **changes)

    def _check_method(self) -> None:
        calls = self.workload
        if not isinstance(calls, MethodCalls):
            return
        if self.can.streams:
            raise ValueError(
                f"{self.name} sends the course's own messages: for {calls.method} use tasks, which"
                " has one stream for each call in flight"
            )
        for each in (calls, *calls.others):
            if each.answers_stream and self.strategy not in (blocking, threads, tasks):
                raise ValueError(
                    f"{self.name} sends futures, and {each.method} answers with a stream, which has"
                    " no future: use tasks, threads or blocking"
                )
        if len(self.target.shards) > 1:
            raise ValueError(
                f"several addresses share out the keys of the course's own service, and"
                f" {calls.method} has none: give one address"
            )

    def _check_choose(self) -> None:
        if self.choose is None:
            return
        if not callable(self.choose):
            raise ValueError(f"choose must be a function, without parentheses, got {self.choose!r}")
        calls = self.workload
        if not isinstance(calls, Workload) or set(calls.mix) != {"retrieve"} or not calls.preload:
            raise ValueError(
                "choose sends a call to any server, so each needs a copy of all keys, and none may"
                " change: use `workload.reads()`"
            )
        if self.can.streams or self.options.connections > 1:
            raise ValueError("choose is for unary calls, with one connection to each server")

    def _check_options(self) -> None:
        options, can, name, shards = self.options, self.can, self.name, len(self.target.shards)
        if options.duration_s is None and options.calls is None and not options.rates:
            raise ValueError("say how long: duration_s=10 for seconds, or calls=1000 for a count")
        if options.joins and not can.joins:
            raise ValueError(
                f"callers cannot join {name} one by one: only the strategies threads and tasks"
                " have several callers"
            )
        if not can.streams:
            for option in ("streams", "batch"):
                if getattr(options, option) > 1:
                    raise ValueError(f"{name} sends unary calls, so it has no {option}")
        if can.streams and options.streams < options.connections * shards > options.connections:
            raise ValueError(
                f"{shards} servers with {options.connections} connections to each need at least"
                f" {shards * options.connections} streams, got {options.streams}: a stream goes to"
                " one server"
            )
        carriers = options.streams if can.streams else options.in_flight
        if options.connections > carriers and can.limit:
            what = "streams" if can.streams else "calls in flight"
            raise ValueError(
                f"{options.connections} connections need at least as many {what}, got {carriers}:"
                " the others would be idle"
            )
        if self.paced and not can.due_times:
            raise ValueError(
                f"{name} sends a call when another one ends, so it cannot keep due times:"
                " use bounded"
            )
