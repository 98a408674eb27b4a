"""Lesson 13 against queues of calls, walked through one by one."""

import random

import pytest

from kvstore.course.exercises import find

SERVICE_S, RATE_PER_S, SERVERS = 0.020, 280, 8


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
