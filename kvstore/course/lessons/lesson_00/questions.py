"""What lesson 00 asks, and its further notebooks: one call, calls in flight, the machine."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from kvstore.course import machine
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion, number_question
from kvstore.measure import Run, audit, only
from kvstore.model import Prediction, Station, bounds

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
    PredictionQuestion(
        "00.round_trip",
        "How many microseconds does a call without a disk take? (1 ms is 1,000 µs.)",
        unit="µs",
        measured=lambda run: 1e6 * run.latency_s(0.5),
    ),
    PredictionQuestion(
        "00.noise",
        "By how many percent is the fastest run faster than the slowest?",
        unit="%",
        measured=lambda same: 100 * _spread(same),
    ),
    PredictionQuestion(
        "00.timer",
        "A sleep of 2.5 ms on the event loop: how many milliseconds does it last?",
        unit="ms",
        measured=lambda timed: timer_ms(timed),
        model=lambda timed: Prediction(2.5, "ms", "what the code says"),
    ),
    # further/00_cpu_per_call
    PredictionQuestion(
        "00.most",
        "100 calls in flight and no disk: how many calls per second?",
        measured=lambda costs, run: run.answered_per_s,
        model=lambda costs, run: most_of(costs),
        main=True,
        binds="cpu",
    ),
)


def _spread(same: Mapping[str, Sequence[Run]]) -> float:
    rates = [run.throughput_per_s for runs in same.values() for run in runs]
    return max(rates) / min(rates) - 1


def timer_ms(timed: Mapping[str, Run]) -> float:
    """Return how long a sleep of 2.5 ms lasted on the event loop, in the middle."""
    column = machine.timer(timed)["got, median (ms)"]
    return float(column.loc[("asyncio", 2.5)])


def most_of(costs: Run) -> Prediction:
    """Return the bound on throughput that the processor time of a call in this run sets."""
    round_trip = Station("round trip", costs.mean_residence_s / costs.in_flight, math.inf)
    return bounds.closed_loop(100, [round_trip, *machine.cpu_stations(costs)])


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
