"""The closed loop played through, call by call, in simulated time.

For what no formula says: calls that hold a thread of the pool while they wait for a lock,
a lock for each key when some keys are hotter, service times that are constant. It takes
the server's settings and nothing that was measured.

A call waits for a thread of the pool and keeps it to the end; waits for a processor and
computes; waits for its lock, if it takes one, and holds it through the disk time. Each
queue is served in the order of arrival.
"""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

# SimPy, because a call here is at two places at once: it holds a thread while it queues for
# a lock, which is one `with` inside another. Libraries that route customers from queue to
# queue, such as Ciw, have no word for that. It is pure Python and depends on nothing.
import simpy

from kvstore.model import bounds, popularity
from kvstore.model.prediction import Prediction, Station

LOCKINGS = ("global", "per_key", "per_key_held")
"""As the server calls them. "per_key" holds its lock for no simulated time."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """What is simulated, under the names that the server has for it.

    Raises `ValueError` naming the setting when one makes no sense.
    """

    read_delay_s: float = 0.010
    write_delay_s: float = 0.050
    locking: str = "global"
    threads: float = math.inf
    """Size of the pool; infinite for a server that starts every call at once."""
    read_share: float = 0.25
    """Share of the calls that retrieve."""
    keys: int = 8
    zipf_exponent: float = 0.0
    """How uneven the choice of keys is; 0 makes all alike."""
    cpu_s: float = 0.0
    """Processor time of a call."""
    cores: int = 1
    """Calls that can compute at once."""
    exponential: bool = False
    """Whether times vary exponentially around their means, or are constant."""

    def __post_init__(self) -> None:
        if self.locking not in LOCKINGS:
            raise ValueError(f"locking must be one of {LOCKINGS}, got {self.locking!r}")
        for name in ("read_delay_s", "write_delay_s", "cpu_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or more seconds, got {getattr(self, name)}")
        for name in ("threads", "cores"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if not 0 <= self.read_share <= 1:
            raise ValueError(f"read_share must be from 0 to 1, got {self.read_share}")
        popularity.hottest_share(self.keys, self.zipf_exponent)
        if not self.busy_s > 0:
            raise ValueError("disk and processor times add up to 0 s: nothing limits the rate")

    @property
    def disk_s(self) -> float:
        """Mean disk time of a call, in seconds."""
        return self.read_share * self.read_delay_s + (1 - self.read_share) * self.write_delay_s

    @property
    def busy_s(self) -> float:
        """Mean seconds of a call that waits for nobody."""
        return self.disk_s + self.cpu_s

    def limits(self) -> list[Station]:
        """The stations that could bind, each with the time that a call holds it."""
        stations = [Station("cpu", self.cpu_s, self.cores)]
        if self.locking == "global":
            stations.append(Station("global lock", self.disk_s))
        if self.locking == "per_key_held":
            stations.append(
                popularity.hottest_lock(
                    self.keys,
                    self.zipf_exponent,
                    hold_s=self.write_delay_s,
                    locking_share=1 - self.read_share,
                )
            )
        # Last: where the pool binds no sooner than a lock does, the lock is the cause.
        return [*stations, Station("pool", self.busy_s, self.threads)]


def bound(in_flight: int, service: Service, think_s: float = 0.0) -> Prediction:
    """The asymptotic bound of what `closed_loop` plays through, with its reason."""
    found = (
        bounds.closed_loop(
            in_flight,
            [limit, Station("the rest", max(0.0, service.busy_s - limit.demand_s), math.inf)],
            think_s,
        )
        for limit in service.limits()
    )
    return min(found, key=lambda prediction: prediction.value)


class Call(NamedTuple):
    """When one call passed each place; seconds of simulated time."""

    sent_s: float
    began_s: float
    """It got a thread of the pool."""
    computed_s: float
    """It had its processor time."""
    locked_s: float
    """It got its lock, or needed none."""
    done_s: float


@dataclass(frozen=True)
class Simulated:
    """What happened: every call, and the window in which they count."""

    calls: tuple[Call, ...]
    """In the order of their answers, those of the warm-up and the last ones in flight too."""
    begin_s: float
    end_s: float

    @cached_property
    def counted(self) -> tuple[Call, ...]:
        """The calls that were answered in the window."""
        return tuple(call for call in self.calls if self.begin_s <= call.done_s < self.end_s)

    @property
    def throughput_per_s(self) -> float:
        """Calls answered for each second of the window."""
        return len(self.counted) / (self.end_s - self.begin_s)

    @property
    def residence_s(self) -> float:
        """Mean seconds from sending a call to its answer."""
        return sum(call.done_s - call.sent_s for call in self.counted) / len(self.counted)

    @property
    def station_s(self) -> dict[str, float]:
        """Mean seconds of a call at each place; they add up to its residence time.

        At "pool" and "lock" it only waits; at "cpu" it waits and computes; nobody waits
        at the disk.
        """
        return {
            name: sum(call[place + 1] - call[place] for call in self.counted) / len(self.counted)
            for place, name in enumerate(("pool", "cpu", "lock", "disk"))
        }

    @property
    def prediction(self) -> Prediction:
        """Calls per second, as the other models say it."""
        name, stay_s = max(self.station_s.items(), key=lambda item: item[1])
        return Prediction(
            self.throughput_per_s,
            "calls/s",
            f"{len(self.counted):,} calls simulated, {stay_s / self.residence_s:.0%} of their"
            f" time at the {name}",
        )


def closed_loop(
    in_flight: int, service: Service, *, calls: int = 10_000, think_s: float = 0.0, seed: int = 1
) -> Simulated:
    """Play `in_flight` callers who each wait for an answer before the next call.

    After a warm-up of a tenth of them, `calls` calls count. The same seed plays the same.
    Raises `ValueError` for less than one caller or call.
    """
    if in_flight != int(in_flight) or not in_flight >= 1:
        raise ValueError(f"in_flight must be a whole number of 1 or more, got {in_flight}")
    if not calls >= in_flight:
        raise ValueError(f"calls must be as many as are in flight or more, got {calls}")
    if not 0 <= think_s < math.inf:
        raise ValueError(f"think_s must be 0 or more seconds, got {think_s}")
    play = _Play(int(in_flight), service, random.Random(seed))
    warm_up = max(calls // 10, int(in_flight))
    for _ in range(int(in_flight)):
        play.env.process(play.caller(warm_up + calls, think_s))
    play.env.run()
    answered = play.answered
    # From one answer to another, the first with all of its moment and the last with none:
    # constant times answer many calls at once, and half of such a moment would not be fair.
    return Simulated(
        tuple(answered), answered[warm_up - 1].done_s, answered[warm_up + calls - 1].done_s
    )


def joined(
    joins_s: Sequence[float],
    service: Service,
    until_s: float,
    *,
    think_s: float = 0.0,
    seed: int = 1,
) -> tuple[Call, ...]:
    """Play callers who join one after the other, each at its second; nobody calls after `until_s`.

    All their calls, in the order of their answers. Raises `ValueError` when nobody joins, and
    for times that make no sense.
    """
    if not joins_s or not all(0 <= at_s < math.inf for at_s in joins_s):
        raise ValueError(f"joins_s must be one second or more, each 0 or later, got {joins_s}")
    if not 0 < until_s < math.inf or not 0 <= think_s < math.inf:
        raise ValueError(f"until_s must be above 0 and think_s 0 or more, got {until_s}, {think_s}")
    play = _Play(len(joins_s), service, random.Random(seed))
    for at_s in joins_s:
        play.env.process(play.guest(at_s, until_s, think_s))
    play.env.run()
    return tuple(play.answered)


class _Play:
    """The places, and the way of a call through them."""

    def __init__(self, in_flight: int, service: Service, rng: random.Random) -> None:
        self.env = simpy.Environment()
        self.answered: list[Call] = []
        self._service = service
        self._rng = rng
        self._in_flight = in_flight
        self._pool = self._place(service.threads)
        self._cpu = self._place(service.cores)
        self._free = self._place(math.inf)
        self._lock = self._place(1)
        self._key_locks: defaultdict[int, simpy.Resource] = defaultdict(lambda: self._place(1))
        shares = popularity.shares(service.keys, service.zipf_exponent)
        self._up_to = list(itertools.accumulate(shares.tolist()))

    def caller(self, until: int, think_s: float) -> Generator[simpy.Event, object, None]:
        """Call again and again until so many calls of all callers are answered."""
        while len(self.answered) < until:
            yield self.env.timeout(self._drawn(think_s))
            yield from self._call()

    def guest(
        self, joins_s: float, until_s: float, think_s: float
    ) -> Generator[simpy.Event, object, None]:
        """Come at this time, and call again and again until that one."""
        yield self.env.timeout(joins_s)
        while self.env.now < until_s:
            yield from self._call()
            yield self.env.timeout(self._drawn(think_s))

    def _call(self) -> Iterator[simpy.Event]:
        sent_s = self.env.now
        reads = self._rng.random() < self._service.read_share
        lock = self._lock_for(reads)
        disk_s = self._service.read_delay_s if reads else self._service.write_delay_s
        with self._pool.request() as thread:
            yield thread
            began_s = self.env.now
            with self._cpu.request() as core:
                yield core
                yield self.env.timeout(self._drawn(self._service.cpu_s))
            computed_s = self.env.now
            with lock.request() as turn:
                yield turn
                locked_s = self.env.now
                yield self.env.timeout(self._drawn(disk_s))
        self.answered.append(Call(sent_s, began_s, computed_s, locked_s, self.env.now))

    def _lock_for(self, reads: bool) -> simpy.Resource:
        if self._service.locking == "global":
            return self._lock
        if self._service.locking == "per_key_held" and not reads:
            (key,) = self._rng.choices(range(self._service.keys), cum_weights=self._up_to)
            return self._key_locks[key]
        return self._free

    def _place(self, servers: float) -> simpy.Resource:
        """A place that serves so many at once; with as many as there are calls, nobody waits."""
        return simpy.Resource(self.env, int(min(servers, self._in_flight)))

    def _drawn(self, mean_s: float) -> float:
        if self._service.exponential and mean_s:
            return self._rng.expovariate(1 / mean_s)
        return mean_s
