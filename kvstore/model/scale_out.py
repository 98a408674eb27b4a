"""Many servers, each with one lock of its own: what more of them bring, and what uneven keys take.

Each call is for one server, chosen by the hash of its key, and waits there for its turn. So
the servers are the stations of one closed loop, and a server's demand is its share of the calls
times what a call takes: X <= min(N / S, 1 / (q S)) with q the share of the busiest (`bounds`).

`closed_loop` plays it through. With one queue at each server, served in the order of arrival, a
call that is sent at t is done at max(t, free) + S, with `free` the moment when the server has
done all that came before: no event but the answers is needed, so it plays ten thousand callers
in seconds, where the general `simulate` needs minutes. For one server both are the same.
"""

import functools
import heapq
import itertools
import math
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvstore.model.popularity import shares
from kvstore.model.prediction import Prediction, Station

Shares = Sequence[float]
"""For each server the share of the calls that is for it; they sum to 1."""


def even(servers: int) -> list[float]:
    """The shares where all servers get alike: 1 / s each."""
    return uneven(servers, 1 / servers if servers else 0.0)


def uneven(servers: int, busiest_share: float) -> list[float]:
    """The shares where the first server gets more, and all others alike.

    Raises `ValueError` for less than one server, or a share that cannot be the busiest one's.
    """
    if not servers >= 1:
        raise ValueError(f"servers must be 1 or more, got {servers}")
    if not 1 / servers <= busiest_share <= 1 or (servers == 1 and busiest_share < 1):
        raise ValueError(
            f"busiest_share must be from 1/{servers} to 1, got {busiest_share}: of {servers}"
            " servers the busiest gets at least its even share"
        )
    return [busiest_share, *[(1 - busiest_share) / max(1, servers - 1)] * (servers - 1)]


def by_hash(keys: int, exponent: float, servers: int) -> list[float]:
    """The shares where `keys` keys, asked for by Zipf's law, are spread by a hash (CRC-32).

    Keys alike come out nearly even; with an exponent near 1 the server that keeps the hottest
    key stands out (`popularity.hottest_share`), however many servers there are. Raises
    `ValueError` as `popularity.shares` does, and for less than one server.
    """
    if not servers >= 1:
        raise ValueError(f"servers must be 1 or more, got {servers}")
    server_of = _hashes(keys) % servers
    weights = np.bincount(server_of, weights=shares(keys, exponent), minlength=servers)
    return [float(each) for each in weights]


@functools.lru_cache(maxsize=4)
def _hashes(keys: int) -> npt.NDArray[np.int64]:
    return np.array([zlib.crc32(b"key %d" % number) for number in range(keys)], dtype=np.int64)


def stations(shares_of_servers: Shares, service_s: float) -> list[Station]:
    """The servers as stations of a closed loop, for `bounds` and `mva`: demand q S each."""
    return [
        Station(f"server {number}", share * service_s)
        for number, share in enumerate(shares_of_servers)
    ]


@dataclass(frozen=True)
class Played:
    """What happened: when each call was answered, in simulated seconds, and where."""

    answered_s: npt.NDArray[np.float64]
    """In order, those of the warm-up too."""
    server: npt.NDArray[np.int32]
    """Which server answered each of them."""
    warm_up: int
    """So many answers do not count."""

    @property
    def throughput_per_s(self) -> float:
        """Calls answered for each second after the warm-up."""
        begin_s, end_s = self.answered_s[max(0, self.warm_up - 1)], self.answered_s[-1]
        begin_s = begin_s if self.warm_up else 0.0
        return float((len(self.answered_s) - self.warm_up) / (end_s - begin_s))

    @property
    def prediction(self) -> Prediction:
        """Calls per second, as the other models say it."""
        count = len(self.answered_s) - self.warm_up
        answers = np.bincount(self.server[self.warm_up :])
        busiest = int(answers.argmax())
        return Prediction(
            self.throughput_per_s,
            "calls/s",
            f"{count:,} calls simulated, {answers[busiest] / count:.0%} of them by the busiest of"
            f" {len(answers)} servers",
            f"server {busiest}",
        )

    def rates(self, slices: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Calls answered per second over time: middle of each slice in seconds, and rate."""
        counts, edges = np.histogram(self.answered_s, bins=slices, range=(0, self.answered_s[-1]))
        return (edges[1:] + edges[:-1]) / 2, counts / np.diff(edges)


def closed_loop(
    in_flight: int,
    shares_of_servers: Shares,
    service_s: float,
    *,
    calls: int = 20_000,
    warm_up: int | None = None,
    exponential: bool = False,
    seed: int = 1,
) -> Played:
    """Play `in_flight` callers who each wait for an answer before the next call.

    Every call draws its server by the shares, and takes `service_s` seconds there, always or
    (`exponential`) on average. `calls` calls count, after a warm-up of a tenth of them, and at
    least one for each caller, unless `warm_up` says otherwise. The same seed plays the same.
    Raises `ValueError` for less than one caller or call, shares that do not sum to 1, or a
    time that is not above 0.
    """
    if in_flight != int(in_flight) or not in_flight >= 1:
        raise ValueError(f"in_flight must be a whole number of 1 or more, got {in_flight}")
    if not calls >= 1:
        raise ValueError(f"calls must be 1 or more, got {calls}")
    if not 0 < service_s < math.inf:
        raise ValueError(f"service_s must be above 0 seconds, got {service_s}")
    if not math.isclose(sum(shares_of_servers), 1) or not all(q >= 0 for q in shares_of_servers):
        raise ValueError(f"shares must be 0 or more and sum to 1, got {sum(shares_of_servers)}")
    rng = random.Random(seed)

    def takes_s() -> float:
        return rng.expovariate(1 / service_s) if exponential else service_s

    warm_up = max(calls // 10, int(in_flight)) if warm_up is None else warm_up
    answers = play(int(in_flight), shares_of_servers, takes_s, rng)
    served = np.fromiter(itertools.islice(answers, warm_up + calls), dtype="f8,i4")
    return Played(served["f0"], served["f1"], warm_up)


def play(
    in_flight: int, shares_of_servers: Shares, takes_s: Callable[[], float], rng: random.Random
) -> Iterator[tuple[float, int]]:
    """Every answer, in order: the second at which it came, and the server that gave it."""
    servers, up_to = range(len(shares_of_servers)), [*itertools.accumulate(shares_of_servers)]
    free_s = [0.0 for _ in servers]  # when each has done all that was sent to it
    under_way: list[tuple[float, int, int]] = []  # the next answer first
    now_s = 0.0
    for number in itertools.count():
        (server,) = rng.choices(servers, cum_weights=up_to)
        free_s[server] = max(now_s, free_s[server]) + takes_s()
        heapq.heappush(under_way, (free_s[server], number, server))
        if len(under_way) == in_flight:  # all callers wait: the next one whose answer comes
            now_s, _, answered = heapq.heappop(under_way)
            yield now_s, answered
