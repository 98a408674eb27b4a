"""Lesson 05: when replies would leave that are kept in the order of requests."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed

# In the order of sending; the second is slow, the sixth a little.
CALLS = pd.DataFrame(
    {
        "sent_s": [0.000, 0.001, 0.002, 0.003, 0.012, 0.062, 0.063],
        "done_s": [0.010, 0.051, 0.013, 0.012, 0.022, 0.085, 0.074],
    }
)
IN_ORDER = [0.010, 0.051, 0.051, 0.051, 0.051, 0.085, 0.085]


def in_order(calls: pd.DataFrame) -> list[float]:
    """When each reply leaves, if none may leave before the replies to all earlier requests."""
    leaves_s, times = -math.inf, []
    for done_s in calls["done_s"]:
        leaves_s = max(leaves_s, done_s)
        times.append(leaves_s)
    return times


def _judge_in_order(answer: Any) -> Verdict:
    found = [float(time_s) for time_s in answer(CALLS.copy())]
    if len(found) != len(CALLS):
        return not_yet(f"{len(CALLS)} calls were made, so {len(CALLS)} times, got {len(found)}.")
    if _close(found, IN_ORDER):
        return passed(
            "The running maximum: one slow request holds back all behind it, and not one before."
            " The last reply leaves when it would have anyway: throughput is the same, latency not."
        )
    if _close(found, sorted(CALLS["done_s"])):
        return not_yet(
            "you sort the times: then the third reply leaves as third, but it is the reply to"
            " another request. Request 3 may not leave before request 2, which takes until 51 ms."
        )
    residence_s = CALLS["done_s"] - CALLS["sent_s"]
    if _close(found, residence_s.cumsum()) or _close(found, _served_in_turn()):
        return not_yet(
            "you let each request begin only when the one before it has left: that is a lock, which"
            " delays the work. Here all the work was done in time, and only the replies wait."
        )
    if _close(found, [max(CALLS["done_s"])] * len(CALLS)):
        return not_yet(
            "you let all replies wait for the slowest: the first one has nothing before it and"
            " leaves at 10 ms."
        )
    if _close(found, CALLS["done_s"]):
        return not_yet("these are the times as they were: reply 3 left before reply 2.")
    if _close(found, residence_s.cummax()):
        return not_yet(
            "you compare how long the calls took: what matters is at what time each was ready."
        )
    return not_yet(
        "look at the second call, ready at 51 ms, and at the third, ready at 13 ms: when may the"
        f" third leave? You say {1e3 * found[2]:.4g} ms."
    )


def _served_in_turn() -> list[float]:
    free_s, times = 0.0, []
    for sent_s, done_s in zip(CALLS["sent_s"], CALLS["done_s"], strict=True):
        free_s = max(free_s, sent_s) + done_s - sent_s
        times.append(free_s)
    return times


def _close(found: Sequence[float], expected: Any) -> bool:
    return all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(found, expected, strict=True))


IN_ORDER_REPLIES = Exercise(
    id="05.in_order",
    title="What would order have cost?",
    statement=(
        "Write `in_order(calls)`: `calls` has a row for each call, in the order of sending, with"
        " `sent_s` and `done_s`. Return a list: when each reply would have left a server that does"
        " the same work at the same times, but sends its replies in the order of the requests."
    ),
    hints=(
        "The first reply is not held back by anything. The second: by the first only.",
        "A reply leaves when it is ready *and* the one before it has left: the later of the two.",
        "That is the running maximum of `done_s`. Pandas has it: `cummax()`.",
    ),
    reference=in_order,
    wrong=(
        WrongAnswer(lambda calls: sorted(calls["done_s"]), "you sort the times"),
        WrongAnswer(
            lambda calls: list((calls["done_s"] - calls["sent_s"]).cumsum()), "that is a lock"
        ),
        WrongAnswer(lambda calls: [max(calls["done_s"])] * len(calls), "wait for the slowest"),
        WrongAnswer(lambda calls: list(calls["done_s"]), "the times as they were"),
        WrongAnswer(
            lambda calls: list((calls["done_s"] - calls["sent_s"]).cummax()), "how long the calls"
        ),
    ),
    judge=_judge_in_order,
)
