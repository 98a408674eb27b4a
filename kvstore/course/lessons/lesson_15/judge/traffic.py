"""What a run sends: the kinds, items and due times of its calls; and a run without a clock."""

import functools
import heapq
import itertools
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from kvstore.course.lessons.lesson_15.judge.cases import (
    ATTEMPTS,
    HOT_SHARE,
    ITEMS,
    MIX,
    MOST_IN_FLIGHT,
    SERVERS,
    VALUE_BYTES,
    Call,
    Network,
)
from kvstore.protocol import CREATE, RETRIEVE, UPDATE

ONLY: Final = {"all": None, "reads": RETRIEVE, "updates": UPDATE, "creates": CREATE}
"""The kinds of operations that a measurement may send."""
WHICH_ITEMS: Final = ("all", "one", "spread")
"""`all`: as in the traffic, where one item has 40 % of the calls. `one`: only this item. `spread`:
all items alike."""
MOST_CALLS = 6000
"""The most calls of a run in a closed loop."""
MOST_CONNECTIONS = 16
"""The most connections to each server in a measurement."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """The load of one run. Raises `ValueError` naming what makes no sense."""

    in_flight: int = 1
    only: str = "all"
    items: str = "all"
    value_bytes: int = VALUE_BYTES
    connections: int = 1
    """Connections of the client to each server."""
    servers: int = SERVERS
    """Servers that the client uses, of the two that there are."""
    proxy_attempts: int = ATTEMPTS
    """How often the proxy in front sends each call."""
    rate_per_s: float | None = None
    """Arrival rate of an open loop; None is a closed loop."""

    def __post_init__(self) -> None:
        _whole("in_flight", self.in_flight, MOST_IN_FLIGHT)
        _whole("connections", self.connections, MOST_CONNECTIONS)
        _whole("servers", self.servers, SERVERS)
        _whole("proxy_attempts", self.proxy_attempts, 4 * ATTEMPTS)
        _whole("value_bytes", self.value_bytes, 4 * VALUE_BYTES)
        for name, known in (("only", tuple(ONLY)), ("items", WHICH_ITEMS)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}"
                )

    def shown(self) -> dict[str, Any]:
        """Return what differs from one call at a time with the whole traffic."""
        usual = asdict(Load())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}


def _whole(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ValueError(f"{name} must be a whole number from 1 to {most:,}, got {value!r}")


@dataclass(frozen=True)
class Plan:
    """The calls of one run, in columns; a call's place in them is its serial number."""

    kinds: list[int]
    items: list[int]
    due_s: list[float] | None
    """Due times from the first call on, in an open loop."""
    duration_s: float
    value_bytes: int

    def call(self, serial: int, peer: str) -> Call:
        """Return what the network must know of the call with this number."""
        return Call(self.kinds[serial], self.items[serial], self.value_bytes, peer)


def plan(load: Load, duration_s: float, rng: random.Random) -> Plan:
    """Draw the calls of a run of this length."""
    due_s = None
    count = MOST_CALLS
    if load.rate_per_s is not None:
        waits = (rng.expovariate(load.rate_per_s) for _ in itertools.count())
        times = itertools.accumulate(waits, initial=0.0)
        due_s = list(itertools.takewhile(lambda at_s: at_s < duration_s, times))
        count = len(due_s)
    only = ONLY[load.only]
    kinds = [only] * count if only else rng.choices([*MIX], [*MIX.values()], k=count)
    rest = (1 - HOT_SHARE) / (ITEMS - 1)
    weights = {"all": [HOT_SHARE, *[rest] * (ITEMS - 1)], "one": [1.0], "spread": [1.0] * ITEMS}
    chosen = weights[load.items]
    items = rng.choices(range(len(chosen)), chosen, k=count)
    return Plan(kinds, items, due_s, duration_s, load.value_bytes)


@dataclass(frozen=True)
class Result:
    """What a run has shown, from the times at which its calls arrived and finished."""

    answered: int
    lost: int
    """Calls that arrived, or should have arrived, and were never answered."""
    throughput_per_s: float
    """Calls answered per second, without the time in which the run warms up."""
    mean_s: float
    p99_s: float
    """Residence times; in an open loop from the due time, or from an arrival before it. For the
    p99 of an open loop, a call that is never answered takes `NEVER_S`, and so do both without any
    answer."""
    most_open: int
    """The most calls in the service at once."""
    processor_busy: float
    """Share of the run for which the service's processor worked."""
    steady_per_s: float
    steady_p99_s: float
    """Throughput and p99 of the part before a fault; of the whole run without one. The throughput
    leaves out the times in which the client had fewer than half of its calls in the service."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything by name, ready for JSON."""
        return asdict(self)


WARM_UP = 0.15
"""Share of a run in a closed loop whose answers do not count for the throughput."""


NEVER_S = 60.0
"""The residence time of a call that is never answered."""
BEFORE_FAULT_S = 0.5
"""A call that is due later than this before a fault may be hit by it."""


class Tally:
    """Counts one run: feed it arrivals and answers, in seconds of one clock."""

    def __init__(self, planned: Plan) -> None:
        self.plan = planned
        self.began_s = 0.0  # until the first call arrives
        self._arrived: dict[int, float] = {}
        self._done: dict[int, float] = {}
        self._open = self._most_open = 0

    def arrived(self, serial: int, at_s: float) -> None:
        """Count one attempt; the first one counts for the residence time in a closed loop."""
        if not self._arrived:
            due_s = self.plan.due_s
            self.began_s = at_s - (due_s[serial] if due_s else 0.0)
        self._arrived.setdefault(serial, at_s)
        self._open += 1
        self._most_open = max(self._most_open, self._open)

    def ended(self, serial: int, at_s: float | None) -> None:
        """Count the end of an attempt: its time, or None for one that was not answered."""
        self._open -= 1
        if at_s is not None:
            self._done.setdefault(serial, at_s)

    def answered(self, serial: int) -> bool:
        """Return whether the call with this number was answered."""
        return serial in self._done

    def result(self, processor_s: float, fault_s: float | None = None) -> Result:
        """Return the result so far; `processor_s` is the processor time of the run's calls.

        `fault_s` is when a fault began, in seconds from the first call.
        """
        due_s, done = self.plan.due_s, sorted(self._done.values())
        began_s, until_s = self.began_s, math.inf if fault_s is None else fault_s - BEFORE_FAULT_S
        since_s = {serial: self._arrived[serial] - began_s for serial in self._done}
        if due_s is not None:  # a call that is sent before it is due saves no time by it
            since_s = {serial: min(at_s, due_s[serial]) for serial, at_s in since_s.items()}
        stays = {serial: at_s - began_s - since_s[serial] for serial, at_s in self._done.items()}
        mean_s = sum(stays.values()) / len(stays) if stays else NEVER_S
        expected = max(self._arrived, default=-1) + 1 if due_s is None else len(due_s)
        for serial, at_s in enumerate(due_s or ()):
            if serial not in self._done:  # the slowest calls of all
                since_s[serial], stays[serial] = at_s, NEVER_S
        lasted_s = done[-1] - began_s if done else 0.0
        counted = self._in_order()
        return Result(
            answered=len(done),
            lost=expected - len(done),
            throughput_per_s=self._throughput(counted),
            mean_s=mean_s,
            p99_s=_p99(stays.values()),
            most_open=self._most_open,
            processor_busy=min(1.0, processor_s / lasted_s) if lasted_s else 0.0,
            steady_per_s=self._steady(counted, math.inf if fault_s is None else fault_s),
            steady_p99_s=_p99(stays[each] for each in stays if since_s[each] < until_s),
        )

    def _in_order(self) -> list[float]:
        """Return the times of the answers that count for a throughput, sorted.

        A client that takes the operations as they come has left out at most as many as it may have
        in flight. What it answers beyond them was chosen, because it is easy for the service.
        """
        if self.plan.due_s is not None:
            return sorted(self._done.values())
        until_s = self.began_s + self.plan.duration_s
        by_then = {serial for serial, at_s in self._done.items() if at_s <= until_s}
        left_out = (serial for serial in itertools.count() if serial not in by_then)
        limit = next(itertools.islice(left_out, MOST_IN_FLIGHT, None))
        return sorted(at_s for serial, at_s in self._done.items() if serial < limit)

    def _throughput(self, done: Sequence[float]) -> float:
        """Return the answers per second: in a closed loop between warm-up and the last sending."""
        if self.plan.due_s is not None:
            return len(done) / (done[-1] - self.began_s) if done else 0.0
        from_s, until_s = self._window(math.inf)
        return sum(from_s < at_s <= until_s for at_s in done) / (until_s - from_s)

    def _steady(self, done: Sequence[float], fault_s: float) -> float:
        """Return the answers per second of the time in which the client keeps the service busy."""
        if self.plan.due_s is not None:
            return self._throughput(done)
        from_s, until_s = self._window(fault_s)
        counted = [at_s for at_s in done if from_s < at_s <= until_s]
        if len(counted) < 2:
            return 0.0
        from_s, until_s = counted[0], counted[-1]  # so that no part of an answer counts
        changes = sorted([(s, 1) for s in self._arrived.values()] + [(s, -1) for s in done])
        count = open_now = 0
        busy_s, before_s = 0.0, from_s
        for at_s, change in changes:
            if from_s < at_s <= until_s:
                if 2 * open_now >= self._most_open:
                    busy_s += at_s - before_s
                    count += change < 0
                before_s = at_s
            open_now += change
        return count / busy_s if busy_s else 0.0

    def _window(self, end_s: float) -> tuple[float, float]:
        length_s = self.plan.duration_s
        return self.began_s + WARM_UP * length_s, self.began_s + min(end_s, length_s)


def _p99(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] if ordered else NEVER_S


def simulate(network: Network, planned: Plan, load: Load) -> Result:
    """Return the result of a run of the plain client, computed at once; no fault happens."""
    tally = Tally(planned)
    peers = [f"{n}" for n in range(load.servers * load.connections)]
    serials = itertools.count()
    ready: list[tuple[float, int]] = []
    """When the client sends its next call: a time for each place, or each due time."""
    now_s = 0.0

    def finish(serial: int, at_s: float) -> None:
        tally.ended(serial, at_s)
        if planned.due_s is None and at_s < planned.duration_s:
            heapq.heappush(ready, (at_s, next(serials)))

    if planned.due_s is None:
        ready += [(0.0, next(serials)) for _ in range(load.in_flight)]
    else:
        ready += [(due_s, next(serials)) for due_s in planned.due_s]
    while ready or network.next_s < math.inf:
        if ready and ready[0][0] <= network.next_s:
            now_s, serial = heapq.heappop(ready)
            tally.arrived(serial, now_s)
            call = planned.call(serial, peers[serial % len(peers)])
            network.arrive(call, now_s, functools.partial(finish, serial))
        else:
            network.advance(network.next_s)
    return tally.result(network.processor_s)
