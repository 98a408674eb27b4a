"""What lesson 01 asks: a loop that waits, the mix, a lossy counter."""

from typing import Final

from kvstore.course.questions import Answer
from kvstore.measure import Run
from kvstore.model import Prediction, Station, bounds, service_time_s
from kvstore.model.bounds import expected_creates
from kvstore.numbers import percent

READ_S: Final = 0.010
WRITE_S: Final = 0.050
DISK: Final = {"read_delay_s": READ_S, "write_delay_s": WRITE_S}

PUBLISHED_PER_S: Final = 16.55
"""What the Java client reported."""
NEXT_PER_S: Final = 24.283
"""What it reported in the next step, with up to 100 calls in flight and a counter that works."""
PUBLISHED_S: Final = 60.0


def _answered_per_s(run: Run) -> float:
    return run.answered_per_s


def _of_reads(run: Run) -> Prediction:
    return bounds.closed_loop(1, [Station("disk", READ_S)])


def round_trip_s(reads: Run) -> float:
    """Return what a read takes beyond its disk: the overhead of one call, in seconds."""
    return reads.latency_s(0.5) - READ_S


def of_mix(reads: Run, mixed: Run) -> Prediction:
    """Return the rate that the mix of this run allows, with the round trip of the reads."""
    return bounds.closed_loop(
        1, [Station("disk", mean_disk_s(mixed)), Station("round trip", round_trip_s(reads))]
    )


def expected_share_counted(calls: float) -> float:
    """Return the share of the first `calls` calls that are no Creates, as expected."""
    return 1 - expected_creates(calls)


def mean_disk_s(run: Run) -> float:
    """Return the mean disk time of the operations that the run sent, in seconds."""
    return service_time_s(run.mix(), **DISK)


def _of_counter(reads: Run, mixed: Run, counted_calls: int, run: Run) -> Prediction:
    rate = of_mix(reads, mixed).value
    counted = expected_share_counted(rate * run.window_s)
    reason = f"{rate:.1f} calls/s, and {percent(1 - counted)} of them are Creates, never counted"
    return Prediction(rate * counted, "calls/s", reason)


ANSWERS: Final = {
    "01.reads_only": Answer(_answered_per_s, _of_reads),
    "01.mix": Answer(lambda reads, mixed: mixed.answered_per_s, of_mix),
    "01.reported": Answer(lambda reads, mixed, counted, run: counted / run.window_s, _of_counter),
}
