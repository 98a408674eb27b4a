"""Services drawn at random: their stations, their faults, and what they must reach.

The scale of a case, its target and its fault are drawn first, and in the same way whatever the
bottleneck is. So the letter says nothing about the bottleneck.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kvstore.judge import stations
from kvstore.judge.stations import STATIONS, Network, Width
from kvstore.protocol import CREATE, RETRIEVE, UPDATE

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
    "more streams": (stations.STREAMS, "allow 8 times as many open calls for each connection"),
    "stop the retries": (stations.RETRIES, "the proxy in front sends each call once"),
    "more threads": (stations.POOL, "8 times as many worker threads"),
    "compress": (stations.LINK, "values travel in an eighth of their size"),
    "more cores": (stations.PROCESSOR, "8 processor cores in place of one"),
    "split the lock": (stations.LOCK, "8 locks, each for a part of the data"),
    "spread the hot key": (stations.HOT_KEY, "each item has 8 copies with a lock each"),
    "faster disk": (stations.DISK, "reads take an eighth of their time"),
    "group commit": (stations.LOG, "up to 8 writes that wait share one commit"),
    "more connections": (stations.BACK_END, "8 times as many connections to the back end"),
}
"""The changes on offer, the same for every service: the station that each widens, and how."""
_SHORTEN: Final = {stations.LINK, stations.DISK}
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
            if name == stations.RETRIES:
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
    if name == stations.RETRIES:
        return width  # the change is fewer attempts
    if name == stations.LOG:
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
        if first == stations.PROCESSOR and second == stations.LOCK:
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
    if (
        second is not None and {first, second} == _HELD
    ):  # two limits on the calls in service: one more place
        widths[second] = _limit(second, in_service + 1)
    case = Case(first, second, widths, 1.0, growth, open_loop, fault, fault_at)
    return replace(case, delay_s=whole_s - sum(demands(case).values()))


_HELD: Final = {stations.STREAMS, stations.POOL}
"""Stations whose capacity is a number of calls over the time of a whole call."""
SERVERS = 2
"""Servers in front, each with an address: a client has one connection to each, or more."""


def _calls_in_service(parts: random.Random, first: str, second: str | None) -> int:
    """Draw the calls in flight at the knee; the stream cap of two servers must be even."""
    if stations.STREAMS not in (first, second):
        return parts.randint(7, 9)
    if second == stations.STREAMS and first == stations.POOL:
        return 7
    return 8


def _limit(name: str, places: float) -> Width:
    return Width(max(1, round(places / SERVERS if name == stations.STREAMS else places)), 0.0)


def _widths(per_s: dict[str, float], whole_s: float) -> dict[str, Width]:
    """Return the stations that let these rates of the whole traffic through."""
    shares = {
        stations.HOT_KEY: HOT_SHARE,
        stations.DISK: MIX[RETRIEVE],
        stations.LOG: 1 - MIX[RETRIEVE],
        stations.BACK_END: MIX[CREATE],
        stations.RETRIES: ATTEMPTS,
        stations.LINK: VALUE_BYTES,
    }
    found = {}
    for name, rate in per_s.items():
        if name in _HELD:
            found[name] = _limit(name, rate * whole_s)
        else:
            servers = 2 if name == stations.BACK_END else 1
            found[name] = Width(servers, servers / (rate * shares.get(name, 1.0)))
    return found


def demands(case: Case) -> dict[str, float]:
    """Return the mean seconds in service of a call of the traffic, at each station."""
    visits = {
        stations.DISK: MIX[RETRIEVE],
        stations.LOG: 1 - MIX[RETRIEVE],
        stations.BACK_END: MIX[CREATE],
        stations.RETRIES: ATTEMPTS,
        stations.LINK: VALUE_BYTES,
    }
    return {name: visits.get(name, 1.0) * each.service_s for name, each in case.widths.items()}
