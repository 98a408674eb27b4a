"""What lesson 10 asks."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from kvstore import numbers
from kvstore.course.lessons.lesson_10 import storm
from kvstore.course.questions import (
    Option,
    PredictionQuestion,
    QuizQuestion,
    computed,
    number_question,
)
from kvstore.measure import Run
from kvstore.model import Prediction, overload
from kvstore.protocol import OK

NINETY = 1.645
"""90 % of a normal distribution lie within so many standard deviations."""


def failed_late(run: Run) -> float:
    """Return how many of 100 calls failed, of those that were due in the last third of the run."""
    late = _late(run)
    return 100 * float(np.mean(late["status"] != OK)) if len(late) else float("nan")


def _late(run: Run) -> Any:
    due_s = run.records["due_s"]
    return run.records[due_s >= 2 / 3 * due_s.max()]


def counted(run: Run) -> int:
    """Return the attempts that the server counted in a run."""
    return run.server.answered


def failing_for_long(failing: float, ratio: float, attempts: int = storm.ATTEMPTS) -> Prediction:
    """Return how many of 100 calls fail while this share of the attempts does, with a budget.

    Each failed attempt costs a token and each other one earns `ratio` of a token. So there are
    tokens for retries only while f <= (1 - f) ratio.
    """
    lasts = failing <= ratio / (1 + ratio)
    share = numbers.percent(ratio / (1 + ratio))
    reason = (
        f"{numbers.percent(failing)} of the attempts fail, and the budget lasts up to {share}: "
        + (f"a call fails when all {attempts} attempts do" if lasts else "no call is retried")
    )
    return Prediction(100 * (failing**attempts if lasts else failing), "calls", reason)


def failing_of(run: Run, failing: float, ratio: float) -> Prediction:
    """Return `failing_for_long` with the interval of so many late calls: each fails by chance."""
    model, late = failing_for_long(failing, ratio), max(1, len(_late(run)))
    share = model.value / 100
    half = 100 * NINETY * math.sqrt(share * (1 - share) / late)
    return replace(model, interval=(model.value - half, model.value + half))


PREDICTIONS = (
    PredictionQuestion(
        "10.storm",
        "Long after the peak: how many of 100 calls fail? (If you say none, write 1.)",
        unit="calls",
        measured=failed_late,
        model=lambda run: storm.prediction(np.sort(run.records["due_s"]).tolist()),
        main=True,
    ),
    PredictionQuestion(
        "10.lasting_fault",
        "One attempt in five fails for long; 4 attempts, 10 tokens, a ratio of 0.1: how many of 100"
        " late calls fail? (If you say none, write 1.)",
        unit="calls",
        measured=failed_late,
        model=lambda run: failing_of(run, 0.2, 0.1),
        main=True,
    ),
    PredictionQuestion(
        "10.in_step",
        "All retry after the same pause: how many attempts does the crowd need?",
        unit="attempts",
        measured=lambda attempts: attempts,
        model=lambda attempts: overload.retries_in_lockstep(40, 4),
    ),
    computed(
        "10.sent_twice",
        "Twenty Creates are given up and sent again: how many of the clients are told that their "
        "key exists?",
        "clients",
    ),
)

QUIZ = (
    QuizQuestion(
        "10.amplified",
        "A server can do 1,000 calls/s and gets 300/s. Each call has up to 4 attempts. After a "
        "short outage, ...",
        (
            Option(
                "... it recovers: 300/s are far below 1,000/s.",
                why="While all attempts fail, 4 · 300 = 1,200 attempts per second arrive.",
            ),
            Option(
                "... it may never recover: 1,200 attempts/s come.",
                right=True,
                why="A·λ > X: the failures cause the load that causes the failures.",
            ),
            Option(
                "... it recovers as soon as the cause of the outage is over.",
                why="The queue of retries stays. The cause is over, and the load is not.",
            ),
        ),
    ),
    number_question(
        "10.budget",
        "maxTokens is {tokens}, tokenRatio is 0.1, and every call fails. How many retries does a "
        "client send at most?",
        "retries",
        (
            lambda tokens: tokens / 2 - 1,
            "Each failure costs a token, and more than half of them must be left.",
        ),
        (lambda tokens: tokens, "Retries end when half of the tokens are left."),
        (lambda tokens: tokens / 10, "The ratio is what a success earns. No call succeeds here."),
        tokens=(20, 24, 16, 12),
    ),
    QuizQuestion(
        "10.after_a_deadline",
        "A call ended with DEADLINE_EXCEEDED. May the client send it again?",
        (
            Option(
                "Yes: it failed, so the server cannot have done its work.",
                why="The server may have done it. Only the reply came too late.",
            ),
            Option(
                "Yes, if it is idempotent and the budget allows it.",
                right=True,
                why="Done twice, it has the same effect as done once, as a read has. And each "
                "retry is more load.",
            ),
            Option(
                "Never.",
                why="A read may be sent again: reading twice changes nothing.",
            ),
        ),
    ),
    QuizQuestion(
        "10.lasting",
        "A server is down for an hour. Its clients retry with full jitter and without a budget. "
        "What does jitter do about their load?",
        (
            Option(
                "It bounds the load.",
                why="It spreads the attempts over time. Each client goes on sending them.",
            ),
            Option(
                "It spreads the attempts over time, and does not bound them.",
                right=True,
                why="Pauses and jitter help a crowd that was refused together. Against trouble "
                "that lasts, only a budget helps.",
            ),
            Option(
                "Nothing: the pauses grow anyway.",
                why="Without jitter, callers that failed together come back together.",
            ),
        ),
    ),
)
