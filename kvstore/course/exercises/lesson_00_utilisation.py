"""Lesson 00: how busy a core is that answers so many calls."""

from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


def utilisation(calls_per_s: float, cpu_us_per_call: float) -> float:
    """The share of one core that so many calls keep busy: throughput times demand."""
    demand_s = cpu_us_per_call / 1e6
    return min(1.0, calls_per_s * demand_s)


def _judge_utilisation(answer: Any) -> Verdict:
    share = answer(25.0, 200.0)
    if near(share, 0.005):
        full = answer(12_000.0, 200.0)
        if near(full, 1.0):
            return passed(
                "25 calls/s at 200 µs each keep half a percent of a core busy: "
                "a slow client and an idle machine go together."
            )
        return not_yet(
            f"12,000 calls/s at 200 µs give {full:.3g} cores' worth of work. "
            "One core has one second in a second: what share of it is then busy?"
        )
    if near(share, 5000.0):
        return not_yet("that is µs of work in each second: how many µs are in a second?")
    if near(share, 0.5):
        return not_yet("that is in percent: the exercise asks for a share between 0 and 1.")
    if near(share, 25.0 / 200.0) or near(share, 200.0 / 25.0):
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
