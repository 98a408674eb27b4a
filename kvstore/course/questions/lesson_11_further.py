"""What the further lesson 11 on a second witness of group commit asks, and what its claims need."""

from collections.abc import Mapping

from kvstore.course.experiments.redis_runs import Sets
from kvstore.course.questions import PredictionQuestion
from kvstore.measure import Run
from kvstore.model import Prediction

MANY = 32
"""Clients of the prediction."""


def group(clients: int) -> Prediction:
    """Return how many writes share an fsync: one group is written while the other one gathers."""
    return Prediction(
        max(1.0, clients / 2),
        "calls",
        "one half waits for the fsync, the other half gathers: N / 2",
    )


def gains(sets: Sets, runs: Mapping[int, Run]) -> dict[str, float]:
    """Return throughput over that of one client, for our server and for Redis."""
    return {
        "ours, N = 1": 1.0,
        f"ours, N = {MANY}": runs[MANY].answered_per_s / runs[1].answered_per_s,
        "Redis, N = 1": 1.0,
        f"Redis, N = {MANY}": sets.durable[MANY] / sets.durable[1],
    }


PREDICTIONS = (
    PredictionQuestion(
        "11.redis_group",
        "32 clients of Redis, `appendfsync always`: how many SETs share one fsync?",
        unit="calls",
        measured=lambda sets: sets.sets_per_fsync(MANY),
        model=lambda sets: group(MANY),
    ),
    PredictionQuestion(
        "11.redis_rate",
        "How many SETs per second do 32 clients get?",
        measured=lambda sets: sets.durable[MANY],
        model=lambda sets: sets.predicted(MANY),
    ),
)


def fsync_costs(sets: Sets) -> bool:
    """Whether one client has fewer SETs per second with an fsync than without, by a fifth."""
    return sets.durable[1] < 0.8 * sets.volatile[1]


def redis_shares(sets: Sets) -> bool:
    """Whether one client has an fsync for each SET, and 32 clients share each one by four."""
    return sets.sets_per_fsync(1) < 1.2 and 4 < sets.sets_per_fsync(MANY) <= MANY


def both_gain(found: Mapping[str, float]) -> bool:
    """Whether both servers have at least 1.3 times the writes of one client."""
    return min(found[f"ours, N = {MANY}"], found[f"Redis, N = {MANY}"]) > 1.3
