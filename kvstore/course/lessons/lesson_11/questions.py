"""What lesson 11 asks."""

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
        "11.stall_p90",
        "Calls are due 50 times a second, and none waits for another: 90 % of them take at most "
        "how many seconds?",
        unit="s",
        measured=lambda run: run.latency_s(0.9),
        model=lambda run: tail_latency.latency(0.9, **STALL),
    ),
    PredictionQuestion(
        "11.slowest",
        "A page needs all servers: what share of the pages takes more than 100 ms?",
        unit="of the requests",
        measured=lambda found: found.slow_share(found.answer_s.shape[1], REPLICA["slow_s"]),
        model=lambda found: tail_latency.slow_of_all(
            found.answer_s.shape[1], REPLICA["slow_share"]
        ),
    ),
    PredictionQuestion(
        "11.hedged",
        "A second call after 50 ms: what share of the reads takes more than 100 ms?",
        unit="of the requests",
        measured=lambda found: found.slow_share(REPLICA["slow_s"]),
        model=lambda found: slow_in_spite(found.servers),
    ),
    PredictionQuestion(
        "11.hedged_busy",
        "Busy servers, a second call after 20 ms: what share of the reads takes more than 100 ms?",
        unit="of the requests",
        measured=lambda found: found.slow_share(REPLICA["slow_s"]),
        model=lambda found: slow_when_busy(found.hedged_share),
        main=True,
    ),
)

QUIZ = (
    QuizQuestion(
        "11.generator",
        "A load generator waits for each reply before it sends the next call. It reports a p99 of "
        "6 ms. Users complain. Which is right?",
        (
            Option(
                "The generator: it measured every call, and users remember slow ones.",
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
        "11.fan_out",
        "A request needs 50 servers, and may be slow in 1 of 20 cases. How often may one server be "
        "slow?",
        (
            Option("1 of 20", why="Then nearly every request meets a slow server: 1 - 0.95^50."),
            Option("1 of 50", why="1 - 0.98^50 is 64 % of the requests."),
            Option("1 of 1,000", right=True, why="1 - (1 - p)^50 = 0.05 gives p = 0.001."),
        ),
    ),
    QuizQuestion(
        "11.when_to_hedge",
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
                "Never: at 70 % even one copy in twenty overloads a replica.",
                why="There is room for some more calls: 0.7 · 1.05 = 0.74. But at 0.7 · 1.4 = 0.98 "
                "the queues are very long, although they do not grow for ever.",
            ),
        ),
    ),
)

PART_QUIZ = (
    QuizQuestion(
        "11.part_limit",
        "A server works on one call at a time, 200 calls/s at most. Callers wait for 100 ms. "
        "Arrivals and work are random; at U = 80 %, 4 calls are in it on average. Which limit"
        " on accepted calls fits?",
        (
            Option(
                "4",
                why="4 is the mean. Bursts go far beyond it, so this limit refuses many calls "
                "that would be answered in time.",
            ),
            Option(
                "20",
                right=True,
                why="limit ≤ X · deadline = 200 · 0.1. Bursts have room, and each accepted call "
                "is answered in time.",
            ),
            Option(
                "200",
                why="The last of 200 calls waits for a second. Its caller is gone by then.",
            ),
        ),
    ),
    QuizQuestion(
        "11.part_retry",
        "U is 60 %, arrivals are random. Now a tenth of all attempts fails after the full "
        "work, and each is retried until it succeeds. By how much does the mean wait of one "
        "attempt in the queue grow?",
        (
            Option(
                "it doubles",
                why="It would at U = 75 %. Each call needs 1 / 0.9 = 1.11 attempts, so U is 67 %.",
            ),
            Option(
                "by about a tenth",
                why="The load grows by a ninth. The wait grows with U / (1 - U), which is steeper.",
            ),
            Option(
                "by about a third",
                right=True,
                why="U becomes 0.6 / 0.9 = 0.67. U / (1 - U) rises from 1.5 to 2.",
            ),
        ),
    ),
    QuizQuestion(
        "11.part_refused",
        "A request needs an answer from each of 20 groups of servers. Each server refuses 1 %"
        " of its calls, at random. The client sends a refused call once more, to another "
        "server of the group. How many requests stay incomplete?",
        (
            Option(
                "18 %",
                why="That is 1 - 0.99^20, without the second call.",
            ),
            Option(
                "0.2 %",
                right=True,
                why="Both calls are refused in 0.01 · 0.01 of the cases: 1 - (1 - 0.0001)^20. It "
                "costs 1 % more calls, a small budget.",
            ),
            Option(
                "1 %",
                why="That is the share for one server, without a second call. 20 groups have to "
                "answer.",
            ),
        ),
    ),
    QuizQuestion(
        "11.part_hedge",
        "Reads are hedged after 20 ms, the 95th percentile. U is 70 %. Then a burst makes "
        "nearly all reads slower than 20 ms. What do the hedges do, without a budget?",
        (
            Option(
                "5 % of the reads are hedged, as before.",
                why="The delay is fixed. The share was 5 % because 5 % took longer. Now nearly "
                "all do.",
            ),
            Option(
                "They can keep the servers overloaded after the burst.",
                right=True,
                why="Nearly every read is sent twice: 0.7 · 2 = 1.4. It is the loop of the "
                "retries: slow calls make more calls.",
            ),
            Option(
                "They end the burst sooner: two servers work on each read.",
                why="That helps where servers are idle. Here every second call waits in a queue, "
                "and makes it longer.",
            ),
        ),
    ),
    QuizQuestion(
        "11.part_dashboard",
        "A limit now refuses 30 % of the calls, each within 0.1 ms. The p99 and the mean of "
        "*all* calls fall. Is the service better?",
        (
            Option(
                "Yes: nearly all calls are faster.",
                why="A refusal is a fast answer, and not a useful one.",
            ),
            Option(
                "These two numbers cannot tell.",
                right=True,
                why="Look at accepted calls: how many are answered in time each second, and how "
                "long they take, from their due times.",
            ),
            Option(
                "No: a limit makes accepted calls slower.",
                why="A limit makes the queue shorter, so accepted calls become faster.",
            ),
        ),
    ),
)
