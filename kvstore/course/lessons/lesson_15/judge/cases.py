"""Services drawn at random: their stations, their faults, and what they must reach.

The scale of a case, its target and its fault are drawn first, and in the same way whatever the
bottleneck is. So the brief says nothing about the bottleneck.
"""

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kvstore.protocol import CREATE, RETRIEVE, UPDATE

# The stations of a service, as a queueing network that is advanced event by event.
#
# Time is an argument everywhere. The service process advances a network to the time of its clock;
# a simulation advances it at once. Times of events are computed, never measured, so a late timer
# delays one reply and does not change the throughput.


(
    STREAMS,
    RETRIES,
    POOL,
    LINK,
    PROCESSOR,
    LOCK,
    HOT_KEY,
    DISK,
    LOG,
    BACK_END,
) = STATIONS = (
    "stream cap",
    "retries",
    "pool",
    "message size",
    "processor",
    "global lock",
    "hot key",
    "disk",
    "commit log",
    "back end",
)
"""The stations that can be the bottleneck, in the order of a call.

A call holds its place at the stream cap and in the pool until its reply is sent. `retries` is a
proxy that sends each call several times. Reads use the disk; updates and creates use the commit
log; creates also use the back end."""

READ_DELAY, WRITE_DELAY = 0.6, 1.4
"""Share of a case's plain delay that a read takes, and a write: no call waits for it."""


class Width(NamedTuple):
    """One station: how many calls it serves at a time, and for how long each."""

    servers: float
    service_s: float
    """Seconds for one visit; per byte at `LINK`, per attempt at `RETRIES`. Not used at stations
    whose place is held."""
    group: int = 1
    """The most calls that one service completes together: above 1 in a group commit."""


class Call(NamedTuple):
    """What the network must know of one call."""

    kind: int
    item: int
    value_bytes: int
    peer: str
    """The connection on which it came."""


Done = Callable[[float], None]
"""A function of the time at which a call has finished, in seconds."""


class _Visit:
    """One call on its way through the network."""

    __slots__ = ("done", "held", "place", "steps")

    def __init__(self, steps: "Sequence[tuple[_Station, float]]", done: Done) -> None:
        self.steps = steps
        self.done = done
        self.place = 0
        self.held: list[_Station] = []


class _Station:
    """Servers with one queue in order of arrival."""

    __slots__ = ("busy_s", "free", "group", "holds", "waiting")

    def __init__(self, servers: float, *, group: int = 1, holds: bool = False) -> None:
        self.free = servers
        self.group = group
        self.holds = holds
        """Whether a call keeps its place until it has left the network."""
        self.waiting: deque[_Visit] = deque()
        self.busy_s = 0.0
        """Sum of all services begun, in seconds."""


class Network:
    """The stations of one service. All times are seconds of one clock, in any order of calls.

    `widths` has a `Width` for each of `STATIONS`; `delay_s` is the plain delay of a call, and
    `attempts` is how often the proxy sends each call.
    """

    def __init__(self, widths: dict[str, Width], delay_s: float, attempts: int) -> None:
        self._widths = widths
        self._delay_s = delay_s
        self._attempts = attempts
        self._stations = {
            name: _Station(width.servers, group=width.group, holds=name == POOL)
            for name, width in widths.items()
        }
        self._delay = _Station(math.inf)
        self._streams: dict[str, _Station] = {}
        self._items: dict[int, _Station] = {}
        self._events: list[tuple[float, int, _Station, list[_Visit]]] = []
        self._order = itertools.count()

    @property
    def processor_s(self) -> float:
        """Seconds of processor time that calls have used so far."""
        return self._stations[PROCESSOR].busy_s

    @property
    def next_s(self) -> float:
        """The time of the next event; infinite without one."""
        return self._events[0][0] if self._events else math.inf

    def arrive(self, call: Call, at_s: float, done: Done) -> None:
        """Let a call arrive; `done` is called when it has finished, by a later `advance`."""
        self.advance(at_s)
        self._enter(_Visit(self._steps(call), done), at_s)

    def advance(self, until_s: float) -> None:
        """Let everything happen that happens up to this time."""
        while self._events and self._events[0][0] <= until_s:
            at_s, _, station, served = heapq.heappop(self._events)
            station.free += 1
            self._begin(station, at_s)
            for visit in served:
                visit.place += 1
                self._enter(visit, at_s)

    def _steps(self, call: Call) -> "list[tuple[_Station, float]]":
        """The stations that this call visits, and the seconds of each visit."""
        width, station = self._widths, self._stations
        streams = self._streams.setdefault(call.peer, _Station(width[STREAMS].servers, holds=True))
        hot = self._items.setdefault(call.item, _Station(width[HOT_KEY].servers))
        read = call.kind == RETRIEVE
        steps = [
            (streams, 0.0),
            (station[RETRIES], self._attempts * width[RETRIES].service_s),
            (station[POOL], 0.0),
            (station[LINK], call.value_bytes * width[LINK].service_s),
            (station[PROCESSOR], width[PROCESSOR].service_s),
            (station[LOCK], width[LOCK].service_s),
            (hot, width[HOT_KEY].service_s),
        ]
        steps += [(station[name], width[name].service_s) for name in USED_BY[call.kind]]
        steps.append((self._delay, self._delay_s * (READ_DELAY if read else WRITE_DELAY)))
        return steps

    def _enter(self, visit: _Visit, at_s: float) -> None:
        if visit.place == len(visit.steps):
            for station in visit.held:
                station.free += 1
                self._begin(station, at_s)
            visit.done(at_s)
            return
        station = visit.steps[visit.place][0]
        station.waiting.append(visit)
        self._begin(station, at_s)

    def _begin(self, station: _Station, at_s: float) -> None:
        """Serve the calls that wait, as far as servers are free."""
        while station.waiting and station.free >= 1:
            station.free -= 1
            if station.holds:
                visit = station.waiting.popleft()
                visit.held.append(station)
                visit.place += 1
                self._enter(visit, at_s)
                continue
            count = min(station.group, len(station.waiting))
            served = [station.waiting.popleft() for _ in range(count)]
            service_s = max(visit.steps[visit.place][1] for visit in served)
            station.busy_s += service_s
            heapq.heappush(self._events, (at_s + service_s, next(self._order), station, served))


USED_BY: Final = {RETRIEVE: (DISK,), UPDATE: (LOG,), CREATE: (LOG, BACK_END)}
"""The stations that only some kinds of operations visit."""


MIX: Final = {RETRIEVE: 0.5, UPDATE: 0.3, CREATE: 0.2}
"""Share of each kind of operation in the traffic."""
ITEMS, HOT_SHARE = 60, 0.4
"""Items that the traffic uses, and the share of the calls that use the first of them."""
VALUE_BYTES = 4096
"""Bytes of a value in the traffic: every read, update and create carries one."""
MOST_IN_FLIGHT = 26
"""The most calls that a client may have in flight in a closed loop, and in a measurement."""
P99_S = 2.0
"""The largest p99 in an open loop, in seconds from the due time."""
ATTEMPTS = 5
"""How often the proxy in front sends each call: it does not wait long enough for the answer."""
WIDER = 8
"""How many times as wide a change makes its station."""

CHANGES: Final = {
    "more streams": (STREAMS, "allow 8 times as many open calls for each connection"),
    "stop the retries": (RETRIES, "the proxy in front sends each call once"),
    "more threads": (POOL, "8 times as many worker threads"),
    "compress": (LINK, "values travel in an eighth of their size"),
    "more cores": (PROCESSOR, "8 processor cores in place of one"),
    "split the lock": (LOCK, "8 locks, each for a part of the data"),
    "spread the hot key": (HOT_KEY, "each item has 8 copies with a lock each"),
    "faster disk": (DISK, "reads take an eighth of their time"),
    "group commit": (LOG, "up to 8 writes that wait share one commit"),
    "more connections": (BACK_END, "8 times as many connections to the back end"),
}
"""The changes on offer, the same for every service: the station that each widens, and how."""
_SHORTEN: Final = {LINK, DISK}
"""Stations that a change makes faster. The others serve more calls at a time."""


@dataclass(frozen=True)
class Case:
    """One service. The judge's process keeps it to itself until the score is final."""

    first: str
    """The bottleneck."""
    second: str | None
    """The station that is within 20 % of it; None in the cases that have none."""
    widths: dict[str, Width]
    delay_s: float
    """Mean time of a call in which it waits for nothing."""
    growth: float
    """The load to be served, in multiples of what the service does at the start."""
    open_loop: bool
    """Whether calls arrive at a rate, with a p99 as the target; else a closed loop with a
    throughput as the target."""
    fault: str | None
    """ "stall", "goes" or None: what happens to one of the two servers in mid-run."""
    fault_at: float
    """When the fault begins, as a share of the run."""

    def network(self, changes: Sequence[str] = (), attempts: int = ATTEMPTS) -> Network:
        """Return the stations after these changes; the proxy sends each call `attempts` times."""
        widths = dict(self.widths)
        for change in changes:
            name = CHANGES[change][0]
            if name == RETRIES:
                attempts = 1
            widths[name] = _wider(name, widths[name])
        return Network(widths, self.delay_s, attempts)

    def cures(self) -> list[str]:
        """Return the changes that widen the bottleneck and the station close to it."""
        return [
            change for change, (name, _) in CHANGES.items() if name in (self.first, self.second)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return everything by name, ready for JSON."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__ if name != "widths"},
            "widths": {name: width._asdict() for name, width in self.widths.items()},
        }


def _wider(name: str, width: Width) -> Width:
    if name == RETRIES:
        return width  # the change is fewer attempts
    if name == LOG:
        return width._replace(group=WIDER)
    if name in _SHORTEN:
        return width._replace(service_s=width.service_s / WIDER)
    return width._replace(servers=width.servers * WIDER)


def draw(rng: random.Random, first: str | None = None, second: str | None = None) -> Case:
    """Draw a case. `first` and `second` force its stations, for tests; the rest stays the same."""
    start_per_s = rng.uniform(40.0, 70.0)
    growth = round(rng.uniform(1.55, 1.8), 1)
    open_loop = rng.random() < 0.5
    fault = rng.choice(("stall", "goes")) if rng.random() < 1 / 3 else None
    fault_at = rng.uniform(0.5, 0.65)
    parts = random.Random(rng.getrandbits(64))  # what follows shifts nothing above
    drawn = parts.sample(STATIONS, 2)
    has_second = parts.random() < 0.8
    if first is None:
        first, second = drawn[0], drawn[1] if has_second else None
        if first == PROCESSOR and second == LOCK:
            first, second = second, first  # else no measurement could show the lock
    per_s = {name: start_per_s * parts.uniform(6.0, 10.0) for name in STATIONS}
    per_s[first] = start_per_s
    if second is not None:
        per_s[second] = start_per_s * parts.uniform(1.09, 1.2)
    in_service = _calls_in_service(parts, first, second)
    whole_s = in_service / per_s[first]
    if second is not None and second in _HELD and first not in _HELD:
        whole_s = in_service / per_s[second]
    widths = _widths(per_s, whole_s)
    if second is not None and {first, second} == _HELD:  # both limit the calls in service
        widths[second] = _limit(second, in_service + 1)
    case = Case(first, second, widths, 1.0, growth, open_loop, fault, fault_at)
    return replace(case, delay_s=whole_s - sum(demands(case).values()))


_HELD: Final = {STREAMS, POOL}
"""Stations whose capacity is a number of calls over the time of a whole call."""
_VISITS: Final = {
    DISK: MIX[RETRIEVE],
    LOG: 1 - MIX[RETRIEVE],
    BACK_END: MIX[CREATE],
    RETRIES: ATTEMPTS,
    LINK: VALUE_BYTES,
}
"""How often a call of the traffic uses the service time of a station, where it is not once."""
SERVERS = 2
"""Servers in front, each with an address: a client has one connection to each, or more."""


def _calls_in_service(parts: random.Random, first: str, second: str | None) -> int:
    """Draw the calls in flight at the knee; the stream cap of two servers must be even."""
    if STREAMS not in (first, second):
        return parts.randint(7, 9)
    if second == STREAMS and first == POOL:
        return 7
    return 8


def _limit(name: str, places: float) -> Width:
    return Width(max(1, round(places / SERVERS if name == STREAMS else places)), 0.0)


def _widths(per_s: dict[str, float], whole_s: float) -> dict[str, Width]:
    """Return the stations that let these rates of the whole traffic through."""
    shares = {**_VISITS, HOT_KEY: HOT_SHARE}
    widths = {}
    for name, rate in per_s.items():
        if name in _HELD:
            widths[name] = _limit(name, rate * whole_s)
        else:
            servers = 2 if name == BACK_END else 1
            widths[name] = Width(servers, servers / (rate * shares.get(name, 1.0)))
    return widths


def demands(case: Case) -> dict[str, float]:
    """Return the mean seconds in service of a call of the traffic, at each station."""
    return {name: _VISITS.get(name, 1.0) * each.service_s for name, each in case.widths.items()}
