"""What lesson 01 asks, and its further notebooks: a loop that waits, the mix, a lossy counter."""

from typing import Final

from kvstore.client import load, workload
from kvstore.client.strategies import blocking
from kvstore.course import mode
from kvstore.course.experiments.published_benchmarks import JavaClient
from kvstore.course.explorer import Slider
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion
from kvstore.measure import Run
from kvstore.model import Prediction, Station, bounds, service_time_s
from kvstore.model.bounds import expected_mix
from kvstore.numbers import percent
from kvstore.server import serving

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
    mean_s = service_time_s(mixed.mix(), **DISK)
    return bounds.closed_loop(
        1, [Station("disk", mean_s), Station("round trip", round_trip_s(reads))]
    )


def expected_share_counted(calls: float) -> float:
    """Return the share of the first `calls` calls that are no Creates, as expected."""
    return 1 - expected_mix(calls)["create"]


def _of_counter(reads: Run, mixed: Run, java: JavaClient, run: Run) -> Prediction:
    rate = of_mix(reads, mixed).value
    counted = expected_share_counted(rate * run.window_s)
    reason = f"{rate:.1f} calls/s, and {percent(1 - counted)} of them are Creates, never counted"
    return Prediction(rate * counted, "calls/s", reason)


PREDICTIONS: Final = (
    PredictionQuestion(
        "01.reads_only",
        "Reads only, each with 10 ms of disk. How many calls per second?",
        measured=_answered_per_s,
        model=_of_reads,
    ),
    PredictionQuestion(
        "01.mix",
        "All four operations, drawn with equal chances. How many calls per second?",
        measured=lambda reads, mixed: mixed.answered_per_s,
        model=of_mix,
        main=True,
    ),
    PredictionQuestion(
        "01.reported",
        "The same calls. How many calls per second does this client report?",
        measured=lambda reads, mixed, java, run: java.reported_per_s(run.window_s),
        model=_of_counter,
    ),
    # further/01_first_calls
    # further/01_where_the_processor_was
)


# ---- what the widget of the lesson shows --------------------------------------------------------

SLIDERS: Final = {
    "reads_percent": Slider("share of reads (%)", tuple(range(0, 101, 10)), 20),
    "read_ms": Slider("disk for a read (ms)", (1, 2, 5, 10, 20, 50), 10),
    "write_ms": Slider("disk for a write (ms)", (1, 2, 5, 10, 20, 50, 100), 50),
}


def one_at_a_time(reads_percent: int, read_ms: int, write_ms: int) -> Prediction:
    """Return the bound 1/D of one call in flight, for this share of reads."""
    mix = {"retrieve": reads_percent, "update": 100 - reads_percent}
    mean_s = service_time_s(mix, read_delay_s=read_ms / 1e3, write_delay_s=write_ms / 1e3)
    return bounds.closed_loop(1, [Station("disk", mean_s)])


def run_one_at_a_time(reads_percent: int, read_ms: int, write_ms: int) -> Run:
    """Run the blocking client with this share of reads."""
    mix = {"retrieve": reads_percent, "update": 100 - reads_percent}
    keys = workload.Workload(mix=mix, preload=8, value_bytes_mean=64)
    with serving(read_delay_s=read_ms / 1e3, write_delay_s=write_ms / 1e3) as server:
        duration_s = mode.seconds(fast=0.5, normal=3.0, full=10.0)
        return load.run(blocking, server, keys, duration_s=duration_s)


QUIZ: Final = (
    QuizQuestion(
        "01.hundred",
        "A loop retrieves 100 keys and then updates the same 100 keys, one call at a time. A read "
        "takes 10 ms, a write 50 ms. How long does the loop take?",
        (
            Option("about 10 s", why="That is 200 calls of the slowest kind."),
            Option(
                "a little over 6 s",
                right=True,
                why="100 · 10 ms + 100 · 50 ms = 6 s, and 200 round trips come on top.",
            ),
            Option(
                "about 3.3 s",
                why="That is 200 calls at the mean of the two rates, 60 calls/s. Add up the times.",
            ),
        ),
    ),
    QuizQuestion(
        "01.faster",
        "A quarter of each operation, one call in flight. Which change raises X most?",
        (
            Option(
                "twice as many cores for the server",
                why="More cores would wait as well: nearly all of R is the disk.",
            ),
            Option(
                "a disk that writes in half the time",
                right=True,
                why="The mean falls from 40 ms to (10 + 3 · 25) / 4 = 21 ms: nearly twice the "
                "calls.",
            ),
            Option(
                "a disk that reads in half the time",
                why="The mean falls from 40 ms to (5 + 3 · 50) / 4 = 39 ms only.",
            ),
        ),
    ),
    QuizQuestion(
        "01.lost",
        "A colleague finds X·R = 1.00 in the records of a run with one call in flight. She "
        "concludes that no call was lost. Is she right?",
        (
            Option(
                "Yes: a lost call would break the law.",
                why="You deleted rows in this lesson, and the law still held. X, R and L come from "
                "the same rows.",
            ),
            Option(
                "No: she has to compare two counts.",
                right=True,
                why="Calls sent, calls recorded and calls counted by the server are separate "
                "counts. Only such a comparison finds a lost call.",
            ),
            Option(
                "No: X·R should be larger than 1.",
                why="With one call in flight, X·R is at most 1.",
            ),
        ),
    ),
)
