"""What lesson 01 asks: a loop that waits, the mix, a lossy counter."""

from typing import Final

from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion, number_question
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
        measured=lambda reads, mixed, counted, run: counted / run.window_s,
        model=_of_counter,
    ),
)


QUIZ: Final = (
    number_question(
        "01.hundred",
        "A loop retrieves {keys} keys and then updates the same keys, one call at a time. A read "
        "takes {read} ms, a write {write} ms. How many seconds does the loop take, at least?",
        "s",
        (
            lambda keys, read, write: keys * (read + write) / 1e3,
            "{keys} · {read} ms + {keys} · {write} ms, and the round trips come on top.",
        ),
        (
            lambda keys, read, write: 2 * keys * write / 1e3,
            "That is each call at the time of the slowest kind.",
        ),
        (
            lambda keys, read, write: 4 * keys / (1e3 / read + 1e3 / write),
            "That is each call at the mean of the two rates. Add up the times.",
        ),
        other="Add up the times: each key is read once and written once.",
        keys=(100, 200, 300),
        read=(10, 5, 20),
        write=(50, 80, 100),
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

PART_QUIZ = (
    QuizQuestion(
        "01.part_idle",
        "A loop has one call in flight and makes 25 calls/s. The mean latency is 30 ms. What "
        "do you conclude?",
        (
            Option(
                "A quarter of the calls was lost.",
                why="No count was compared here. Calls that are missing from the records change X"
                " and L together.",
            ),
            Option(
                "For a quarter of the time, no call was in flight.",
                right=True,
                why="L = 25 · 0.030 = 0.75. The loop works for 10 ms between two calls, so X is "
                "less than 1/R.",
            ),
            Option(
                "The figures are wrong: with one caller, X·R must be 1.",
                why="X·R is the mean number in flight. It is below 1 when the client does "
                "something between two calls.",
            ),
        ),
    ),
    QuizQuestion(
        "01.part_eight",
        "Eight of these loops run side by side. Together they make 100 calls/s. How long does"
        " a call take, at most?",
        (
            Option(
                "10 ms",
                why="That is 1/X, and it holds for one loop. Here up to 8 calls are in flight.",
            ),
            Option(
                "80 ms",
                right=True,
                why="R = L/X, and L is at most 8. It is less if the loops pause between two calls.",
            ),
            Option(
                "800 ms",
                why="R is L divided by X: 8/100 s.",
            ),
        ),
    ),
    QuizQuestion(
        "01.part_station",
        "One call in flight, half of the calls are reads. A call spends 1 ms on the network, "
        "then 10 ms (a read) or 50 ms (a write) at the disk. A new disk writes in 10 ms. The "
        "throughput becomes ...",
        (
            Option(
                "... 5 times as high.",
                why="Only one station of one operation became 5 times as fast. The network and "
                "the reads stay.",
            ),
            Option(
                "... about 2.8 times as high.",
                right=True,
                why="The mean of R falls from (11 + 51) / 2 = 31 ms to 11 ms.",
            ),
            Option(
                "... about 1.7 times as high.",
                why="That would hold if the writes took half of the time. They take 51 of 62 ms.",
            ),
        ),
    ),
    QuizQuestion(
        "01.part_missing",
        "A loop calls without a pause, one call at a time. Its records say 16 calls/s and R ="
        " 50 ms. The server counted 20 calls/s. What is likely?",
        (
            Option(
                "The client was idle for a fifth of the time.",
                why="The records alone look like that: L = 0.8. But 20 calls/s · 50 ms = 1: a "
                "call was in flight all the time.",
            ),
            Option(
                "A fifth of the calls is not in the records.",
                right=True,
                why="With the server's count, L is 1, as it must be for a loop without a pause.",
            ),
            Option(
                "The server answered some calls before they were sent.",
                why="The server only counts what arrives. The client sent these calls, and did "
                "not record them.",
            ),
        ),
    ),
    QuizQuestion(
        "01.part_two_minutes",
        "For a minute, a loop makes reads at 100 calls/s. In the next minute it makes writes "
        "at 20 calls/s. What is X over both minutes?",
        (
            Option(
                "60 calls/s",
                right=True,
                why="Calls divided by time: (6,000 + 1,200) / 120 s. The two *times* are equal, "
                "so here the mean of the rates is right.",
            ),
            Option(
                "33 calls/s",
                why="That is right for equally many reads and writes. Here there are 5 times as "
                "many reads.",
            ),
            Option(
                "20 calls/s: the slower minute decides",
                why="X is the number of all calls divided by the whole time.",
            ),
        ),
    ),
)
