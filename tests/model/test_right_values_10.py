"""Lesson 10 against a simulation of another make: a storm of retries, with simpy."""

import numpy as np
import pytest
import simpy

from kvstore.course.lessons.lesson_10 import storm


def due_times():
    """35 calls/s for six seconds, and four times as many for half a second of them."""
    due_s = [0.0]
    while due_s[-1] < 6:
        due_s.append(due_s[-1] + 1 / (140 if 1.0 <= due_s[-1] < 1.5 else 35))
    return due_s


def failing_late(due_s, rng):
    """The same storm as processes that wait for a resource and lose their patience."""
    env = simpy.Environment()
    pool, answered = simpy.Resource(env, 4), set()

    def attempt(call, gives_up):
        with pool.request() as turn:
            yield turn | gives_up
            if not gives_up.processed:
                yield env.timeout(0.080)
                if not gives_up.processed:
                    answered.add(call)

    def user(call):
        yield env.timeout(due_s[call])
        for pause_s in (0.02, 0.04, 0.08, None):
            gives_up = env.timeout(0.4)
            serving = env.process(attempt(call, gives_up))
            yield serving | gives_up
            if call in answered or pause_s is None:
                return
            yield env.timeout(pause_s * rng.uniform(0.8, 1.2))

    for call in range(len(due_s)):
        env.process(user(call))
    env.run()
    late = [call for call, at_s in enumerate(due_s) if at_s >= 2 / 3 * max(due_s)]
    return 100 * np.mean([call not in answered for call in late])


@pytest.mark.slow
def test_how_many_calls_fail_long_after_the_peak():
    due_s, rng = due_times(), np.random.default_rng(1)
    model = storm.prediction(due_s)
    others = [failing_late(due_s, rng) for _ in range(20)]

    assert model.value == pytest.approx(np.mean(others), rel=0.03)
    assert model.interval == pytest.approx(np.percentile(others, [5, 95]), rel=0.05)
    assert model.value < 95


def test_without_a_peak_none_fails():
    due_s = np.arange(0, 6, 1 / 35).tolist()

    assert 0 == storm.failing_late(due_s, np.random.default_rng())
