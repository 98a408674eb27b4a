"""What lesson 16 asks."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from kvstore.course.questions import Answer
from kvstore.model import Prediction

READ_S: Final = 0.010
"""Seconds that the store of the learner sleeps in a read, at least."""


def p99_s(calls: pd.DataFrame, simulated: Sequence[float]) -> float:
    """Return the p99 of the latency of a run, in seconds; cut calls count with what they took."""
    return float(calls.latency_s.quantile(0.99))


def _ensemble(calls: pd.DataFrame, simulated: Sequence[float]) -> Prediction:
    ends = statistics.quantiles(simulated, n=20)
    return Prediction(
        statistics.median(simulated),
        "s",
        f"the median of {len(simulated)} simulated runs of this length, and 90 % of them",
        interval=(ends[0], ends[-1]),
    )


def rate_per_s(search: Mapping[str, Any], simulated: Sequence[float]) -> float:
    """Return the rate that a search of `rpcload` says, in calls/s; 0 if it says none."""
    return float(search["rate_per_s"])


ANSWERS: Final = {
    "16.open": Answer(p99_s, _ensemble),
    "16.rate": Answer(
        rate_per_s,
        lambda search, simulated: Prediction(
            simulated[1],
            "calls/s",
            "where the median p99 of simulated runs meets the limit, with N* workers that reach the"
            " ceiling together; the interval is that of single runs",
            interval=(simulated[0], simulated[2]),
        ),
    ),
}
