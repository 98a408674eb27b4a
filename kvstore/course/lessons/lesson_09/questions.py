"""What lesson 09 and its further lessons ask."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kvstore.course.experiments.several_servers import PERIOD_STEP, STALL_PERIOD_S
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion
from kvstore.measure import Run
from kvstore.model import Prediction, Station, overload, tail_latency
from kvstore.numbers import number
from kvstore.protocol import OK

STALL = {"stall_s": 0.2, "every_s": 0.5, "service_s": 0.005}
"""The server of round 2: it stalls for 200 ms of every half second."""
REPLICA = {"slow_share": 0.1, "slow_s": 0.1, "disk_s": 0.020}
"""The servers of round 3: one reply in ten takes more than 100 ms."""
AFTER_S = 0.050
"""Seconds after which their reads are sent to a second server."""
UTILISATION = 0.7
"""How busy the servers of round 4 are without hedging."""


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


def periods_s(servers: int) -> list[float]:
    """Return the seconds from one stall to the next, for each server of `stalling`."""
    return [STALL_PERIOD_S * (1 + PERIOD_STEP * number) for number in range(servers)]


def slow_in_spite(servers: int, after_s: float = AFTER_S) -> Prediction:
    """Return the share of slow reads with hedging, for the servers of `stalling`."""
    share, slow_s, disk_s = (REPLICA[name] for name in ("slow_share", "slow_s", "disk_s"))
    second = [
        tail_latency.slow_share(
            slow_s - after_s,
            stall_s=share * every_s + slow_s - disk_s,
            every_s=every_s,
            service_s=disk_s,
        ).value
        for every_s in periods_s(servers)
    ]
    return tail_latency.slow_in_spite_of_hedging(
        Prediction(share, "of the requests", ""),
        Prediction(float(np.mean(second)), "of the requests", ""),
        after_s=after_s,
    )


def slow_when_busy(hedged_share: float, utilisation: float = UTILISATION) -> Prediction:
    """Return the share of slow reads of a pool: all of them if hedging makes it overloaded."""
    load = tail_latency.utilisation_with_hedging(utilisation, hedged_share)
    return Prediction(
        1.0 if load.value > 1 else 0.0,
        "of the requests",
        f"utilisation {load.reason} = {number(load.value)}: "
        + (
            "above 1, so the queues grow" if load.value > 1 else "below 1, so the queues stay short"
        ),
        "hedging" if load.value > 1 else "",
    )


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
        "09.storm",
        "Long after the peak: how many of 100 calls fail? (If you say none, write 1.)",
        unit="calls",
        measured=lambda back, config, run: failed_late(run),
        model=after_peak,
        main=True,
    ),
    PredictionQuestion(
        "09.stall_p90",
        "Calls are due 50 times a second, and none waits for another: 90 % of them take at most "
        "how many seconds?",
        unit="s",
        measured=lambda run: run.latency_s(0.9),
        model=lambda run: tail_latency.latency(0.9, **STALL),
    ),
    PredictionQuestion(
        "09.hedged",
        "A second call after 50 ms: what share of the reads takes more than 100 ms?",
        unit="of the requests",
        measured=lambda found: found.slow_share(REPLICA["slow_s"]),
        model=lambda found: slow_in_spite(found.servers),
    ),
    PredictionQuestion(
        "09.hedged_busy",
        "Busy servers, a second call after 20 ms: what share of the reads takes more than 100 ms?",
        unit="of the requests",
        measured=lambda found: found.slow_share(REPLICA["slow_s"]),
        model=lambda found: slow_when_busy(found.hedged_share),
    ),
    # further lessons
    PredictionQuestion(
        "09.in_step",
        "All retry after the same pause: how many attempts does the crowd need?",
        unit="attempts",
        measured=lambda crowd: crowd.run.issued,
        model=lambda crowd: overload.retries_in_lockstep(
            crowd.size, crowd.run.server["settings"]["max_concurrent_rpcs"]
        ),
    ),
)

QUIZ = (
    QuizQuestion(
        "09.amplified",
        "A server can do 1,000 calls/s and gets 300/s. Each call has up to 4 attempts. After a "
        "short outage, ...",
        (
            Option(
                "... it recovers: 300/s are far below 1,000/s.",
                why="While all attempts fail, 4 · 300 = 1,200 attempts per second arrive.",
            ),
            Option(
                "... it may never recover: 1,200 attempts per second can keep it overloaded.",
                right=True,
                why="A·λ > X: the failures cause the load that causes the failures.",
            ),
            Option(
                "... it recovers as soon as the cause is over.",
                why="The queue of retries stays. The cause is over, and the load is not.",
            ),
        ),
    ),
    QuizQuestion(
        "09.budget",
        "maxTokens is 100, tokenRatio is 0.1, and every call fails. How many retries does a "
        "client send in the long run?",
        (
            Option(
                "One for each call.",
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
        "09.generator",
        "A load generator waits for each reply before it sends the next call. It reports a p99 of "
        "6 ms. Users complain. Which is right?",
        (
            Option(
                "The generator: it measured every call.",
                why="It sent one call into each stall. Users would have sent many.",
            ),
            Option(
                "The users: the generator stopped sending while the server stalled.",
                right=True,
                why="Coordinated omission. Send at due times, and count from the due time.",
            ),
            Option("Neither: 6 ms is an average.", why="It is a percentile, of the wrong calls."),
        ),
    ),
    QuizQuestion(
        "09.fan_out",
        "A request needs 50 servers, and may be slow in 1 of 20 cases. How often may one server be "
        "slow?",
        (
            Option("1 of 20", why="Then nearly every request meets a slow server: 1 - 0.95^50."),
            Option("1 of 50", why="1 - 0.98^50 is 64 % of the requests."),
            Option("1 of 1,000", right=True, why="1 - (1 - p)^50 = 0.05 gives p = 0.001."),
        ),
    ),
    QuizQuestion(
        "09.when_to_hedge",
        "Two replicas, each busy 70 % of the time. When may a second call be sent?",
        (
            Option(
                "At once: the faster one wins.",
                why="0.7 · 2 = 1.4: both queues grow, and every read is slow.",
            ),
            Option(
                "When a read takes longer than 95 % of all reads do.",
                right=True,
                why="Then 5 % of the reads are sent twice: 0.7 · 1.05 < 1.",
            ),
            Option(
                "Never: 70 % is too much.",
                why="There is room for some more calls: 0.7 · 1.05 = 0.74. But at 0.7 · 1.4 = 0.98 "
                "the queues are very long, although they do not grow for ever.",
            ),
        ),
    ),
)
