"""Lesson 09 against a simulation with SimPy: a limit, a deadline, and work that varies."""

import random

import pytest
import simpy

from kvstore.course.lessons.lesson_09.questions import simulated_in_time_per_s


def simulated(limit, *, threads, mean_s, deadline_s, offered_per_s, seconds=100.0, seed=1):
    """Return goodput and the share of the accepted calls that were late."""
    draw, env = random.Random(seed), simpy.Environment()
    pool, inside, ends = simpy.Resource(env, threads), [0], []

    def call():
        due_s = env.now
        inside[0] += 1
        with pool.request() as thread:
            got = yield thread | env.timeout(deadline_s)
            if thread in got:
                yield env.timeout(draw.expovariate(1 / mean_s))
        inside[0] -= 1
        ends.append(thread in got and env.now - due_s <= deadline_s)

    def users():
        while True:
            yield env.timeout(draw.expovariate(offered_per_s))
            if inside[0] < limit:
                env.process(call())

    env.process(users())
    env.run(seconds)
    return sum(ends) / seconds, 1 - sum(ends) / len(ends)


POOL = {"threads": 8, "mean_s": 0.050, "deadline_s": 0.25, "offered_per_s": 320}


@pytest.mark.parametrize(("limit", "in_time_per_s"), [(40, 101), (20, 153), (16, 156)])
def test_half_of_the_limit_is_right_for_work_that_varies(limit, in_time_per_s):
    found, _ = simulated(limit, **POOL)

    assert in_time_per_s == pytest.approx(found, rel=0.04)
    model = simulated_in_time_per_s(320, 8, 0.050, 0.25, limit)
    assert model == pytest.approx(found, rel=0.06)


def test_a_fifth_of_the_calls_in_one_long_queue_is_late():
    """One worker, X = 200/s, a deadline of 100 ms: limit 20 is X · deadline."""
    one = {"threads": 1, "mean_s": 0.005, "deadline_s": 0.1, "offered_per_s": 400}

    _, late = simulated(20, **one)
    in_time, _ = simulated(8, **one)
    assert late == pytest.approx(0.2, abs=0.1)
    assert in_time == pytest.approx(199.6, rel=0.03)
