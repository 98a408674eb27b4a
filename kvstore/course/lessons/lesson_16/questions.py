"""What lesson 16 asks."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion
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


def rate_per_s(found: Mapping[str, Any], simulated: Sequence[float]) -> float:
    """Return the rate that a search of `rpcload` says, in calls/s; 0 if it says none."""
    return float(found["rate_per_s"])


PREDICTIONS = (
    PredictionQuestion(
        "16.open",
        "95 % of these calls per second, from users who do not wait for each other: the p99?",
        unit="s",
        measured=p99_s,
        model=_ensemble,
    ),
    PredictionQuestion(
        "16.rate",
        "What is the highest arrival rate that meets the objective?",
        measured=rate_per_s,
        model=lambda found, simulated: Prediction(
            simulated[1],
            "calls/s",
            "where the median p99 of simulated runs meets the limit, with N* workers that reach the"
            " ceiling together; the interval is that of single runs",
            interval=(simulated[0], simulated[2]),
        ),
        main=True,
    ),
)

QUIZ = (
    QuizQuestion(
        "16.idle",
        "N* is 6, and neither the client nor the server uses much processor time. What is the "
        "bottleneck?",
        (
            Option("The load generator.", why="It would use about one core."),
            Option(
                "A station that serves about 6 calls at once, such as a pool.",
                right=True,
                why="N* = (D + Z)·X_max is the number of servers if a call spends its time there.",
            ),
            Option(
                "The delay of the network, for which each of the six calls waits.",
                why="A delay does not limit X: more calls in flight fit in.",
            ),
        ),
    ),
    QuizQuestion(
        "16.sent",
        "The service stalls for one second. Calls are due at 100 per second. But the generator "
        "sends a call only when the last one has ended, and measures from the sending. How many "
        "slow calls does it report?",
        (
            Option(
                "One.",
                right=True,
                why="The other 99 that were due in the stall were sent after it. Measured from "
                "their due times, they are slow too.",
            ),
            Option("About 100.", why="That many were due. It sent only one of them in the stall."),
            Option("None.", why="One call was in flight when the stall began."),
        ),
    ),
    QuizQuestion(
        "16.deadline",
        "2 % of the calls ended at their deadline of 100 ms. What is the p99?",
        (
            Option("100 ms.", why="These calls would have taken longer. 100 ms is a lower limit."),
            Option(
                "Above 100 ms; how far above is unknown.",
                right=True,
                why="More than 1 % of the calls were cut off, so the p99 is one of them.",
            ),
            Option(
                "The p99 of the other 98 %.",
                why="That leaves out the slowest calls, and so answers another question.",
            ),
        ),
    ),
)
