"""A service that nobody has seen before: what is told of it, what is not, and what it must do."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvstore.client.workload import Workload
from kvstore.course.design.choice import (
    STREAM_DAYS,
    Design,
    DesignRefused,
    own_problem,
)
from kvstore.course.exercises.base import NotAttempted
from kvstore.wire import MESSAGE_LIMIT_BYTES

IN_FLIGHT, STREAMS, POOL, LOCK, HOT_KEY, PROCESSOR = STATIONS = (
    "calls in flight",
    "streams of a connection",
    "pool",
    "global lock",
    "hottest key",
    "processor",
)
"""What can bind, in the order in which a call meets it."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a design must reach. Exactly one of `per_s` and `times_start` says how fast."""

    p99_s: float
    """Seconds that all calls but one in a hundred may take at most."""
    most_in_flight: int
    """Calls in flight at most: each holds memory on both sides."""
    per_s: float = math.nan
    """Operations per second at least."""
    times_start: float = math.nan
    """The same as a factor on what the design at the start gives, here and now: where a
    processor binds, a rate in numbers would be about the machine."""

    def needed_per_s(self, start_per_s: float) -> float:
        """Operations per second at least, given what the design at the start gave."""
        return self.times_start * start_per_s if math.isnan(self.per_s) else self.per_s

    def __str__(self) -> str:
        fast = (
            f"{self.times_start:g} times what the start gives on this machine"
            if math.isnan(self.per_s)
            else f"{self.per_s:,.0f} operations/s"
        )
        return (
            f"at least {fast}, p99 at most {1e3 * self.p99_s:.0f} ms, at most"
            f" {self.most_in_flight} calls in flight, nothing lost"
        )


@dataclass(frozen=True, slots=True)
class Price:
    """Processor seconds of whoever binds: for a call, a message of a stream, an operation in it."""

    call_s: float = 500e-6
    message_s: float = 300e-6
    operation_s: float = 10e-6

    def of(self, design: Design) -> float:
        """Seconds of one call or message of this design."""
        if design.strategy != "pipelined":
            return self.call_s
        return self.message_s + design.batch * self.operation_s


@dataclass(frozen=True, slots=True)
class Case:
    """One service. Print it for what is told; `server` is what a learner has to find out."""

    id: str
    told: tuple[str, ...]
    """What the team that hands it over says, one sentence each."""
    server: Mapping[str, Any] = field(repr=False)
    """Its settings, under the names of `ServerSettings`."""
    workload: Workload = field(repr=False)
    start: Design
    """How it is called today."""
    target: Target
    offers: Mapping[str, int]
    """The changes of the server that can be had, and the days that each takes."""
    binds: str = field(repr=False)
    """The station that binds at the start: the right answer."""
    tempting: Design = field(repr=False)
    """What many try first, and what misses the target."""
    most_changes: int = 2
    budget_days: int = 12
    price: Price = field(default=Price(), repr=False)
    """Nominal prices for looking designs up before anything was measured."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Metadata that comes with every call."""

    def settings(self, design: Design) -> dict[str, Any]:
        """The server's settings with the design's changes."""
        return {**self.server, **design.settings}

    def cost_days(self, design: Design) -> int:
        """Days of work: its changes, and a day for a client that speaks in streams."""
        stream = design.strategy == "pipelined" and self.start.strategy != "pipelined"
        return sum(self.offers[change] for change in design.changes) + STREAM_DAYS * stream

    def refuse(self, design: object) -> None:
        """Raise `DesignRefused`, saying why, unless the design can be had for this case."""
        if not isinstance(design, Design):
            raise DesignRefused(
                f"a design is written as Design(strategy=..., in_flight=..., ...), got {design!r}"
            )
        if problem := self.problem_with(design):
            raise DesignRefused(problem)

    def problem_with(self, design: Design) -> str | None:
        """Why this case cannot have the design, in words; None when it can."""
        return own_problem(design) or self._problem_here(design)

    def _problem_here(self, design: Design) -> str | None:
        missing = [change for change in design.changes if change not in self.offers]
        if missing:
            return f"{missing[0]} is not on offer here: {', '.join(self.offers)} are"
        if len(design.changes) > self.most_changes:
            return f"{len(design.changes)} changes of the server, and {self.most_changes} at most"
        cost_days = self.cost_days(design)
        if cost_days > self.budget_days:
            return f"it costs {cost_days} days, and there are {self.budget_days}"
        after = self.settings(design)
        if not after.get("use_asyncio") and design.streams > after.get("threads", 128):
            return (
                f"{design.streams} streams on a pool of {after['threads']} threads: each stream"
                " keeps a thread while it is open, so some would never begin"
            )
        wanted = design.servers * design.connections
        if design.strategy == "pipelined" and design.servers > 1 and design.streams < wanted:
            return (
                f"{design.streams} streams for {design.servers} servers: a stream speaks to one of"
                f" them, so it takes {wanted} or more"
            )
        each_bytes = self.workload.key_bytes_mean + self.workload.value_bytes_mean + 16
        if design.batch * each_bytes > MESSAGE_LIMIT_BYTES:
            fits = int(MESSAGE_LIMIT_BYTES // each_bytes)
            return (
                f"{design.batch:,} operations do not fit into one message: at most {fits:,} of"
                f" {each_bytes:,.0f} bytes do"
            )
        return None

    def bill(self, design: object) -> str:
        """What the design costs here, or why it cannot be had; in words, and nothing is raised."""
        if isinstance(design, NotAttempted):
            return "Not attempted: put your Design in place of NOT_ATTEMPTED."
        try:
            self.refuse(design)
        except DesignRefused as refused:
            return f"It cannot be had: {refused}."
        assert isinstance(design, Design)
        return (
            f"{design}: {self.cost_days(design)} of {self.budget_days} days,"
            f" {len(design.changes)} of {self.most_changes} changes"
        )

    def asks(self, question: str) -> str:
        """The id under which a prediction for this case is kept, such as 10.lock_start."""
        return f"10.{self.id}_{question}"

    def __str__(self) -> str:
        offers = ", ".join(f"{name} {days}" for name, days in self.offers.items())
        lines = [
            self.id.replace("_", " ").capitalize(),
            *(f"  {sentence}" for sentence in self.told),
            f"Start:   {self.start}",
            f"Target:  {self.target}",
            f"Changes: at most {self.most_changes} of: {offers} (days)",
            f"Budget:  {self.budget_days} days; a client that speaks in streams costs"
            f" {STREAM_DAYS}, all else at the client nothing",
        ]
        return "\n".join(lines)
