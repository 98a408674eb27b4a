"""What lesson 13 asks."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kvstore.client.connections import Choose
from kvstore.course.experiments.several_servers import Spread
from kvstore.course.questions import Curve, Option, PredictionQuestion, QuizQuestion
from kvstore.measure import Run, during
from kvstore.measure.audit import in_flight_between
from kvstore.model import Prediction
from kvstore.numbers import seconds

SERVICE_S: Final = (0.020, 0.020, 0.060)
"""How long each server of rounds 1 and 2 holds its lock for a call, S."""
STALL_S: Final = 1.0
STALL_EVERY_S: Final = 3.0
"""The disk of one of three equal servers stalls so long, so often."""
STALL_RATE_PER_S: Final = 75.0
"""So many calls arrive at the three in round 3."""
LATE_S: Final = 0.2
"""A call that takes longer is late."""
RATE_PER_S: Final = 280.0
"""So many calls arrive at the eight equal servers of round 4."""
AGES_S: Final = (0.0, 0.05, 0.1, 0.2, 0.4)
"""The times from one report to the next, T."""


def in_equal_shares(service_s: Sequence[float] = SERVICE_S) -> Prediction:
    """Return the bound on X in calls/s where each server gets the same share of the calls."""
    share, slowest_s = 1 / len(service_s), max(service_s)
    reason = f"w = 1/{len(service_s)} of the calls at {seconds(slowest_s)} each: 1 / (w S)"
    return Prediction(1 / (share * slowest_s), "calls/s", reason, "the slowest server")


def all_busy(service_s: Sequence[float] = SERVICE_S) -> Prediction:
    """Return X in calls/s where no server is ever without a call."""
    rates = " + ".join(f"{1 / each_s:.3g}" for each_s in service_s)
    total = sum(1 / each_s for each_s in service_s)
    return Prediction(total, "calls/s", f"each server works all the time: {rates}")


def late_in_turn() -> Prediction:
    """Return the percentage of late calls where the stalling server gets its turn all the same.

    In a stall of s seconds, a r s calls queue there. Then r leave and a arrive per second. A call
    waits `LATE_S` or less again when the queue is down to r times that.
    """
    arrive_per_s, leave_per_s = STALL_RATE_PER_S / 3, 1 / SERVICE_S[0]
    queue = arrive_per_s * STALL_S - leave_per_s * LATE_S
    late_s = STALL_S + queue / (leave_per_s - arrive_per_s)
    reason = f"calls of one server in {late_s:.1f} s of every {STALL_EVERY_S:.0f} s"
    return Prediction(100 / 3 * late_s / STALL_EVERY_S, "%", reason)


def herd_s(age_s: float, share: float = 1.0) -> float:
    """Return how long the last call of a herd takes: T(w λ S - 1) + S, in seconds.

    Between two reports, one server gets the share w of all calls. Without a report in between there
    is no herd, and a call takes S at least.
    """
    service_s = SERVICE_S[0]
    return age_s * max(0.0, share * RATE_PER_S * service_s - 1) + service_s


def settled(run: Run) -> float:
    """Return the calls/s of a run without its first quarter and its end."""
    for_s = float(run.settings["duration_s"])
    return during(run, for_s / 4, for_s).answered_per_s


def late_share(run: Run) -> float:
    """Return the percentage of calls that took longer than `LATE_S` from the time they were due."""
    took_s = run.records["done_s"] - run.records["due_s"]
    return float(100 * (took_s > LATE_S).mean())


def open_at(run: Run, servers: int) -> list[float]:
    """Return the mean number of calls open at each server in the second half of the sending."""
    ends_s = float(run.settings["duration_s"])
    means = []
    for number in range(servers):
        calls = run.records[run.records["connection"] == number]
        half = np.array([ends_s / 2, ends_s])
        (mean,) = in_flight_between(calls["sent_s"], calls["done_s"], half)
        means.append(float(mean))
    return means


class old_counts:
    """`choose`, with counts that are renewed only every `every_s` seconds."""

    def __init__(self, choose: Choose, every_s: float) -> None:
        self.__name__ = getattr(choose, "__name__", "choose")
        self._choose, self._every_s = choose, every_s
        self._reported_s, self._report = -every_s, [0]

    def __call__(self, open_calls: list[int]) -> int:
        """Return what the function chooses by the last report."""
        now_s = time.perf_counter()
        if now_s - self._reported_s >= self._every_s:
            self._reported_s, self._report = now_s, open_calls
        return self._choose(list(self._report))


def p99_by_age(runs: Mapping[float, Run]) -> dict[float, float]:
    """Return the 99th percentile of the calls from their due times, in seconds, by T in ms."""
    return {1e3 * age_s: run.latency_s(0.99) for age_s, run in runs.items()}


def answered_per_s(spread: Spread) -> float:
    """Return the calls/s of all servers together."""
    return spread.answered_per_s


PREDICTIONS = (
    PredictionQuestion(
        "13.round_robin",
        "Servers of 20, 20 and 60 ms in turn, 30 calls in flight: how many calls/s?",
        measured=answered_per_s,
        model=lambda spread: in_equal_shares(),
        main=True,
    ),
    PredictionQuestion(
        "13.least_open",
        "The same servers, each call to one with the fewest open calls: how many calls/s?",
        measured=settled,
        model=lambda run: all_busy(),
        main=True,
    ),
    PredictionQuestion(
        "13.stall",
        "Three equal servers in turn, one stalls for 1 s of every 3 s: how many percent of the "
        "calls take longer than 0.2 s?",
        unit="%",
        measured=late_share,
        model=lambda run: late_in_turn(),
    ),
    Curve(
        "13.old_counts",
        "Eight servers, the fewest open calls by reports that come every T: what is p99?",
        unit="s",
        over="time between two reports, T (ms)",
        xs=tuple(1e3 * age_s for age_s in AGES_S),
        most=2.5,
        measured=p99_by_age,
        model=lambda runs: {1e3 * age_s: herd_s(age_s) for age_s in runs},
    ),
)

QUIZ = (
    QuizQuestion(
        "13.shares",
        "Four servers take turns. S is 10 ms at three of them, and 40 ms at the fourth. Many calls "
        "are in flight. How many calls/s at most?",
        (
            Option("325", why="3 · 100 + 25 needs a choice that keeps all four busy."),
            Option(
                "100",
                right=True,
                why="A quarter of the calls at 40 ms: 1 / (0.25 · 0.040 s), as much as one of the "
                "fast servers alone.",
            ),
            Option(
                "25", why="That is the slow server's own part. The others answer three times it."
            ),
        ),
    ),
    QuizQuestion(
        "13.fails_fast",
        "One of ten servers has lost its database. It answers every call at once, with an error. "
        "The client chooses the fewest open calls. What happens?",
        (
            Option(
                "The server gets fewer calls than the others.",
                why="Its calls end at once, so its count is the lowest nearly always.",
            ),
            Option(
                "The server gets most of the calls.",
                right=True,
                why="The count cannot tell fast from broken. A client needs the errors as well: "
                "gRPC and Envoy call it outlier detection.",
            ),
            Option(
                "Each server gets a tenth.",
                why="That would be round robin. The broken server has the fewest open calls.",
            ),
        ),
    ),
    QuizQuestion(
        "13.many_clients",
        "A thousand clients with a few calls each start at once. Each sees only its own open "
        "calls, and takes the first of the servers with the fewest. What happens first?",
        (
            Option(
                "The calls are spread evenly.",
                why="Each client begins with zeros, and all of them break the tie in the same way.",
            ),
            Option(
                "All clients call the first server.",
                right=True,
                why="All counts are 0, and the first server wins each tie. A random tie-break "
                "spreads them, without any report.",
            ),
            Option(
                "Half of the servers are idle.",
                why="The first calls all go to one server; the second ones all go to the next.",
            ),
        ),
    ),
)
