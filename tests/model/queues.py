"""Queues simulated without a clock, for the tests of several lessons and of the problems."""

from collections import deque

import numpy as np


def gaps_minus_work(gaps, work):
    """The waits of one queue: a walk, less its lowest point so far."""
    steps = np.concatenate([[0.0], np.cumsum(work[:-1] - gaps[1:])])
    return steps - np.minimum.accumulate(np.minimum(steps, 0.0))


ORDERS = {
    "first come": (1.0, None),
    "short first": (1.0, "short"),
    "round robin": (0.020, None),
}
"""Seconds of a piece of work, and which jobs come first."""


def overtaken(*names, jobs=100_000, seed=0):
    """Return which jobs are long, and the response times in these orders."""
    rng = np.random.default_rng(seed)
    arrive = np.cumsum(rng.exponential(0.025, jobs))
    work = np.where(rng.random(jobs) < 0.1, 0.140, 0.020 / 3)
    times = {}
    for name in names:
        piece_s, first = ORDERS[name]
        lines = [deque(), deque()]
        left, end, now, came = work.copy(), np.zeros(jobs), 0.0, 0
        while came < jobs or lines[0] or lines[1]:
            if not (lines[0] or lines[1]):
                now = max(now, arrive[came])
            while came < jobs and arrive[came] <= now:
                lines[int(first == "short" and work[came] > 0.1)].append(came)
                came += 1
            line = lines[0] or lines[1]
            job = line.popleft()
            served = min(piece_s, left[job])
            now, left[job] = now + served, left[job] - served
            while came < jobs and arrive[came] <= now:  # they came before the piece ended
                lines[int(first == "short" and work[came] > 0.1)].append(came)
                came += 1
            if left[job] > 1e-9:
                line.append(job)
            else:
                end[job] = now
        times[name] = 1e3 * (end - arrive)
    return work > 0.1, times
