"""Lesson 00: what is read off one run, before anything is predicted."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from kvstore.client import load, workload
from kvstore.client.client import Client
from kvstore.client.schedule import Schedule
from kvstore.client.workload import Operation
from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.server import serving


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

READS = 8
READ_S, WRITE_S = 0.002, 0.030


def median_ms(client: Client, operations: Sequence[Operation]) -> float:
    """The median time of the calls, made one after the other, in milliseconds."""
    times_s = []
    for operation in operations:
        began_s = time.perf_counter()
        client.call(operation)
        times_s.append(time.perf_counter() - began_s)
    return 1e3 * statistics.median(times_s)


def _judge_median(answer: Any) -> Verdict:
    """One Create and eight Retrieves on a real server; its records say what was done."""
    said: list[float] = []

    def strategy(client: Client, schedule: Schedule, in_flight: int) -> None:
        key = b"cup"
        reads = [workload.retrieve(key) for _ in range(READS)]
        said.append(answer(client, [workload.create(key, b"of tea"), *reads]))
        client.wait_until_idle()  # so that calls that were only started are recorded too

    with serving(read_delay_s=READ_S, write_delay_s=WRITE_S) as server:
        run = load.run(strategy, server, workload.crud(), calls=1)
    calls, found_ms = run.calls, float(said[0])
    if len(calls) != READS + 1:
        return not_yet(
            f"{READS + 1} operations were handed in, and {len(calls)} calls were made: "
            "make each of them once."
        )
    if bool((calls["sent_s"].to_numpy()[1:] < calls["done_s"].to_numpy()[:-1]).any()):
        return not_yet(
            "calls overlapped: the next one was sent before the one before it was answered. "
            "`client.call` waits for the answer."
        )
    times_ms = 1e3 * calls["residence_s"].to_numpy()
    median, mean = float(np.median(times_ms)), float(np.mean(times_ms))
    if _within(found_ms, median):
        return passed(
            f"the median is {found_ms:.2f} ms, although one call took {times_ms.max():.0f}: "
            f"the mean would have said {mean:.2f}."
        )
    if _within(1e3 * found_ms, median):
        return not_yet("that is in seconds: the exercise asks for milliseconds.")
    if _within(found_ms, mean):
        return not_yet("that is the mean: the one slow call has drawn it up.")
    if _within(found_ms, float(times_ms.max())):
        return not_yet("that is the slowest call, not the one in the middle.")
    return not_yet(
        f"you say {found_ms:.3g} ms, the records of the client say {median:.3g}. "
        "Read `time.perf_counter()` just before and just after each call."
    )


def _measured(of: Callable[[list[float]], float]) -> Callable[..., float]:
    """An answer that times each call rightly and makes `of` it."""

    def answer(client: Client, operations: Sequence[Operation]) -> float:
        times_ms = []
        for operation in operations:
            began_s = time.perf_counter()
            client.call(operation)
            times_ms.append(1e3 * (time.perf_counter() - began_s))
        return of(times_ms)

    return answer


def _overlapping(client: Client, operations: Sequence[Operation]) -> float:
    """Wrong: times the sending, not the answer."""
    times_ms = []
    for operation in operations:
        began_s = time.perf_counter()
        client.start(operation)
        times_ms.append(1e3 * (time.perf_counter() - began_s))
    return statistics.median(times_ms)


MEDIAN_MS = Exercise(
    id="00.median_ms",
    title="Time it yourself",
    statement=(
        "Write `median_ms(client, operations)`: make the calls one after the other with "
        "`client.call(operation)`, and return the median of their times in milliseconds."
    ),
    hints=(
        "`time.perf_counter()` gives seconds; the difference of two readings is a duration.",
        "One reading before `client.call(operation)`, one after it, inside the loop; "
        "keep each difference in a list.",
        "`statistics.median(times)` is the middle one. 1 s is 1,000 ms.",
    ),
    reference=median_ms,
    wrong=(
        WrongAnswer(_measured(lambda times: statistics.median(times) / 1e3), "in seconds"),
        WrongAnswer(_measured(statistics.fmean), "that is the mean"),
        WrongAnswer(_measured(max), "the slowest call"),
        WrongAnswer(_overlapping, "calls overlapped"),
        WrongAnswer(
            lambda client, operations: median_ms(client, operations[1:2]), "make each of them once"
        ),
    ),
    judge=_judge_median,
)


def _within(found_ms: float, expected_ms: float) -> bool:
    """Whether two clocks around the same calls may have said both."""
    return abs(found_ms - expected_ms) <= 0.15 * expected_ms + 0.2


def _near(found: float, expected: float) -> bool:
    return abs(found - expected) <= 1e-9 * abs(expected)
