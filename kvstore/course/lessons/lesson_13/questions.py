"""What lesson 13 asks."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion, number_question
from kvstore.measure import Run, during
from kvstore.measure.audit import in_flight_between
from kvstore.model import Prediction
from kvstore.numbers import seconds

SERVICE_S: Final = (0.020, 0.020, 0.060)
"""How long each server of rounds 1 and 2 holds its lock for a call, S."""
RATE_PER_S: Final = 280.0
"""So many calls arrive at the eight equal servers of rounds 3 and 4."""
AGE_S: Final = 0.4
"""The time from one report to the next, T, of the herd in round 3."""


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


def herd_s(age_s: float) -> float:
    """Return about how long the last call of a herd takes: T(λ S - 1) + S, in seconds.

    Between two reports, one server gets all calls, evenly spaced. No bound: random arrivals make
    some herds larger.
    """
    service_s = SERVICE_S[0]
    return age_s * (RATE_PER_S * service_s - 1) + service_s


def settled(run: Run) -> float:
    """Return the calls/s of a run without its first quarter and its end."""
    for_s = float(run.settings["duration_s"])
    return during(run, for_s / 4, for_s).answered_per_s


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


def coin_wins_ms(drawn: Mapping[float, Sequence[float]], tossed: Sequence[float]) -> float:
    """Return the T in ms from which on the coin's median p99 is the lower one; infinite for none.

    `drawn` has the p99 of simulated runs by T in ms, in rising order, and `tossed` those of the
    coin. Between two T a straight line is taken.
    """
    coin = float(np.median(tossed))
    before: tuple[float, float] | None = None
    for age_ms, values in drawn.items():
        middle = float(np.median(values))
        if middle > coin:
            if before is None:
                return age_ms
            share = (coin - before[1]) / (middle - before[1])
            return before[0] + share * (age_ms - before[0])
        before = age_ms, middle
    return math.inf


PREDICTIONS = (
    PredictionQuestion(
        "13.round_robin",
        "Servers of 20, 20 and 60 ms in turn, 30 calls in flight: how many calls/s?",
        measured=lambda run: run.answered_per_s,
        model=lambda run: in_equal_shares(),
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
        "13.herd",
        "Eight servers, your function, a report every 400 ms: what is p99?",
        unit="s",
        measured=lambda run: run.latency_s(0.99),
        model=lambda run: Prediction(herd_s(AGE_S), "s", "about T(λS - 1) + S, for T ≫ S"),
        main=True,
    ),
    PredictionQuestion(
        "13.coin",
        "Two choices by reports that come every T: from which T on has the coin the lower p99?",
        unit="ms",
        measured=coin_wins_ms,
    ),
)

QUIZ = (
    number_question(
        "13.shares",
        "Four servers take turns. S is {fast} ms at three of them, and {slow} ms at the fourth. "
        "Many calls are in flight in a closed loop. How many calls/s at most?",
        "calls/s",
        (
            lambda fast, slow: 4_000 / slow,
            "A quarter of the calls at {slow} ms: 1 / (0.25 · S).",
        ),
        (
            lambda fast, slow: 3_000 / fast + 1_000 / slow,
            "3/S + 1/S of each needs a choice that keeps all four busy.",
        ),
        (
            lambda fast, slow: 1_000 / slow,
            "That is the slow server's own part. The others answer three times it.",
        ),
        fast=(10, 5, 8),
        slow=(40, 50, 80),
    ),
    QuizQuestion(
        "13.fails_fast",
        "One of ten servers has lost its database. It answers every call at once, with an error. "
        "The client chooses the least outstanding calls. What happens?",
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
