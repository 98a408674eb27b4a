"""What lesson 16 asks."""

import numpy as np

from kvstore.course.experiments.several_servers import PERIOD_STEP, STALL_PERIOD_S
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion
from kvstore.model import Prediction, tail_latency
from kvstore.numbers import number

STALL = {"stall_s": 0.2, "every_s": 0.5, "service_s": 0.005}
"""The server of round 1: it stalls for 200 ms of every half second."""
REPLICA = {"slow_share": 0.1, "slow_s": 0.1, "disk_s": 0.020}
"""The servers of round 2: one reply in ten takes more than 100 ms."""
AFTER_S = 0.050
"""Seconds after which their reads are sent to a second server."""
UTILISATION = 0.7
"""How busy the servers of round 3 are without hedging."""


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


PREDICTIONS = (
    PredictionQuestion(
        "16.stall_p90",
        "Calls are due 50 times a second, and none waits for another: 90 % of them take at most "
        "how many seconds?",
        unit="s",
        measured=lambda run: run.latency_s(0.9),
        model=lambda run: tail_latency.latency(0.9, **STALL),
    ),
    PredictionQuestion(
        "16.slowest",
        "A page needs all servers: what share of the pages takes more than 100 ms?",
        unit="of the requests",
        measured=lambda found: found.slow_share(found.answer_s.shape[1], REPLICA["slow_s"]),
        model=lambda found: tail_latency.slow_of_all(
            found.answer_s.shape[1], REPLICA["slow_share"]
        ),
    ),
    PredictionQuestion(
        "16.hedged",
        "A second call after 50 ms: what share of the reads takes more than 100 ms?",
        unit="of the requests",
        measured=lambda found: found.slow_share(REPLICA["slow_s"]),
        model=lambda found: slow_in_spite(found.servers),
    ),
    PredictionQuestion(
        "16.hedged_busy",
        "Busy servers, a second call after 20 ms: what share of the reads takes more than 100 ms?",
        unit="of the requests",
        measured=lambda found: found.slow_share(REPLICA["slow_s"]),
        model=lambda found: slow_when_busy(found.hedged_share),
        main=True,
    ),
)

QUIZ = (
    QuizQuestion(
        "16.generator",
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
        "16.fan_out",
        "A request needs 50 servers, and may be slow in 1 of 20 cases. How often may one server be "
        "slow?",
        (
            Option("1 of 20", why="Then nearly every request meets a slow server: 1 - 0.95^50."),
            Option("1 of 50", why="1 - 0.98^50 is 64 % of the requests."),
            Option("1 of 1,000", right=True, why="1 - (1 - p)^50 = 0.05 gives p = 0.001."),
        ),
    ),
    QuizQuestion(
        "16.when_to_hedge",
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
