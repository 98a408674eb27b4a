"""What lesson 14 and its further lessons ask."""

from typing import Final

import numpy as np

from kvstore.course.lessons.lesson_14.etcd_runs import Failover
from kvstore.course.questions import Answer
from kvstore.measure import Run
from kvstore.model import Prediction, batching, tail_latency


def log_of(lone: Run, pair: Run) -> dict[str, float]:
    """Return f and r in seconds: the time of one commit, and of a call outside the log.

    With two writes in flight the log is never idle, so a commit ends every f seconds. One write
    alone takes r + f.
    """
    commit_s = float(np.median(np.diff(pair.records["done_s"])))
    return {"fsync_s": commit_s, "way_s": max(0.0, lone.latency_s(0.5) - commit_s)}


def _gap(run: Failover) -> Prediction:
    return tail_latency.gap(run.election_timeout_s, nodes=3, heartbeat_s=run.heartbeat_s)


ANSWERS: Final = {
    "14.one_by_one": Answer(
        lambda run, lone, pair: run.answered_per_s,
        lambda run, lone, pair: batching.one_by_one(run.in_flight, **log_of(lone, pair)),
    ),
    "14.in_groups": Answer(
        lambda run, lone, pair: run.answered_per_s,
        lambda run, lone, pair: batching.in_groups(run.in_flight, **log_of(lone, pair)),
    ),
    "14.gap": Answer(lambda run: run.mean_gap_s(), _gap),
}
