"""What lesson 11 asks."""

from collections.abc import Callable

import numpy as np

from kvstore.course.lessons.lesson_11 import hedging
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion, number_question
from kvstore.model import Prediction, tail_latency


def _from_runs(
    one_run: Callable[[np.random.Generator], float], runs: int, unit: str, reason: str
) -> Prediction:
    """Return the median of simulated runs, with the interval of 90 % of them."""
    rng = np.random.default_rng()
    low, middle, high = np.quantile([one_run(rng) for _ in range(runs)], (0.05, 0.5, 0.95))
    return Prediction(float(middle), unit, reason, interval=(float(low), float(high)))


def stall_p99() -> Prediction:
    """Return the p99 of round 1 in seconds: the law for evenly spaced calls, and its spread."""
    law = tail_latency.latency(
        0.99, stall_s=hedging.STALL_S, every_s=hedging.EVERY_S, service_s=hedging.READ_S
    )
    runs = _from_runs(hedging.stalled_p99_s, 300, "s", "")
    return Prediction(law.value, "s", law.reason, law.binds, runs.interval)


def busy_share(rng: np.random.Generator) -> float:
    """Return the share of slow reads in one run of round 3."""
    arrivals_s = hedging.arrivals_s(112, 700, rng).tolist()
    reads = hedging.hedged_reads(arrivals_s, lambda: 0.050, 0.020, rng)
    return float((reads.took_s > 0.1).mean())


def _wait(utilisation: float) -> float:
    """Return the mean wait in a queue, relative to the mean work, where both are random."""
    return utilisation / (1 - utilisation)


PREDICTIONS = (
    PredictionQuestion(
        "11.stall_p99",
        "Calls are due 50 times a second, and none waits for another: 99 % of them take at most "
        "how many seconds?",
        unit="s",
        measured=lambda run: run.latency_s(0.99),
        model=lambda run: stall_p99(),
        main=True,
    ),
    PredictionQuestion(
        "11.slowest",
        "A page needs 100 servers: what share of the pages takes longer than the p99 of one?",
        unit="of the requests",
        measured=lambda share: share,
        model=lambda share: tail_latency.slow_of_all(100, 0.01),
    ),
    PredictionQuestion(
        "11.hedged",
        "A second call after 50 ms: what share of the reads takes more than 100 ms?",
        unit="of the requests",
        measured=lambda share: share,
        model=lambda share: _from_runs(
            hedging.slow_share_at_replicas, 300, "of the requests", "both replies are late: p · q"
        ),
    ),
    PredictionQuestion(
        "11.hedged_busy",
        "Busy servers, a second call after 20 ms: what share of the reads takes more than 100 ms?",
        unit="of the requests",
        measured=lambda share: share,
        model=lambda share: _from_runs(
            busy_share,
            30,
            "of the requests",
            "700 simulated reads: U (1 + hedged share · P(second starts)) > 1",
        ),
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
    number_question(
        "11.fan_out",
        "A request needs {servers} servers. Each is slow once in {of} replies, independently. What "
        "percentage of the requests is slow?",
        "%",
        (
            lambda servers, of: 100 * (1 - (1 - 1 / of) ** servers),
            "1 - (1 - p)^n with p = 1/{of} and n = {servers}.",
        ),
        (lambda servers, of: 100 / of, "That is one server: the request waits for the slowest."),
        (
            lambda servers, of: 100 * servers / of,
            "n · p counts a request with two slow replies twice.",
        ),
        servers=(50, 40, 30),
        of=(100, 50),
    ),
    QuizQuestion(
        "11.when_to_hedge",
        "Two replicas, each busy 70 % of the time. When may a second call be sent?",
        (
            Option(
                "At once: the faster one wins.",
                why="Both copies start at once, so none is cancelled while it waits: 0.7 · 2 = 1.4,"
                " and both queues grow.",
            ),
            Option(
                "When a read takes longer than 95 % of all reads do.",
                right=True,
                why="Then 5 % of the reads are sent twice: 0.7 · 1.05 < 1.",
            ),
            Option(
                "Never: at 70 % even one copy in twenty overloads a replica.",
                why="There is room for some more calls: at most 0.7 · 1.05 = 0.74.",
            ),
        ),
    ),
)

PART_QUIZ = (
    QuizQuestion(
        "11.part_limit",
        "A server works on one call at a time, 200 calls/s at most, and the work varies much. "
        "Callers wait for 100 ms. In overload, which limit on accepted calls fits best?",
        (
            Option(
                "4, the mean number at U = 80 %.",
                why="4 is a mean. Bursts go far beyond it, so this limit refuses many calls that "
                "would be answered in time.",
            ),
            Option(
                "8 to 10, half of X · deadline.",
                right=True,
                why="With constant work the limit may be X · deadline = 20. Work that varies makes"
                " the sum of 20 calls longer than 100 ms nearly half of the time; of 10, seldom.",
            ),
            Option(
                "20, which is X · deadline.",
                why="That is the edge, and fits constant work only: here about 20 % of the accepted"
                " calls are answered too late.",
            ),
        ),
    ),
    number_question(
        "11.part_retry",
        "U is {percent} %, arrivals are random. Now a tenth of all attempts fails after the full "
        "work, and each is retried at once until it succeeds. By how many percent does the mean "
        "wait in the queue grow, for one attempt?",
        "%",
        (
            lambda percent: 100 * (_wait(percent / 90) / _wait(percent / 100) - 1),
            "Each call needs 1 / 0.9 attempts, so U rises by a ninth. The wait is as U / (1 - U).",
        ),
        (
            lambda percent: 100 / 9,
            "That is the load. The wait grows with U / (1 - U), which is steeper.",
        ),
        (
            lambda percent: 100 * (_wait(percent / 90) / _wait(percent / 100) / 0.9 - 1),
            "That is the wait of a call, in its 1.11 attempts together. One attempt was asked for.",
        ),
        percent=(60, 70, 50),
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
                why="Nearly every read is sent twice, and most copies start: more than 1. It is "
                "the loop of the retries: slow calls make more calls.",
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
