"""Simulate a closed loop or an open loop call by call, in simulated time.

For cases without a formula: calls that hold a thread of the pool while they wait for a lock, a
lock for each key with unevenly used keys. Service times are constant. The input is the settings of
the server, nothing that was measured.

A call waits for a thread of the pool and keeps it until its end. It waits for a core and uses CPU
time. It waits for its lock, if it needs one, and holds the lock during its disk time. Each queue
is served in order of arrival.
"""

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

# SimPy, because a call holds a thread while it queues for a lock: one `with` inside another.
# Libraries that route customers from queue to queue, such as Ciw, cannot express this. SimPy is
# pure Python without dependencies.
import simpy

from kvstore.model import scaling

LOCKINGS = ("global", "per_key", "per_key_held")
"""The names of the server's settings. "per_key" holds its lock for no simulated time."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """The settings of the simulated server, with the server's own names.

    Raises `ValueError` for a value out of range.
    """

    read_delay_s: float = 0.010
    write_delay_s: float = 0.050
    locking: str = "global"
    threads: float = math.inf
    """Size of the pool; infinite for a server that starts every call immediately."""
    read_share: float = 0.25
    """Share of the calls that retrieve."""
    keys: int = 8
    zipf_exponent: float = 0.0
    """Exponent of Zipf's law for the choice of keys; 0 makes all keys equally likely."""
    cpu_s: float = 0.0
    """CPU time of a call on the one core of the server, in seconds."""

    def __post_init__(self) -> None:
        if self.locking not in LOCKINGS:
            raise ValueError(f"locking must be one of {LOCKINGS}, got {self.locking!r}")
        for name in ("read_delay_s", "write_delay_s", "cpu_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or more seconds, got {getattr(self, name)}")
        if not self.threads >= 1:
            raise ValueError(f"threads must be 1 or more, got {self.threads}")
        if not 0 <= self.read_share <= 1:
            raise ValueError(f"read_share must be from 0 to 1, got {self.read_share}")
        scaling.shares(self.keys, self.zipf_exponent)
        if not self.read_delay_s + self.write_delay_s + self.cpu_s > 0:
            raise ValueError(
                "disk times and cpu_s add up to 0 s, so throughput has no bound: set one above 0"
            )


class Call(NamedTuple):
    """The times of one call, in simulated seconds."""

    sent_s: float
    began_s: float
    """When it got a thread of the pool."""
    done_s: float


@dataclass(frozen=True)
class Simulated:
    """The calls of a simulated closed loop that count."""

    counted: tuple[Call, ...]
    """In order of their ends, without the warm-up and the last calls in flight."""
    window_s: float
    """The seconds in which they ended."""

    @property
    def throughput_per_s(self) -> float:
        """X: calls answered per second of the window."""
        return len(self.counted) / self.window_s


def closed_loop(in_flight: int, service: Service, *, calls: int = 10_000) -> Simulated:
    """Simulate `in_flight` callers, each of which waits for a reply before the next call.

    After a warm-up of a tenth of them, `calls` calls count. The same arguments give the same
    result.
    Raises `ValueError` for fewer than one caller, or fewer calls than callers.
    """
    if in_flight != int(in_flight) or not in_flight >= 1:
        raise ValueError(f"in_flight must be a whole number of 1 or more, got {in_flight}")
    if not calls >= in_flight:
        raise ValueError(f"calls must be in_flight ({in_flight}) or more, got {calls}")
    play = _Play(int(in_flight), service)
    warm_up = max(calls // 10, int(in_flight))
    for _ in range(int(in_flight)):
        play.env.process(play.caller(lambda: len(play.answered) < warm_up + calls))
    play.env.run()
    # The window includes all replies at its first moment and none at its last. With constant
    # times many calls end at the same moment, which must not be divided.
    begin_s, end_s = (play.answered[last - 1].done_s for last in (warm_up, warm_up + calls))
    counted = (call for call in play.answered if begin_s <= call.done_s < end_s)
    return Simulated(tuple(counted), end_s - begin_s)


class _Play:
    """The stations, and the path of a call through them."""

    def __init__(self, in_flight: int, service: Service) -> None:
        self.env = simpy.Environment()
        self.answered: list[Call] = []
        self._service = service
        self._rng = random.Random(1)
        self._in_flight = in_flight
        self._pool = self._station(service.threads)
        self._cpu = self._station(1)
        self._free = self._station(math.inf)
        self._lock = self._station(1)
        self._key_locks: defaultdict[int, simpy.Resource] = defaultdict(lambda: self._station(1))
        shares = scaling.shares(service.keys, service.zipf_exponent)
        self._up_to = list(itertools.accumulate(shares.tolist()))

    def caller(
        self, goes_on: Callable[[], bool], joins_s: float = 0.0
    ) -> Generator[simpy.Event, object, None]:
        """Join at `joins_s`, and make calls as long as `goes_on` says so."""
        yield self.env.timeout(joins_s)
        while goes_on():
            yield from self._call()

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
                yield self.env.timeout(self._service.cpu_s)
            with lock.request() as turn:
                yield turn
                yield self.env.timeout(disk_s)
        self.answered.append(Call(sent_s, began_s, self.env.now))

    def _lock_for(self, reads: bool) -> simpy.Resource:
        if self._service.locking == "global":
            return self._lock
        if self._service.locking == "per_key_held" and not reads:
            (key,) = self._rng.choices(range(self._service.keys), cum_weights=self._up_to)
            return self._key_locks[key]
        return self._free

    def _station(self, servers: float) -> simpy.Resource:
        """Return a station that serves `servers` calls at once, at most all of them."""
        return simpy.Resource(self.env, int(min(servers, self._in_flight)))


# ---- open loop ----------------------------------------------------------------------------------
# Simulate an open loop call by call: calls arrive at their due times, answered or not.
#
# The input is due times and the settings of the server, nothing that was measured. Calls wait in
# one queue for a thread and keep the thread during their disk time. The server drops a call whose
# deadline has passed when a thread takes it, as gRPC's own server does.


_ROUNDING_S = 1e-9
"""Seconds. A call that ends exactly at its deadline is in time, in spite of rounding."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The settings of the simulated server. Raises `ValueError` for a value out of range."""

    threads: int
    disk_s: float

    def __post_init__(self) -> None:
        if self.threads != int(self.threads) or not self.threads >= 1:
            raise ValueError(f"threads must be a whole number of 1 or more, got {self.threads}")
        if not 0 <= self.disk_s < math.inf:
            raise ValueError(f"disk_s must be 0 or more seconds, got {self.disk_s}")


class OpenCall(NamedTuple):
    """The outcome of one call; times are simulated seconds."""

    due_s: float
    ended_s: float
    end: str
    """"in time", "late" (completed after its deadline) or "dropped" (not started)."""


@dataclass(frozen=True)
class Played:
    """A simulated open loop: every call, in order of due time."""

    calls: tuple[OpenCall, ...]

    @property
    def ends(self) -> Counter[str]:
        """The number of calls by outcome."""
        return Counter(call.end for call in self.calls)

    def goodput_per_s(self, offered_for_s: float) -> float:
        """Return the calls in time per second, over `offered_for_s` seconds."""
        return self.ends["in time"] / offered_for_s


def open_loop(
    due_s: Iterable[float],
    pool: Pool,
    *,
    deadline_s: float,
    until_s: float = math.inf,
    disk_times_s: Iterable[float] | None = None,
) -> Played:
    """Simulate the calls due before `until_s`, with a deadline for each call.

    `due_s` are the due times in seconds, in order. The deadline of a call is `deadline_s` seconds
    after its due time. `disk_times_s` are the disk times in seconds, in the order in which calls
    begin; without them, each is `pool.disk_s`. There must be one for each call that begins.
    """
    times_s = itertools.repeat(pool.disk_s) if disk_times_s is None else iter(disk_times_s)
    env = simpy.Environment()
    threads = simpy.Resource(env, pool.threads)
    ended: dict[int, OpenCall] = {}

    def one(number: int, due: float) -> Generator[simpy.Event, object, None]:
        with threads.request() as thread:
            yield thread
            if env.now >= due + deadline_s:
                ended[number] = OpenCall(due, env.now, "dropped")
            else:
                yield env.timeout(next(times_s))
                in_time = env.now - due <= deadline_s + _ROUNDING_S
                ended[number] = OpenCall(due, env.now, "in time" if in_time else "late")

    def arrivals() -> Generator[simpy.Event, object, None]:
        for number, due in enumerate(itertools.takewhile(lambda at_s: at_s < until_s, due_s)):
            yield env.timeout(max(0.0, due - env.now))
            env.process(one(number, due))

    env.process(arrivals())
    env.run()
    return Played(tuple(ended[number] for number in sorted(ended)))
