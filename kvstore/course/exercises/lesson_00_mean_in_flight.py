"""Lesson 00: how many calls were in flight, read off the records of a run."""

from typing import Any

import pandas as pd

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed

# Calls of 8, 10 and 42 ms in a window of 100 ms: every likely mistake gives another number.
CALLS = pd.DataFrame(
    {
        "sent_s": [0.000, 0.010, 0.048],
        "done_s": [0.008, 0.020, 0.090],
        "status": ["OK", "OK", "NOT_FOUND"],
    }
)


def mean_in_flight(calls: pd.DataFrame, window_s: float) -> float:
    """How many calls were in flight on average: all their time in flight over the window."""
    return float((calls["done_s"] - calls["sent_s"]).sum()) / window_s


def _judge_in_flight(answer: Any) -> Verdict:
    found = float(answer(CALLS.copy(), 0.100))
    if near(found, 0.060 / 0.100):
        return passed(
            "L is all the time in flight over the window. Divide and multiply by the number "
            "of calls, and it reads L = λ·W: that is Little's law, and it is an identity."
        )
    if near(found, 0.018 / 0.100):
        return not_yet("you leave out the call that failed: it was in flight too.")
    if near(found, 0.060 / 0.090):
        return not_yet(
            "you divide by the time of the last reply: the window is handed in, "
            "and its empty end counts too."
        )
    if near(found, 3 / 0.100):
        return not_yet("that is λ, calls in each second: how long was each of them in flight?")
    if near(found, 0.020):
        return not_yet(
            "that is W, one call's mean time in flight, in seconds: a number of calls is asked for."
        )
    return not_yet(
        f"three calls in flight for 8, 10 and 42 of 100 ms make 0.6 on average, got {found:.4g}."
    )


MEAN_IN_FLIGHT = Exercise(
    id="00.mean_in_flight",
    title="How many calls were in flight?",
    statement=(
        "Write `mean_in_flight(calls, window_s)`: how many calls were in flight on average "
        "over the window. `calls` has a row for each call, with `sent_s` and `done_s`."
    ),
    hints=(
        "Draw each call as a bar from `sent_s` to `done_s`. What does a bar's length say?",
        "One call that is in flight for the whole window counts as 1. For half of it?",
        "Add up the lengths of all bars, failed calls too, and divide by `window_s`.",
    ),
    reference=mean_in_flight,
    wrong=(
        WrongAnswer(
            lambda calls, window_s: mean_in_flight(calls[calls["status"] == "OK"], window_s),
            "the call that failed",
        ),
        WrongAnswer(
            lambda calls, window_s: mean_in_flight(calls, calls["done_s"].max()),
            "the time of the last reply",
        ),
        WrongAnswer(lambda calls, window_s: len(calls) / window_s, "that is λ"),
        WrongAnswer(
            lambda calls, window_s: (calls["done_s"] - calls["sent_s"]).mean(), "that is W"
        ),
    ),
    judge=_judge_in_flight,
)
