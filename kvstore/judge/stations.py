"""The stations of a service, as a queueing network that is advanced event by event.

Time is an argument everywhere. The service process advances a network to the time of its clock;
a simulation advances it at once. Times of events are computed, never measured, so a late timer
delays one reply and does not change the throughput.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kvstore.protocol import CREATE, RETRIEVE, UPDATE

(
    STREAMS, RETRIES, POOL, LINK, PROCESSOR, LOCK, HOT_KEY, DISK, LOG, BACK_END,
) = STATIONS = (
    "stream cap", "retries", "pool", "message size", "processor", "global lock", "hot key",
    "disk", "commit log", "back end",
)  # fmt: skip
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
