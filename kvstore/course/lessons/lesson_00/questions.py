"""What lesson 00 asks, and its further notebooks: one call, calls in flight, the machine."""

from typing import Final

from kvstore.course.questions import (
    Option,
    PredictionQuestion,
    QuizQuestion,
    computed,
    number_question,
)
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


PREDICTIONS: Final = (
    PredictionQuestion(
        "00.climb",
        "How many operations per second can this service reach on your laptop, at its best?",
        unit="operations/s",
        measured=lambda runs: max(run.throughput_per_s for run in runs.values()),
        far_off=(
            "far off, as nearly everybody is here: nobody knows it without a run. The lessons "
            "climb to this number, step by step"
        ),
    ),
    PredictionQuestion(
        "00.retrieve",
        "How many milliseconds does one Retrieve take, from sending to reply?",
        unit="ms",
        measured=_residence_ms,
        model=_one_read,
    ),
    PredictionQuestion(
        "00.in_flight",
        "How many of these calls are in flight, on average?",
        unit="calls",
        measured=lambda run: audit(run).in_flight_mean,
        model=_in_flight,
        main=True,
    ),
    # further/00_your_machine
    computed(
        "00.false_alarm",
        "A against A: how many percent of the pairs of runs differ by more than 5 %?",
        "%",
    ),
    computed(
        "00.timer",
        "A sleep of 10 ms: by how many microseconds does it end too late, at the median?",
        "µs",
    ),
    computed(
        "00.busy",
        "One call in flight, no disk: how many percent of one core does the client use?",
        "%",
    ),
)

QUIZ: Final = (
    number_question(
        "00.little",
        "A service answers {x} calls/s. Each takes {r} ms. How many are in flight, on average?",
        "calls",
        (lambda x, r: x * r / 1e3, "X·R, with R in seconds. Nothing else is needed."),
        (lambda x, r: x, "That is how many arrive in a second. None stays for a whole second."),
        (lambda x, r: x / r, "Twice the time means twice as many inside: multiply."),
        x=(200, 300, 500),
        r=(30, 40, 60),
    ),
    number_question(
        "00.audit",
        "A report says: {n} clients, each with one call in flight; {x:,} calls/s; mean latency {r}"
        " ms. How many calls were really in flight, on average?",
        "calls",
        (
            lambda n, x, r: x * r / 1e3,
            "X·R. Most clients were not waiting for a reply: were they all running, and for the"
            " whole time?",
        ),
        (lambda n, x, r: n, "That is what the report states. What is X·R of its other figures?"),
        (
            lambda n, x, r: n - x * r / 1e3,
            "So many clients had no call in flight. The question is how many had one.",
        ),
        n=(64, 80, 100),
        x=(2_000, 2_500),
        r=(8, 10),
    ),
    QuizQuestion(
        "00.station",
        "The disk of our server becomes twice as fast: it needs 5 ms for a read. The rest stays. "
        "One call takes ...",
        (
            Option(
                "half as long, as the disk is the slow part.",
                why="Only the disk is faster. The round trip is still there.",
            ),
            Option(
                "a little more than half as long.",
                right=True,
                why="The disk's part is halved; the round trip is not.",
            ),
            Option("as long as before.", why="The disk was the largest part of a read."),
        ),
    ),
)
