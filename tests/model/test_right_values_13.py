"""Lesson 13 against queues of calls, one by one, and many runs at once as arrays of queues."""

import random

import numpy as np
import pytest

from kvstore.course.exercises import find

SERVICE_S, RATE_PER_S, SERVERS, RUNS, CALLS = 0.020, 280, 8, 400, 5_000
WARM_UP = 500


def test_the_learners_simulator_agrees_with_queues_of_calls():
    """The same arrivals and the same choices: each response time and each report."""
    simulate = find("13.simulate").reference
    rng = random.Random(1)
    arrivals_s, at_s = [], 0.0
    for _ in range(3_000):
        at_s += rng.expovariate(RATE_PER_S)
        arrivals_s.append(at_s)
    order = [rng.randrange(SERVERS) for _ in arrivals_s]
    reports, turn = [], iter(order)

    def choose(report):
        reports.append(list(report))
        return next(turn)

    times_s = simulate(arrivals_s, SERVICE_S, SERVERS, choose, 0.1)
    ends, report, reported_s = [[] for _ in range(SERVERS)], [], -1.0
    for number, (at_s, server) in enumerate(zip(arrivals_s, order, strict=True)):
        if at_s - reported_s >= 0.1:
            report, reported_s = [sum(end_s > at_s for end_s in each) for each in ends], at_s
        ends[server].append(max([at_s, *ends[server][-1:]]) + SERVICE_S)
        assert reports[number] == report
        assert times_s[number] == pytest.approx(ends[server][-1] - at_s)


def drawn(rng, open_calls, choices):
    """The server with the fewest calls of so many drawn ones, for each run."""
    places = np.argsort(rng.random(open_calls.shape), axis=1)[:, :choices]
    counts = np.take_along_axis(open_calls, places, axis=1)
    return np.take_along_axis(places, counts.argmin(axis=1)[:, None], axis=1)[:, 0]


def response_times_s(choices, every_s):
    """Response times of `RUNS` runs, where a server is the best of `choices` by stale counts."""
    rng, each = np.random.default_rng(1), np.arange(RUNS)
    free_s, at_s = np.zeros((RUNS, SERVERS)), np.zeros(RUNS)
    report, next_s, times_s = np.zeros((RUNS, SERVERS)), np.zeros(RUNS), []
    for _ in range(CALLS):
        at_s = at_s + rng.exponential(1 / RATE_PER_S, RUNS)
        due = at_s >= next_s
        waiting = np.ceil(np.maximum(0, free_s - at_s[:, None]) / SERVICE_S)
        report = np.where(due[:, None], waiting, report)
        next_s = np.where(due, at_s + every_s, next_s)
        server = drawn(rng, report, choices)
        end_s = np.maximum(free_s[each, server], at_s) + SERVICE_S
        free_s[each, server] = end_s
        times_s.append(end_s - at_s)
    return np.array(times_s[WARM_UP:])


@pytest.mark.long
@pytest.mark.parametrize(
    ("choices", "every_ms", "mean_ms", "p99_ms"),
    [
        (1, 0, 43.4, 150),
        (2, 50, 36.35, 103),
        (2, 100, 43.0, 134),
        (2, 200, 53.8, 184),
        (2, 400, 71.25, 264),
    ],
)
def test_mean_and_p99_of_a_coin_and_of_two_choices(choices, every_ms, mean_ms, p99_ms):
    times_s = response_times_s(choices, every_ms / 1000)

    assert mean_ms == pytest.approx(1000 * times_s.mean(), rel=0.01)
    assert p99_ms == pytest.approx(1000 * np.quantile(times_s, 0.99), rel=0.03)
