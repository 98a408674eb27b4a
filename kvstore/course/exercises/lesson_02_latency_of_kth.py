"""Lesson 02: how long the k-th call waits in a queue that nobody limits."""

import math
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed


def latency_of_kth(k: int, sent_per_s: float, answered_per_s: float) -> float:
    """Seconds from sending the k-th call to its answer: answered at k/X, sent at (k-1)/lambda."""
    return max(1 / answered_per_s, k / answered_per_s - (k - 1) / sent_per_s)


def _judge_latency(answer: Any) -> Verdict:
    if why := _why_not_five(float(answer(100, math.inf, 20.0))):
        return not_yet(why)
    found = float(answer(100, 40.0, 20.0))
    if math.isclose(found, 5.0):
        return not_yet(
            "at 40 calls/s the 100th call is only sent after 2.475 s, and answered after 5 s: "
            "latency runs from when a call is sent."
        )
    if not _near(found, 2.525):
        return not_yet(
            f"sent at 40/s, answered at 20/s, the 100th call takes {found:.4g} s: write down when "
            "it is sent, and when it is answered."
        )
    found = float(answer(100, 10.0, 20.0))
    if found < 0:
        return not_yet(
            f"sent at 10/s and answered at 20/s the 100th call takes {found:.4g} s: an answer "
            "before the question. Nobody queues here, so how long does one call alone take?"
        )
    if not _near(found, 0.050):
        return not_yet(
            f"sent at 10/s and answered at 20/s no call finds another one before it, and yours "
            f"takes {found:.4g} s: one call alone takes 1/X."
        )
    return passed(
        "k/X - (k-1)/λ: while λ > X, each call waits a little longer than the one before it, "
        "without end. Below X nobody waits."
    )


def _why_not_five(found: float) -> str:
    """What is wrong with the latency of the 100th of calls that are all sent at once, at 20/s."""
    reasons = {
        5.0: "",
        0.050: "that is the time at the lock alone: 99 other calls go through it first.",
        4.950: "99 calls go before it, and then it needs the lock itself: 100 times 1/X.",
        2000.0: "you multiply k by X: do faster servers make their callers wait longer?",
        2.5: "that is the mean over all 100 calls: the last one is asked for.",
    }
    near = [why for value, why in reasons.items() if math.isclose(found, value)]
    other = f"the 100th of 100 calls sent at once takes {found:.4g} s: how many go before it?"
    return near[0] if near else other


LATENCY_OF_KTH = Exercise(
    id="02.latency_of_kth",
    title="How long does the k-th call wait?",
    statement=(
        "Write `latency_of_kth(k, sent_per_s, answered_per_s)`: seconds from sending the k-th call "
        "to its answer, at a server with one lock. `k` counts from 1; the first call is sent at "
        "0 s. `sent_per_s` may be `math.inf`: all at once. It may also be less than "
        "`answered_per_s`."
    ),
    hints=(
        "Write down two times since the start: when is the k-th call sent, and when is it "
        "answered?",
        "A busy server gives its k-th answer at k/X. The k-th call is sent at (k-1)/λ. Latency "
        "is the difference.",
        "When λ < X the server is idle in between, and the difference goes below zero. No call "
        "is faster than 1/X: `max(...)`.",
    ),
    reference=latency_of_kth,
    wrong=(
        WrongAnswer(lambda k, sent, answered: 1 / answered, "at the lock alone"),
        WrongAnswer(lambda k, sent, answered: (k - 1) / answered, "99 calls go before it"),
        WrongAnswer(lambda k, sent, answered: k * answered, "multiply"),
        WrongAnswer(lambda k, sent, answered: k / answered / 2, "mean over all"),
        WrongAnswer(lambda k, sent, answered: k / answered, "is only sent after"),
        WrongAnswer(lambda k, sent, answered: k / answered - (k - 1) / sent, "before the question"),
    ),
    judge=_judge_latency,
)


def _near(found: float, expected: float) -> bool:
    """Within a part of one call: some count the first call as sent at 1/lambda."""
    return abs(found - expected) <= 0.01 * expected + 1e-12
