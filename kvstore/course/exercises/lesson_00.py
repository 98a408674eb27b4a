"""Lesson 00: what is read off one run, before anything is predicted."""

from typing import Any

import pandas as pd

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed


def utilisation(calls_per_s: float, cpu_us_per_call: float) -> float:
    """The share of one core that so many calls keep busy: throughput times demand."""
    demand_s = cpu_us_per_call / 1e6
    return min(1.0, calls_per_s * demand_s)


def _judge_utilisation(answer: Any) -> Verdict:
    share = answer(25.0, 200.0)
    if _near(share, 0.005):
        full = answer(12_000.0, 200.0)
        if _near(full, 1.0):
            return passed(
                "25 calls/s at 200 µs each keep half a percent of a core busy: "
                "a slow client and an idle machine go together."
            )
        return not_yet(
            f"12,000 calls/s at 200 µs give {full:.3g} cores' worth of work. "
            "One core has one second in a second: what share of it is then busy?"
        )
    if _near(share, 5000.0):
        return not_yet("that is µs of work in each second: how many µs are in a second?")
    if _near(share, 0.5):
        return not_yet("that is in percent: the exercise asks for a share between 0 and 1.")
    if _near(share, 25.0 / 200.0) or _near(share, 200.0 / 25.0):
        return not_yet("you divide one by the other: but twice the calls need twice the work.")
    return not_yet(
        f"25 calls/s at 200 µs each gave {share:.4g}. In one second, how many calls are "
        "made, and how many seconds of work are they together?"
    )


UTILISATION = Exercise(
    id="00.utilisation",
    title="How busy is one core?",
    statement=(
        "Write `utilisation(calls_per_s, cpu_us_per_call)`: the share of one core, between 0 "
        "and 1, that this many calls keep busy when each costs so many µs of processor time."
    ),
    hints=(
        "In one second, how many calls are made? How much processor time does one need?",
        "Utilisation is throughput times demand, U = X·D, with both in seconds.",
        "1 µs is 1e-6 s. When more work comes than one core can do, the core is full: "
        "`min(1.0, ...)` says so.",
    ),
    reference=utilisation,
    wrong=(
        WrongAnswer(lambda calls, cpu_us: calls * cpu_us, "µs of work"),
        WrongAnswer(lambda calls, cpu_us: min(100.0, calls * cpu_us / 1e4), "in percent"),
        WrongAnswer(lambda calls, cpu_us: min(1.0, calls / cpu_us), "divide one by the other"),
        WrongAnswer(lambda calls, cpu_us: calls * cpu_us / 1e6, "One core has one second"),
    ),
    judge=_judge_utilisation,
)

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
    if _near(found, 0.060 / 0.100):
        return passed(
            "L is all the time in flight over the window. Divide and multiply by the number "
            "of calls, and it reads L = λ·W: that is Little's law, and it is an identity."
        )
    if _near(found, 0.018 / 0.100):
        return not_yet("you leave out the call that failed: it was in flight too.")
    if _near(found, 0.060 / 0.090):
        return not_yet(
            "you divide by the time of the last reply: the window is handed in, "
            "and its empty end counts too."
        )
    if _near(found, 3 / 0.100):
        return not_yet("that is λ, calls in each second: how long was each of them in flight?")
    if _near(found, 0.020):
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


def _near(found: float, expected: float) -> bool:
    return abs(found - expected) <= 1e-9 * abs(expected)
