"""What lesson 10 and its further lesson ask."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion, computed
from kvstore.measure import Run
from kvstore.model import Prediction, Station, overload
from kvstore.protocol import OK


def pool(back: Any) -> Station:
    """Return the station of the back end: its thread pool, with the disk time of a read."""
    return Station("thread pool", back.settings.read_delay_s, back.settings.threads)


def attempts_of(config: Mapping[str, Any]) -> int:
    """Return the most attempts of one call under a service config."""
    return int(config["methodConfig"][0]["retryPolicy"]["maxAttempts"])


def late_calls(run: Run) -> Any:
    """Return the records of the calls that were due in the last third of the run."""
    return run.records[run.records["due_s"] >= 2 / 3 * run.settings["duration_s"]]


def failed_late(run: Run) -> float:
    """Return how many of 100 calls failed, of those that were due in the last third of the run."""
    late = late_calls(run)
    return 100 * float(np.mean(late["status"] != OK)) if len(late) else float("nan")


def counted(run: Run) -> int:
    """Return the attempts that the server counted in a run."""
    return int(sum(run.server["operations"].values()))


def after_peak(back: Any, config: Mapping[str, Any], run: Run) -> Prediction:
    """Return how many of 100 late calls fail, from the rate at which late calls were due."""
    due = late_calls(run)["due_s"]
    rate_per_s = (len(due) - 1) / float(due.max() - due.min())
    return overload.failing_in_storm(rate_per_s, attempts_of(config), pool(back))


class Crowd(NamedTuple):
    """A run of a crowd of callers, and how many they are."""

    run: Run
    size: int

    @property
    def started_at(self) -> str:
        """When the run began."""
        return self.run.started_at


PREDICTIONS = (
    PredictionQuestion(
        "10.storm",
        "Long after the peak: how many of 100 calls fail? (If you say none, write 1.)",
        unit="calls",
        measured=lambda back, config, run: failed_late(run),
        model=after_peak,
        main=True,
    ),
    PredictionQuestion(
        "10.in_step",
        "All retry after the same pause: how many attempts does the crowd need?",
        unit="attempts",
        measured=lambda crowd: crowd.run.issued,
        model=lambda crowd: overload.retries_in_lockstep(
            crowd.size, crowd.run.server["settings"]["max_concurrent_rpcs"]
        ),
    ),
    computed(
        "10.sent_twice",
        "Twenty Creates are given up and sent again: how many of the clients are told that their "
        "key exists?",
        "clients",
    ),
)

QUIZ = (
    QuizQuestion(
        "10.amplified",
        "A server can do 1,000 calls/s and gets 300/s. Each call has up to 4 attempts. After a "
        "short outage, ...",
        (
            Option(
                "... it recovers: 300/s are far below 1,000/s.",
                why="While all attempts fail, 4 · 300 = 1,200 attempts per second arrive.",
            ),
            Option(
                "... it may never recover: 1,200 attempts/s come.",
                right=True,
                why="A·λ > X: the failures cause the load that causes the failures.",
            ),
            Option(
                "... it recovers as soon as the cause of the outage is over.",
                why="The queue of retries stays. The cause is over, and the load is not.",
            ),
        ),
    ),
    QuizQuestion(
        "10.budget",
        "maxTokens is 100, tokenRatio is 0.1, and every call fails. How many retries does a "
        "client send in the long run?",
        (
            Option(
                "One for each call that fails.",
                why="That would double the load. Each failed attempt costs a token.",
            ),
            Option(
                "At most 49, then none.",
                right=True,
                why="Each failure costs a token, and more than half of them must be left.",
            ),
            Option("100.", why="Retries end when half of the tokens are left."),
        ),
    ),
    QuizQuestion(
        "10.after_a_deadline",
        "A call ended with DEADLINE_EXCEEDED. May the client send it again?",
        (
            Option(
                "Yes: it failed, so the server cannot have done its work.",
                why="The server may have done it. Only the reply came too late.",
            ),
            Option(
                "Yes, if it is idempotent and the budget allows it.",
                right=True,
                why="Done twice, it has the same effect as done once, as a read has. And each "
                "retry is more load.",
            ),
            Option(
                "Never.",
                why="A read may be sent again: reading twice changes nothing.",
            ),
        ),
    ),
    QuizQuestion(
        "10.lasting",
        "A server is down for an hour. Its clients retry with full jitter and without a budget. "
        "What does jitter do about their load?",
        (
            Option(
                "It bounds the load.",
                why="It spreads the attempts over time. Each client goes on sending them.",
            ),
            Option(
                "It spreads the attempts over time, and does not bound them.",
                right=True,
                why="Pauses and jitter help a crowd that was refused together. Against trouble "
                "that lasts, only a budget helps.",
            ),
            Option(
                "Nothing: the pauses grow anyway.",
                why="Without jitter, callers that failed together come back together.",
            ),
        ),
    ),
)
