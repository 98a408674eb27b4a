"""Simulated reads of lesson 11: at disks that stall, and hedged at replicas that have queues."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]

STALL_S, EVERY_S, READ_S, RATE_PER_S, CALLS = 0.4, 4.0, 0.005, 50.0, 400
"""The server of round 1, and the reads that are due there."""
PERIODS_S: Final = (0.5, 0.66, 0.81)
"""The seconds from one stall to the next of each replica of round 2."""


def arrivals_s(rate_per_s: float, calls: int, rng: np.random.Generator) -> Seconds:
    """Return random arrivals, in seconds from the start."""
    return rng.exponential(1 / rate_per_s, calls).cumsum()


def left_s(at_s: Seconds, stall_s: Seconds | float, every_s: Seconds | float) -> Seconds:
    """Return how long a stall still lasts at each time; it begins every `every_s` seconds."""
    return np.maximum(0.0, stall_s - at_s % every_s)


def stalled_p99_s(rng: np.random.Generator) -> float:
    """Return the p99 of one run of round 1, from the due times."""
    at_s = arrivals_s(RATE_PER_S, CALLS, rng) + rng.uniform(0, EVERY_S)
    return float(np.quantile(READ_S + left_s(at_s, STALL_S, EVERY_S), 0.99))


def slow_share_at_replicas(rng: np.random.Generator, after_s: float = 0.050) -> float:
    """Return the share of reads over 100 ms in one run of round 2, hedged after `after_s`."""
    due_s, periods_s = arrivals_s(60, CALLS, rng), np.array(PERIODS_S)
    phases_s = rng.uniform(0, periods_s)
    first = rng.integers(0, len(periods_s), CALLS)
    second = (first + rng.integers(1, len(periods_s), CALLS)) % len(periods_s)
    took_s = []
    for server, sent_s in ((first, due_s), (second, due_s + after_s)):
        every_s = periods_s[server]
        wait_s = left_s(sent_s + phases_s[server], 0.1 * every_s + 0.08, every_s)
        took_s.append(sent_s - due_s + wait_s + 0.020)
    return float((np.minimum(*took_s) > 0.1).mean())


class Hedged(NamedTuple):
    """Simulated reads at replicas."""

    took_s: Seconds
    hedged: int
    """Reads that were sent twice."""
    began: int
    """Copies on which a worker began."""


def hedged_reads(
    arrivals: Sequence[float],
    work_s: Callable[[], float],
    after_s: float,
    rng: np.random.Generator,
    *,
    replicas: int = 2,
    workers: int = 4,
) -> Hedged:
    """Simulate reads at a drawn replica, and at the next one, too, after `after_s` without a reply.

    Each copy needs `work_s()` of one worker. A copy that waits when its read has ended never runs;
    one that has begun runs to its end.
    """
    events = [(at_s, number, "first", number) for number, at_s in enumerate(arrivals)]
    order = itertools.count(len(events))
    first = rng.integers(0, replicas, len(events)).tolist()
    free, queues = [workers] * replicas, [deque[int]() for _ in range(replicas)]
    took_s, hedged, began = np.full(len(events), np.nan), 0, 0
    while events:
        at_s, _, what, place = heapq.heappop(events)
        if what == "ended":
            read, server = divmod(place, replicas)
            free[server] += 1
            if np.isnan(took_s[read]):
                took_s[read] = at_s - arrivals[read]
        elif what == "first" or np.isnan(took_s[place]):
            server = (first[place] + (what == "second")) % replicas
            queues[server].append(place)
            hedged += what == "second"
            if what == "first":
                heapq.heappush(events, (at_s + after_s, next(order), "second", place))
        else:
            continue
        while free[server] and queues[server]:
            read = queues[server].popleft()
            if np.isnan(took_s[read]):
                free[server] -= 1
                began += 1
                end_s = at_s + work_s()
                heapq.heappush(events, (end_s, next(order), "ended", read * replicas + server))
    return Hedged(took_s, hedged, began)
