"""What lesson 16 asks."""

from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion
from kvstore.load_test import Calibration
from kvstore.measure import Run


def few(run: Run, seen: Calibration) -> float:
    """The throughput of the run, in calls/s."""
    return run.answered_per_s


PREDICTIONS = (
    PredictionQuestion(
        "16.few",
        "3 calls in flight: how many calls per second?",
        measured=few,
        model=lambda run, seen: seen.closed_loop(run.in_flight),
    ),
    PredictionQuestion(
        "16.many",
        "24 calls in flight: how many calls per second?",
        measured=few,
        model=lambda run, seen: seen.closed_loop(run.in_flight),
        main=True,
    ),
    PredictionQuestion(
        "16.rate",
        "What is the highest arrival rate at which the p99 meets the objective?",
        measured=lambda found, seen: found.rate_per_s,
        model=lambda found, seen: seen.ceiling_per_s,
    ),
)

QUIZ = (
    QuizQuestion(
        "16.idle",
        "N* is 6, and neither the client nor the server uses much processor time. What is the "
        "bottleneck?",
        (
            Option("The load generator.", why="It would use about one core."),
            Option(
                "A station that serves about 6 calls at once, such as a pool.",
                right=True,
                why="N* = (D + Z)·X_max is the number of servers if a call spends its time there.",
            ),
            Option(
                "The delay of the network, for which each of the six calls waits.",
                why="A delay does not limit X: more calls in flight fit in.",
            ),
        ),
    ),
    QuizQuestion(
        "16.sent",
        "The service stalls for one second. Calls are due at 100 per second. But the generator "
        "sends a call only when the last one has ended, and measures from the sending. How many "
        "slow calls does it report?",
        (
            Option(
                "One.",
                right=True,
                why="The other 99 that were due in the stall were sent after it. Measured from "
                "their due times, they are slow too.",
            ),
            Option("About 100.", why="That many were due. It sent only one of them in the stall."),
            Option("None.", why="One call was in flight when the stall began."),
        ),
    ),
    QuizQuestion(
        "16.deadline",
        "2 % of the calls ended at their deadline of 100 ms. What is the p99?",
        (
            Option("100 ms.", why="These calls would have taken longer. 100 ms is a lower limit."),
            Option(
                "Above 100 ms; how far above is unknown.",
                right=True,
                why="More than 1 % of the calls were cut off, so the p99 is one of them.",
            ),
            Option(
                "The p99 of the other 98 %.",
                why="That leaves out the slowest calls, and so answers another question.",
            ),
        ),
    ),
)
