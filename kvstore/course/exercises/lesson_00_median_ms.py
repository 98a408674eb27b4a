"""Lesson 00: the median time of a call, by a clock of one's own."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kvstore.client import load, workload
from kvstore.client.client import Client
from kvstore.client.schedule import Schedule
from kvstore.client.workload import Operation
from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.server import serving

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
