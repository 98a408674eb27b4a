"""What lesson 12 asks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvstore.course import calibration
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion, number_question
from kvstore.measure import Run, during
from kvstore.model import Prediction, scaling

SERVICE_S: Final = 0.020
"""The time for which a call holds the lock of its server, S."""
SERVERS: Final = 4
HOTTEST: Final = 0.4
"""Share of the calls that go to the hot key of round 2, q."""
ARRIVING_PER_S: Final = 159.0
"""Calls that arrive in the open loop, λ."""
NINETY: Final = 1.645
"""90 % of a normal distribution lie within so many standard deviations."""


def closed_loop(servers: int, hottest: float, in_flight: int) -> Prediction:
    """Return min(N/S, 1/(w·S)) in calls/s, with w = q + (1 - q)/s."""
    share = scaling.busiest_share(servers, hottest)
    callers, busiest = in_flight / SERVICE_S, 1 / (share * SERVICE_S)
    if callers < busiest:
        return Prediction(callers, "calls/s", "N/S: too few callers", "callers")
    return Prediction(busiest, "calls/s", "1/(w·S): the server of the hot key", "busiest server")


def hot_key(run: Run) -> Prediction:
    """Return that rate for round 2, with the spread of so many drawn keys in half of the run."""
    model = closed_loop(SERVERS, HOTTEST, run.in_flight)
    share = scaling.busiest_share(SERVERS, HOTTEST)
    half = NINETY * math.sqrt((1 - share) / share / max(1, run.issued / 2))
    low, high = calibration.interval(model.value, run, cpu=False, unit=model.unit)
    return replace(model, interval=(low / (1 + half), high * (1 + half)))


def answered_share(servers: int, hottest: float, arriving_per_s: float) -> float:
    """Return the share of the calls that an open loop gets answered: 1 - w + 1/(λ·S), at most 1.

    Only the server of the hot key is full; it refuses what it cannot answer in time.
    """
    share = scaling.busiest_share(servers, hottest)
    return min(1.0, 1 - share + 1 / (arriving_per_s * SERVICE_S))


def answered_percent(calls: int) -> Prediction:
    """Return that share for the open loop of round 2, with the spread of so many drawn keys."""
    value = 100 * answered_share(SERVERS, HOTTEST, ARRIVING_PER_S)
    share = scaling.busiest_share(SERVERS, HOTTEST)
    half = 100 * NINETY * math.sqrt(share * (1 - share) / calls)
    return Prediction(value, "%", "1 - w + 1/(λ·S)", interval=(value - half, value + half))


def settled(run: Run) -> float:
    """Return the calls/s of the second half of the sending: the queue has filled by then."""
    for_s = float(run.settings["duration_s"])
    return during(run, for_s / 2, for_s).answered_per_s


def moved_share(before: Sequence[int], after: Sequence[int]) -> float:
    """Return the share of keys that are on another server afterwards."""
    return sum(a != b for a, b in zip(before, after, strict=True)) / len(before)


PREDICTIONS = (
    PredictionQuestion(
        "12.one_channel",
        "One channel to 4 servers of 50 calls/s each, and 40 calls in flight: how many calls/s?",
        measured=lambda per_s: per_s,
        model=lambda per_s: Prediction(
            1 / SERVICE_S, "calls/s", "one connection, so one server: 1/S", "server"
        ),
        main=True,
    ),
    PredictionQuestion(
        "12.hot_key",
        "4 servers with a shard each. One key gets 40 % of the calls: how many calls/s?",
        measured=settled,
        model=hot_key,
        main=True,
    ),
    PredictionQuestion(
        "12.open",
        "159 calls/s arrive, of users who do not wait for each other: how many percent are"
        " answered?",
        unit="%",
        measured=lambda run: 100 * run.operations_ok / run.issued,
        model=lambda run: answered_percent(run.issued),
        main=True,
    ),
    PredictionQuestion(
        "12.moved",
        "A fifth server joins four, and a key's server is hash % servers: what share of the keys"
        " gets another server?",
        unit="of the keys",
        measured=moved_share,
        model=lambda before, after: Prediction(
            4 / 5, "of the keys", "a key stays if hash % 4 = hash % 5: 4 of 20 remainders"
        ),
    ),
)

QUIZ = (
    QuizQuestion(
        "12.restart",
        "A service has 3 servers behind a load balancer for TCP connections. A gRPC client has one "
        "channel. You add 3 servers. What does the client gain?",
        (
            Option("Twice the throughput.", why="Its connection stays at the server it has."),
            Option(
                "Nothing, until it connects again.",
                right=True,
                why="A server is chosen for a connection, and the channel keeps the one it has.",
            ),
            Option(
                "A third more.",
                why="The balancer sees no calls. It sees one connection, which exists already.",
            ),
        ),
    ),
    number_question(
        "12.hottest",
        "The hottest key gets {percent} % of the calls. A load test has 1,000 callers; each waits "
        "for its reply before the next call. By what factor do {servers} servers exceed one?",
        "times",
        (
            lambda percent, servers: 1 / scaling.busiest_share(servers, percent / 100),
            "w = q + (1 - q)/s is the share of the busiest server, and the factor is 1/w.",
        ),
        (lambda percent, servers: servers, "Only if all servers get the same share."),
        (
            lambda percent, servers: servers - 1,
            "That is near the truth for users who do not wait for each other. These callers do: all"
            " of them end up in the longest queue.",
        ),
        (
            lambda percent, servers: 100 / percent,
            "1/q is the limit for very many servers: the busiest one also has a part of the other"
            " keys.",
        ),
        percent=(4, 8, 10),
        servers=(20, 30, 16),
    ),
    number_question(
        "12.users",
        "10 servers of 50 calls/s each have a hottest key with {percent} % of the calls; a hash "
        "spreads the other keys evenly. 450 calls/s arrive, from users who do not wait for each "
        "other. A full server refuses at once. What percentage of all calls is answered?",
        "%",
        (
            lambda percent: 100 * answered_share(10, percent / 100, 450),
            "1 - w + 1/(λ·S): the busiest server gets w·λ calls/s and answers 50 of them. Every "
            "other server gets fewer than 50, and answers all.",
        ),
        (
            lambda percent: 100 / (scaling.busiest_share(10, percent / 100) * SERVICE_S * 450),
            "1/(w·S) is the throughput of a closed loop. Here nobody waits for the hot key but "
            "the callers of its server.",
        ),
        (
            lambda percent: 100 * (1 - scaling.busiest_share(10, percent / 100)),
            "1 - w are the calls to the other servers. The busiest one answers 50 calls/s, too.",
        ),
        (
            lambda percent: 100,
            "All servers together can answer 500 calls/s, but the busiest one gets more than 50.",
        ),
        percent=(10, 12, 8),
    ),
)
