"""Services drawn from a seed, and six with names, each with another bottleneck.

A case has a description, settings that the learner must find out, and a target.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from kvstore.client.workload import Workload
from kvstore.course.capstone.designs import STREAM_DAYS, Design, DesignRefused, own_problem
from kvstore.course.exercises.base import NotAttempted
from kvstore.model import key_skew, service_time_s
from kvstore.protocol import MESSAGE_LIMIT_BYTES

IN_FLIGHT, STREAMS, POOL, LOCK, HOT_KEY, PROCESSOR = STATIONS = (
    "calls in flight",
    "streams of a connection",
    "pool",
    "global lock",
    "hottest key",
    "processor",
)
"""The possible bottlenecks, in the order of a call."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a design. Exactly one of `per_s` and `times_start` sets its throughput."""

    p99_s: float
    """The largest 99th percentile of the latency, in seconds."""
    most_in_flight: int
    """The most calls in flight: each holds memory at client and server."""
    per_s: float | None = None
    """The least operations per second."""
    times_start: float | None = None
    """The least throughput over that of the design at the start: if a processor is the bottleneck,
    a rate would depend on the machine."""

    def needed_per_s(self, start_per_s: float) -> float:
        """Return the least operations per second, given the throughput of the start."""
        if self.per_s is not None:
            return self.per_s
        assert self.times_start is not None
        return self.times_start * start_per_s

    def __str__(self) -> str:
        fast = (
            f"{self.times_start:g} times the throughput of the start on this machine"
            if self.per_s is None
            else f"{self.per_s:,.0f} operations/s"
        )
        return (
            f"at least {fast}, p99 at most {1e3 * self.p99_s:.0f} ms, at most"
            f" {self.most_in_flight} calls in flight, nothing lost"
        )


@dataclass(frozen=True, slots=True)
class Price:
    """CPU seconds of the bottleneck process: for a call, a message, an operation in a message."""

    call_s: float = 500e-6
    message_s: float = 300e-6
    operation_s: float = 10e-6

    def of(self, design: Design) -> float:
        """Return the seconds of one call or message of this design."""
        if design.strategy != "pipelined":
            return self.call_s
        return self.message_s + design.batch * self.operation_s


@dataclass(frozen=True, slots=True)
class Case:
    """One service. Print it for its description; the learner must find out its `server`."""

    id: str
    description: tuple[str, ...]
    """Sentences of the team that hands it over."""
    server: Mapping[str, Any] = field(repr=False)
    """Its settings, under the names of `ServerSettings`."""
    workload: Workload = field(repr=False)
    start: Design
    """The design at the start."""
    target: Target
    offers: Mapping[str, int]
    """The changes of the server on offer, and the days of each."""
    binds: str = field(repr=False)
    """The bottleneck at the start: the right answer."""
    tempting: Design = field(repr=False)
    """A plausible design that misses the target."""
    most_changes: int = 2
    budget_days: int = 12
    price: Price = field(default=Price(), repr=False)
    """Nominal CPU times for forecasts before a run."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The metadata of every call."""

    def settings(self, design: Design) -> dict[str, Any]:
        """Return the server's settings with the design's changes."""
        return {**self.server, **design.settings}

    def cost_days(self, design: Design) -> int:
        """Return the days of work: the changes, and a day for a client with streams."""
        stream = design.strategy == "pipelined" and self.start.strategy != "pipelined"
        return sum(self.offers[change] for change in design.changes) + STREAM_DAYS * stream

    def refuse(self, design: object) -> None:
        """Raise `DesignRefused` with the reason, unless this case accepts the design."""
        if not isinstance(design, Design):
            raise DesignRefused(
                f"a design must be written as `Design(strategy=..., in_flight=...)`, got {design!r}"
            )
        if problem := self.problem_with(design):
            raise DesignRefused(problem)

    def problem_with(self, design: Design) -> str | None:
        """Return in words why this case does not accept the design; None if it does."""
        return own_problem(design) or self._problem_here(design)

    def _problem_here(self, design: Design) -> str | None:
        missing = [change for change in design.changes if change not in self.offers]
        if missing:
            return f"changes must be among {', '.join(self.offers)} here, got {missing[0]}"
        if len(design.changes) > self.most_changes:
            return f"at most {self.most_changes} changes of the server, got {len(design.changes)}"
        cost_days = self.cost_days(design)
        if cost_days > self.budget_days:
            return f"the budget is {self.budget_days} days, and it costs {cost_days}"
        after = self.settings(design)
        if not after.get("use_asyncio") and design.streams > after.get("threads", 128):
            return (
                f"{design.streams} streams on a pool of {after['threads']} threads: each stream"
                " holds a thread while it is open, so some would never begin"
            )
        wanted = design.servers * design.connections
        if design.strategy == "pipelined" and design.servers > 1 and design.streams < wanted:
            return (
                f"{design.streams} streams for {design.servers} servers: a stream goes to one"
                f" server, so use {wanted} or more"
            )
        each_bytes = self.workload.key_bytes_mean + self.workload.value_bytes_mean + 16
        if design.batch * each_bytes > MESSAGE_LIMIT_BYTES:
            fits = int(MESSAGE_LIMIT_BYTES // each_bytes)
            return (
                f"{design.batch:,} operations do not fit into one message: use at most {fits:,} of"
                f" {each_bytes:,.0f} bytes"
            )
        return None

    def bill(self, design: object) -> str:
        """Return in words the cost of the design here, or why it is refused; raise nothing."""
        if isinstance(design, NotAttempted):
            return "Not attempted: put your Design in place of NOT_ATTEMPTED."
        try:
            self.refuse(design)
        except DesignRefused as refused:
            return f"Refused: {refused}."
        assert isinstance(design, Design)
        return (
            f"{design}: {self.cost_days(design)} of {self.budget_days} days,"
            f" {len(design.changes)} of {self.most_changes} changes"
        )

    def question_id(self, question: str) -> str:
        """Return the id of a prediction for this case, such as 12.lock_start."""
        return f"12.{self.id}_{question}"

    def __str__(self) -> str:
        offers = ", ".join(f"{name} {days}" for name, days in self.offers.items())
        lines = [
            self.id.replace("_", " ").capitalize(),
            *(f"  {sentence}" for sentence in self.description),
            f"Start:   {self.start}",
            f"Target:  {self.target}",
            f"Changes: at most {self.most_changes} of: {offers} (days)",
            f"Budget:  {self.budget_days} days; a client with streams costs {STREAM_DAYS}, all"
            " other changes of the client nothing",
        ]
        return "\n".join(lines)


KEYS, HOT_KEYS = 32, 8
"""Keys of a service, and of a service with skewed keys."""
HEADERS: Final = MappingProxyType({f"x-trace-{n}": "a header of some length" for n in range(6)})


def case(seed: int | str) -> Case:
    """Return the case of a whole number, always the same one, or of a name in `NAMED`.

    Raise `ValueError` for any other word.
    """
    if isinstance(seed, str):
        if seed not in NAMED:
            raise ValueError(f"seed must be a whole number or {', '.join(NAMED)}, got {seed!r}")
        return _FAMILIES[seed](seed, random.Random(seed))
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f"seed must be a whole number or a name, got {seed!r}")
    rng = random.Random(seed)
    return _FAMILIES[rng.choice(NAMED)](f"case_{seed}", rng)


def _lock(name: str, rng: random.Random) -> Case:
    disk, reads, workload = _traffic(rng, slow=2, preload=KEYS // 2)
    mean_s = service_time_s(workload.mix, **disk)
    return Case(
        id=name,
        description=(
            "A shop keeps its carts in it. Its authors have left, and there are no notes.",
            *_of_traffic(reads),
            "A pool of 64 threads serves it; its processor is nearly idle.",
        ),
        server={**disk, "locking": "global", "threads": 64},
        workload=workload,
        start=Design("bounded", 16),
        target=Target(per_s=_round(3 / mean_s), p99_s=0.6, most_in_flight=32),
        offers={
            **_offers(rng, "threads=128", "asyncio", "per_key", sometimes="group_commit"),
            **_offers(rng, "servers=2"),
        },
        binds=LOCK,
        tempting=Design("bounded", 32, changes=("threads=128",)),
    )


def _pool(name: str, rng: random.Random) -> Case:
    disk, reads, workload = _traffic(rng, slow=2)
    threads = rng.choice((2, 3))
    mean_s = service_time_s(workload.mix, **disk)
    return Case(
        id=name,
        description=(
            "It looks up prices, and was moved to a small machine last year.",
            *_of_traffic(reads),
            "A pool of threads serves it. Its size was set last year.",
        ),
        server={**disk, "locking": "per_key", "threads": threads},
        workload=workload,
        start=Design("bounded", 32),
        target=Target(per_s=_round(3 * threads / mean_s), p99_s=0.6, most_in_flight=32),
        offers=_offers(rng, "threads=32", "threads=128", "asyncio", sometimes="group_commit"),
        binds=POOL,
        tempting=Design("pipelined", 32),
    )


def _hot_key(name: str, rng: random.Random) -> Case:
    disk, reads, workload = _traffic(rng, reads=0.25, key_choice="zipf", preload=HOT_KEYS)
    station = key_skew.hottest_lock(
        HOT_KEYS, 1.0, hold_s=disk["write_delay_s"], locking_share=1 - reads
    )
    return Case(
        id=name,
        description=(
            "It counts votes: a few candidates get most of them.",
            *_of_traffic(reads),
            f"There are {HOT_KEYS} keys. The second key has half as many calls as the first, the"
            " third a third, and so on.",
            "There is a lock per key, held until the disk is done, and a pool of 64 threads.",
        ),
        server={**disk, "locking": "per_key_held", "threads": 64},
        workload=workload,
        start=Design("bounded", 32),
        target=Target(per_s=_round(3 * station.most_per_s), p99_s=0.6, most_in_flight=32),
        offers=_offers(rng, "threads=128", "asyncio", "per_key", sometimes="group_commit"),
        binds=HOT_KEY,
        tempting=Design("bounded", 32, changes=("asyncio",)),
    )


def _disk(name: str, rng: random.Random) -> Case:
    disk, reads, workload = _traffic(rng, slow=2)
    mean_s = service_time_s(workload.mix, **disk)
    return Case(
        id=name,
        description=(
            "It writes the log of a bank to a safe and slow disk.",
            *_of_traffic(reads),
            "One event loop serves it. No lock is held through the disk.",
            "Memory is short: the client may have 8 calls in flight.",
        ),
        server={**disk, "locking": "per_key", "use_asyncio": True},
        workload=workload,
        start=Design("bounded", 8),
        target=Target(per_s=_round(3 * 8 / mean_s), p99_s=0.5, most_in_flight=8),
        offers=_offers(rng, "group_commit"),
        binds=IN_FLIGHT,
        tempting=Design("pipelined", 8, batch=8),
    )


def _cpu(name: str, rng: random.Random) -> Case:
    workload = _workload(rng, reads=0.75)
    work = rng.choice((300, 400))
    return Case(
        id=name,
        description=(
            "It answers from memory, hardly uses its disk, and is slow.",
            *_of_traffic(0.75),
            f"One event loop serves it. Each call has {len(HEADERS)} headers for tracing, and an"
            " interceptor formats them for each call.",
        ),
        server={
            "read_delay_s": 0.001,
            "write_delay_s": 0.002,
            "locking": "per_key",
            "use_asyncio": True,
            "metadata_work": work,
        },
        workload=workload,
        start=Design("bounded", 16),
        target=Target(times_start=2.0, p99_s=0.4, most_in_flight=32),
        offers=_offers(rng, "group_commit", "servers=2"),
        binds=PROCESSOR,
        tempting=Design("bounded", 32, changes=("group_commit",)),
        price=Price(call_s=5e-6 * work),
        headers=HEADERS,
    )


def _cap(name: str, rng: random.Random) -> Case:
    disk, reads, workload = _traffic(rng, slow=2)
    streams = rng.choice((3, 4))
    mean_s = service_time_s(workload.mix, **disk)
    return Case(
        id=name,
        description=(
            "It belongs to another company, which says that its server is never busy.",
            *_of_traffic(reads),
            "One event loop serves it. No lock is held through the disk. The network between you"
            " and the server is not documented.",
        ),
        server={
            **disk,
            "locking": "per_key",
            "use_asyncio": True,
            "max_streams": streams,
            "refuse_streams": False,
        },
        workload=workload,
        start=Design("bounded", 32),
        target=Target(per_s=_round(3 * streams / mean_s), p99_s=0.6, most_in_flight=32),
        offers=_offers(rng, "group_commit"),
        binds=STREAMS,
        tempting=Design("tasks", 32, changes=("group_commit",)),
    )


_FAMILIES: Final[Mapping[str, Callable[[str, random.Random], Case]]] = {
    "lock": _lock,
    "pool": _pool,
    "hot_key": _hot_key,
    "disk": _disk,
    "cpu": _cpu,
    "cap": _cap,
}
NAMED: Final = tuple(_FAMILIES)
"""The names of cases."""

_DAYS: Final = {
    "threads=32": (1, 3),
    "threads=128": (3, 5),
    "asyncio": (4, 8),
    "per_key": (3, 6),
    "group_commit": (2, 6),
    "servers=2": (5, 8),
}
"""The fewest and the most days of a change."""


def _traffic(
    rng: random.Random, *, slow: int = 1, reads: float | None = None, **keys: Any
) -> tuple[dict[str, float], float, Workload]:
    """Return disk times, the share of reads, and the workload."""
    disk = {
        "read_delay_s": slow * rng.choice((0.005, 0.008, 0.010)),
        "write_delay_s": slow * rng.choice((0.025, 0.030, 0.035)),
    }
    share = rng.choice((0.25, 0.5)) if reads is None else reads
    return disk, share, _workload(rng, share, **keys)


def _workload(rng: random.Random, reads: float, **keys: Any) -> Workload:
    return Workload(
        mix={"retrieve": reads, "update": 1 - reads},
        seed=rng.randrange(1000),
        key_bytes_mean=16,
        value_bytes_mean=rng.choice((16, 64, 256, 1024)),
        sizes="fixed",
        **{"preload": KEYS, **keys},
    )


def _of_traffic(reads: float) -> tuple[str, ...]:
    return (f"{reads:.0%} of the operations are reads; the others update existing keys.",)


def _offers(rng: random.Random, *names: str, sometimes: str = "") -> dict[str, int]:
    offers = {name: rng.randint(*_DAYS[name]) for name in names}
    if sometimes and rng.random() < 0.5:
        offers[sometimes] = rng.randint(*_DAYS[sometimes])
    return offers


def _round(per_s: float) -> float:
    """Return the rate rounded to tens."""
    return 10.0 * round(per_s / 10)
