"""A simulation of round 1: a front that waits for a pool, and clients that try again."""

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from kvstore import numbers
from kvstore.model import Prediction, Station

BACK_END: Final = Station("thread pool", 0.080, 4)
WAITS_S: Final = 0.4
"""So long does the front wait for the pool, from the arrival of an attempt."""
ATTEMPTS: Final = 4
FIRST_PAUSE_S: Final = 0.02
JITTER: Final = 0.2
"""gRPC varies each pause by this share."""
RUNS: Final = 50


def failing_late(due_s: Sequence[float], rng: np.random.Generator) -> float:
    """Return how many of 100 calls fail of those due in the last third, in one simulated run.

    An attempt that the front has given up takes no thread if it still waits for one. One that has
    begun keeps its thread to the end.
    """
    order, queue, free = itertools.count(), deque[tuple[int, int]](), BACK_END.servers
    events = [(at_s, next(order), "sent", call, 1) for call, at_s in enumerate(due_s)]
    ended: set[tuple[int, int]] = set()
    answered = np.zeros(len(due_s), dtype=bool)
    while events:
        now_s, _, what, call, attempt = heapq.heappop(events)
        this = call, attempt
        if what == "sent":
            queue.append(this)
            heapq.heappush(events, (now_s + WAITS_S, next(order), "given up", *this))
        elif what == "done":
            free += 1
            answered[call] |= this not in ended
            ended.add(this)
        elif this not in ended:
            ended.add(this)
            if attempt < ATTEMPTS:
                pause_s = FIRST_PAUSE_S * 2 ** (attempt - 1) * rng.uniform(1 - JITTER, 1 + JITTER)
                heapq.heappush(events, (now_s + pause_s, next(order), "sent", call, attempt + 1))
        while free and queue:
            if (first := queue.popleft()) not in ended:
                free -= 1
                heapq.heappush(events, (now_s + BACK_END.demand_s, next(order), "done", *first))
    late = np.array(due_s) >= 2 / 3 * max(due_s)
    return 100 * float(1 - answered[late].mean())


def prediction(due_s: Sequence[float]) -> Prediction:
    """Return the mean of `RUNS` simulated runs of these calls, and where 90 % of them lie."""
    rng = np.random.default_rng()
    failing = [failing_late(due_s, rng) for _ in range(RUNS)]
    low, high = np.percentile(failing, [5, 95])
    return Prediction(
        float(np.mean(failing)),
        "calls",
        f"{RUNS} simulated runs: up to {ATTEMPTS} attempts for each call, and the pool serves"
        f" {numbers.rate(BACK_END.most_per_s)}; a few attempts find a short queue",
        "retries",
        (float(low), float(high)),
    )
