"""What lesson 05 and its further lessons ask."""

from typing import Final

from kvstore.course.lessons.lesson_05 import batch_ladder
from kvstore.course.questions import Answer, operations_in_a_call
from kvstore.measure import Run
from kvstore.measure.cpu_cost import cpu_per_call_s
from kvstore.model import Prediction, batching


def times_of(first: Run, second: Run) -> float:
    """Return the throughput of the second run over that of the first."""
    return second.throughput_per_s / first.throughput_per_s


def cpu_of(first: Run, second: Run) -> float:
    """Return the CPU time of client and server for a call of the second run over the first's."""
    return cpu_per_call_s(second).together_s / cpu_per_call_s(first).together_s


def cost_of(one: Run, large: Run) -> batch_ladder.Cost:
    """Return a and b: from the time between two messages, with 1 and with 1,024 operations."""
    seconds = {operations_in_a_call(run): 1 / run.answered_per_s for run in (one, large)}
    a_s, b_s = batching.fit({round(size): each for size, each in seconds.items()})
    return batch_ladder.Cost(max(a_s, 0.0), max(b_s, 1e-9))


ANSWERS: Final = {
    "05.stream_far": Answer(
        times_of,
        lambda unary, stream: Prediction(
            1.0, "times", "N / D for both: the same N, and nearly the same D"
        ),
    ),
    "05.stream_cpu": Answer(cpu_of),
    "05.curve": Answer(
        lambda *runs: {operations_in_a_call(r): r.throughput_per_s for r in runs},
        lambda one, large, *_: {
            k: cost_of(one, large).throughput(k).value for k in (1, 4, 16, 32, 64, 256, 1_024)
        },
    ),
}
