"""What lesson 00 asks, and its further notebooks: one call, calls in flight, the machine."""

from typing import Final

from kvstore.course.questions import Answer
from kvstore.measure import Run, audit, only
from kvstore.model import Prediction

READ_S: Final = 0.010
WRITE_S: Final = 0.050
WRITES_PER_S: Final = 40


def _residence_ms(run: Run) -> float:
    return 1e3 * only(run, "retrieve").mean_residence_s


def _one_read(run: Run) -> Prediction:
    return Prediction(1e3 * READ_S, "ms", "the disk alone, because no other call is before it")


def _in_flight(run: Run) -> Prediction:
    reason = f"{WRITES_PER_S} writes a second, each 50 ms on the disk: X·R"
    return Prediction(WRITES_PER_S * WRITE_S, "calls", reason)


ANSWERS: Final = {
    "00.climb": Answer(lambda runs: max(run.throughput_per_s for run in runs.values())),
    "00.retrieve": Answer(_residence_ms, _one_read),
    "00.in_flight": Answer(lambda run: audit(run).in_flight_mean, _in_flight),
}
