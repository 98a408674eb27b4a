"""What lesson 11 asks."""

from collections.abc import Callable
from typing import Final

import numpy as np

from kvstore.course.lessons.lesson_11 import hedging
from kvstore.course.questions import Answer
from kvstore.model import Prediction, tail_latency


def _from_runs(
    one_run: Callable[[np.random.Generator], float], runs: int, unit: str, reason: str
) -> Prediction:
    """Return the median of simulated runs, with the interval of 90 % of them."""
    rng = np.random.default_rng()
    low, middle, high = np.quantile([one_run(rng) for _ in range(runs)], (0.05, 0.5, 0.95))
    return Prediction(float(middle), unit, reason, interval=(float(low), float(high)))


def stall_p99() -> Prediction:
    """Return the p99 of round 1 in seconds: the law for evenly spaced calls, and its spread."""
    law = tail_latency.latency(
        0.99, stall_s=hedging.STALL_S, every_s=hedging.EVERY_S, service_s=hedging.READ_S
    )
    runs = _from_runs(hedging.stalled_p99_s, 300, "s", "")
    return Prediction(law.value, "s", law.reason, law.binds, runs.interval)


def busy_share(rng: np.random.Generator) -> float:
    """Return the share of slow reads in one run of round 3."""
    arrivals_s = hedging.arrivals_s(112, 700, rng).tolist()
    reads = hedging.hedged_reads(arrivals_s, lambda: 0.050, 0.020, rng)
    return float((reads.took_s > 0.1).mean())


ANSWERS: Final = {
    "11.stall_p99": Answer(lambda run: run.latency_s(0.99), lambda run: stall_p99()),
    "11.slowest": Answer(lambda share: share, lambda share: tail_latency.slow_of_all(100, 0.01)),
    "11.hedged": Answer(
        lambda share: share,
        lambda share: _from_runs(
            hedging.slow_share_at_replicas, 300, "of the requests", "both replies are late: p · q"
        ),
    ),
    "11.hedged_busy": Answer(
        lambda share: share,
        lambda share: _from_runs(
            busy_share,
            30,
            "of the requests",
            "700 simulated reads: U (1 + hedged share · P(second starts)) > 1",
        ),
    ),
}
