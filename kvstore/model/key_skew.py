"""Unevenly used keys: the lock of the hottest key, and the share of the busiest of several servers.

With s servers of one lock each, throughput is at most 1 / (q_max S): q_max is the share of the
calls at the busiest server, and S the service time. Evenly spread calls give q_max = 1 / s, and
throughput grows with s. A hot key limits this growth.
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

from kvstore.model.prediction import Prediction, Station


def shares(keys: int, exponent: float = 0.0) -> npt.NDArray[np.float64]:
    """Return the share of the calls for each of `keys` keys, the hottest key first.

    Zipf's law: the share of key k is in proportion to k ** -exponent; the shares sum to 1. With
    exponent 0 all shares are equal. Raises `ValueError` for fewer than one key, or an exponent
    that is negative or infinite.
    """
    if not keys >= 1:
        raise ValueError(f"keys must be 1 or more, got {keys}")
    if not 0 <= exponent < math.inf:
        raise ValueError(f"exponent must be 0 or more and finite, got {exponent}")
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return weights / float(weights.sum())


def hottest_share(keys: int, exponent: float = 0.0) -> float:
    """Return p_max, the share of the calls for the hottest of n = `keys` keys.

    p_max = 1 / (1 + 2**-a + ... + n**-a) with a = `exponent`; 1 / n for exponent 0. Raises the
    errors of `shares`.
    """
    return float(shares(keys, exponent)[0])


def hottest_lock(
    keys: int, exponent: float = 0.0, *, hold_s: float, locking_share: float = 1.0
) -> Station:
    """Return the lock of the hottest key as a station with D = p_max * locking_share * hold_s.

    `hold_s` is the time in seconds for which a call holds its lock. `locking_share` is the share
    of the calls that take a lock: the share of writes if reads take none. Throughput is at most
    1 / D calls per second.
    """
    demand_s = hottest_share(keys, exponent) * locking_share * hold_s
    return Station("lock of the hottest key", demand_s)


Shares = Sequence[float]
"""The share of the calls for each server; the shares sum to 1."""


def even(servers: int) -> list[float]:
    """Return equal shares, 1 / s for each of s servers. Raises `ValueError` for s below 1."""
    return uneven(servers, 1 / servers if servers else 0.0)


def uneven(servers: int, busiest_share: float) -> list[float]:
    """Return shares with `busiest_share` for the first server and equal shares for all others.

    Raises `ValueError` for fewer than one server, or a share below 1 / s or above 1.
    """
    if not servers >= 1:
        raise ValueError(f"servers must be 1 or more, got {servers}")
    if not 1 / servers <= busiest_share <= 1 or (servers == 1 and busiest_share < 1):
        raise ValueError(
            f"busiest_share must be from 1/{servers} to 1, got {busiest_share}: the busiest of"
            f" {servers} servers gets at least an equal share"
        )
    return [busiest_share, *[(1 - busiest_share) / max(1, servers - 1)] * (servers - 1)]


def busiest_share(servers: int, hottest_share: float) -> float:
    """Return the share of the server with the hottest key: q + (1 - q) / s.

    A hash assigns keys to s = `servers` servers. The server of the hottest key gets its share q =
    `hottest_share`, and on average 1 / s of all other calls. So s servers give at most
    1 / (q + (1 - q) / s) times the throughput of one server, and never more than 1 / q times.
    Raises `ValueError` for fewer than one server, or a share that is not from 0 to 1.
    """
    if not servers >= 1:
        raise ValueError(f"servers must be 1 or more, got {servers}")
    if not 0 <= hottest_share <= 1:
        raise ValueError(f"hottest_share must be from 0 to 1, got {hottest_share}")
    return hottest_share + (1 - hottest_share) / servers


def by_hash(keys: int, exponent: float, servers: int) -> list[float]:
    """Return the share of each server if a hash (CRC-32) assigns `keys` keys to the servers.

    The keys are used by Zipf's law, see `shares`. With exponent 0 the shares are almost equal.
    With an exponent near 1 the server of the hottest key has about the share `busiest_share`.
    Raises the errors of `shares`, and `ValueError` for fewer than one server.
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
    """Return the servers as stations for `bounds` and `mva`: D_i = q_i S, in seconds."""
    return [
        Station(f"server {number}", share * service_s)
        for number, share in enumerate(shares_of_servers)
    ]


@dataclass(frozen=True)
class Played:
    """A simulated closed loop with several servers."""

    answered_s: npt.NDArray[np.float64]
    """Simulated seconds at which calls were answered, in order, including the warm-up."""
    server: npt.NDArray[np.int32]
    """The number of the server that answered each call."""
    warm_up: int
    """The number of replies at the start that do not count."""

    @property
    def throughput_per_s(self) -> float:
        """X: calls answered per second after the warm-up."""
        begin_s, end_s = self.answered_s[max(0, self.warm_up - 1)], self.answered_s[-1]
        begin_s = begin_s if self.warm_up else 0.0
        return float((len(self.answered_s) - self.warm_up) / (end_s - begin_s))

    @property
    def prediction(self) -> Prediction:
        """The throughput in calls per second as a prediction."""
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
        """Return the middle of each time slice in seconds, and the calls per second in it."""
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
    """Simulate `in_flight` callers, each of which waits for a reply before the next call.

    The server of each call is drawn from the shares. A call takes `service_s` seconds there, or
    with `exponential` an exponential time with this mean. After `warm_up` calls, `calls` calls
    count. The default for `warm_up` is a tenth of `calls`, and at least one for each caller. The
    same seed gives the same result. Raises `ValueError` for fewer than one caller or call, shares
    that do not sum to 1, or a service time that is not above 0.
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
    """Yield every reply in order: its time in simulated seconds, and the number of its server."""
    servers, up_to = range(len(shares_of_servers)), [*itertools.accumulate(shares_of_servers)]
    free_s = [0.0 for _ in servers]  # when each server has finished all calls sent to it
    under_way: list[tuple[float, int, int]] = []  # a heap, the next reply first
    now_s = 0.0
    for number in itertools.count():
        (server,) = rng.choices(servers, cum_weights=up_to)
        free_s[server] = max(now_s, free_s[server]) + takes_s()
        heapq.heappush(under_way, (free_s[server], number, server))
        if len(under_way) == in_flight:  # all callers wait for a reply
            now_s, _, answered = heapq.heappop(under_way)
            yield now_s, answered
