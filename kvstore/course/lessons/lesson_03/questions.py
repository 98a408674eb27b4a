"""What lesson 03 and its further lessons ask, and the figures of their runs."""

import math

from kvstore.course.questions import Curve, Option, PredictionQuestion, QuizQuestion
from kvstore.measure import Run
from kvstore.model import Prediction, Station, bounds, service_time_s

WRITE_S = 0.050


def disk_s(run: Run) -> float:
    """Mean disk time of the operations that the run sent, from the delays of its server."""
    settings = run.server.settings
    return service_time_s(
        run.mix(),
        read_delay_s=settings.read_delay_s,
        write_delay_s=settings.write_delay_s,
    )


def stations(run: Run) -> list[Station]:
    """The station that serves one call at a time, or the disk that all calls use at once."""
    locking = run.server.settings.locking
    if locking == "global":
        return [Station("lock", disk_s(run))]
    return [Station("disk", disk_s(run), math.inf)]


def bound(run: Run) -> Prediction:
    """X ≤ min(N/D, 1/D_max) for the server of the run."""
    return bounds.closed_loop(run.in_flight, stations(run))


def settled_residence_s(run: Run) -> float:
    """Mean residence time after the queue has filled: without the first N calls.

    These found the queue shorter than it is later. If a busy machine made no more, it is the time
    of the last one, which found the others before it.
    """
    residence_s = run.calls["residence_s"]
    return float(residence_s[min(run.in_flight, len(residence_s) - 1) :].mean())


def while_sending_per_s(run: Run) -> float:
    """Calls answered per second until the last call was sent.

    When the sending stops, the keys drain, and the one with the longest queue drains alone.
    """
    until_s = float(run.calls["sent_s"].max())
    return float((run.calls["done_s"] <= until_s).sum() / until_s)


PREDICTIONS = (
    PredictionQuestion(
        "03.global_lock",
        "100 calls in flight, one lock: how many calls per second?",
        measured=lambda run: run.answered_per_s,
        model=bound,
        main=True,
    ),
    PredictionQuestion(
        "03.global_wait",
        "How many seconds does one of these calls take?",
        unit="s",
        measured=settled_residence_s,
        model=lambda run: bounds.residence(run.in_flight, stations(run)),
    ),
    PredictionQuestion(
        "03.per_key",
        "100 calls in flight, and the disk serves all of them at once: how many calls per second?",
        measured=lambda run: run.answered_per_s,
        model=bound,
        main=True,
    ),
    Curve(
        "03.curve",
        "The server without the lock: how many calls per second for each number in flight?",
        over="calls in flight, N",
        xs=(1, 10, 20, 40, 60, 80, 100),
        most=3_000,
        measured=lambda known, fewer: {r.in_flight: r.answered_per_s for r in (known, *fewer)},
        model=lambda known, _: {
            n: bounds.closed_loop(n, stations(known)).value for n in (1, 5, 10, 20, 50, 100)
        },
    ),
    PredictionQuestion(
        "03.hot_keys",
        "100 updates in flight, 4 keys, each key's lock is held for 50 ms: how many per second?",
        measured=while_sending_per_s,
        model=lambda run: bounds.closed_loop(
            run.in_flight, [Station("one of 4 keys", WRITE_S, servers=4)]
        ),
        main=True,
    ),
    PredictionQuestion(
        "03.zipf",
        "16 keys after Zipf's law, 4 writes of 20 ms in flight: how many writes per second?",
        measured=lambda run, simulated: while_sending_per_s(run),
        model=lambda run, simulated: Prediction(
            simulated, "calls/s", "a simulation: some of the 4 calls wait for the same key"
        ),
        main=True,
    ),
)

QUIZ = (
    QuizQuestion(
        "03.double",
        "The server has one lock. You double the semaphore from 100 to 200. What happens?",
        (
            Option(
                "The throughput doubles.",
                why="The lock serves one call at a time. N is not part of 1/D_max.",
            ),
            Option(
                "Each call takes twice as long.",
                right=True,
                why="X stays at 1/D_max, and R = N/X doubles.",
            ),
            Option(
                "Nothing: the lock serves one call, as before.",
                why="The throughput does not change, but 200 calls now wait in place of 100.",
            ),
        ),
    ),
    QuizQuestion(
        "03.faster_disk",
        "No lock, 100 calls in flight. A call needs 40 ms of disk, and 0.2 ms of the client's CPU. "
        "The disk becomes ten times as fast. The throughput ...",
        (
            Option(
                "... becomes ten times as high, as the disk was the limit.",
                why="100/4.2 ms would be 24,000/s. But the CPU serves at most 1/0.2 ms = 5,000/s.",
            ),
            Option("... does not change.", why="The disk was the largest part of each call."),
            Option(
                "... about doubles: then the CPU is full.",
                right=True,
                why="100/40.2 ms = 2,490/s before. Then the smaller bound is 1/0.2 ms = 5,000/s.",
            ),
        ),
    ),
    QuizQuestion(
        "03.ratio",
        "A run reaches 0.90 of the bound at 4 ms of disk. The same overhead, 40 ms of disk: the "
        "ratio is about ...",
        (
            Option("... 0.90 again.", why="The overhead is 0.44 ms, whatever the disk is."),
            Option(
                "... 0.99.",
                right=True,
                why="4/(4 + 0.44) = 0.90 and 40/(40 + 0.44) = 0.99. Compare overheads in ms.",
            ),
            Option("... 0.09.", why="A slower disk hides the overhead. It does not add to it."),
        ),
    ),
    QuizQuestion(
        "03.identity",
        "'N divided by the measured R is X within 0.1 %, so our model of the server is right.' "
        "What was shown?",
        (
            Option(
                "The model of the server is right.",
                why="No model was used: R comes from the same run.",
            ),
            Option(
                "No call was lost.",
                why="The law holds for any part of the records. Only a second count finds a loss.",
            ),
            Option(
                "Nothing about the server.",
                right=True,
                why="Only that N calls were in flight all the time. L, X and R of the same records "
                "always fit. A prediction uses parts known before.",
            ),
        ),
    ),
)


def served_at_once(run: Run) -> float:
    """Calls that the disk works on at one time, on average: X times the mean disk time."""
    return run.answered_per_s * disk_s(run)
