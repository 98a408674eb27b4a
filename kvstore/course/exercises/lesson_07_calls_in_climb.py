"""Lesson 07: how many calls a whole climb makes, and how little of it a limit takes."""

from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


def calls_in_climb(users: int, climb_s: float, threads: float, wait_s: float) -> float:
    """The area under X(t) = min(N(t), threads) / wait_s, with N from 0 to `users`."""
    limit = min(users, threads)
    full_at_s = climb_s * limit / users
    in_service = limit / 2 * full_at_s + limit * (climb_s - full_at_s)
    return in_service / wait_s


STAIRS = 0.03
"""Users join one by one, and an answer comes a round later: both are right but for so much."""


def _judge(answer: Any) -> Verdict:
    # 0 to 100 users in 20 s, 40 threads: 20 on average for 8 s, then 40 for 12 s.
    found = float(answer(100, 20.0, 40, 0.1))
    if not near(found, 6400.0, STAIRS):
        return not_yet(_why_not_6400(found))
    found = float(answer(100, 20.0, 400, 0.1))
    if not near(found, 10_000.0, STAIRS):
        return not_yet(
            f"with 400 threads for 100 users you get {found:,.0f} calls: that pool is never full,"
            " and 50 users on average make 50 / 0.1 s for 20 s."
        )
    found = float(answer(250, 30.0, 200, 0.25))
    if not near(found, 14_400.0, 0.01):
        return not_yet(
            f"250 users in 30 s, 200 threads, 250 ms gave {found:,.0f} calls: up to the 24th second"
            " the pool is not full, and from then on 200 are in service."
        )
    return passed(
        "14,400 calls with the pool of 200, and 15,000 without any limit: seen over the whole"
        " climb, the limit is nearly invisible. Look at the end of it."
    )


def _why_not_6400(found: float) -> str:
    reasons = {
        20_000.0: "that is 100 users all the time: they join one after the other.",
        10_000.0: "that is the area under N(t): more than 40 are never in service at once.",
        8_000.0: (
            "that is 40 in service all the time: min(mean of N, 40) is not the mean of min(N, 40)."
        ),
        640.0: "those are seconds of service: how many calls fit into them, at 0.1 s each?",
        320.0: "that is a rate in calls/s, averaged over the climb: for how many seconds?",
    }
    found_out = [why for value, why in reasons.items() if near(found, value, STAIRS)]
    return (
        found_out[0]
        if found_out
        else (
            f"0 to 100 users in 20 s, 40 threads, 0.1 s for each call gave {found:,.0f}: draw"
            " min(N(t), 40) over the 20 s, and take the area under it."
        )
    )


CALLS_IN_CLIMB = Exercise(
    id="07.calls_in_climb",
    title="The calls of a whole climb",
    statement=(
        "Write `calls_in_climb(users, climb_s, threads, wait_s)`: how many calls are answered "
        "while the users climb evenly from 0 to `users` in `climb_s` seconds, when each call keeps "
        "one of `threads` threads for `wait_s`."
    ),
    hints=(
        "X(t) = min(N(t), c) / W. The calls are the area under it.",
        "N(t) meets the limit after `climb_s * threads / users` seconds. Before that the area is a "
        "triangle, after it a rectangle.",
        "With fewer users than threads there is no rectangle: begin with "
        "`limit = min(users, threads)`.",
    ),
    reference=calls_in_climb,
    wrong=(
        WrongAnswer(lambda n, t, c, w: n / w * t, "all the time: they join"),
        WrongAnswer(lambda n, t, c, w: n / 2 / w * t, "never in service at once"),
        WrongAnswer(lambda n, t, c, w: min(n / 2, c) / w * t, "is not the mean of"),
        WrongAnswer(lambda n, t, c, w: calls_in_climb(n, t, c, w) * w, "seconds of service"),
        WrongAnswer(lambda n, t, c, w: calls_in_climb(n, t, c, w) / t, "averaged over the climb"),
        WrongAnswer(lambda n, t, c, w: (c / 2 * t * c / n + c * (t - t * c / n)) / w, "never full"),
    ),
    judge=_judge,
)
