"""Lesson 16: right answers in another style, and a slow reference."""

import pytest
from made_runs import run_of

from kvstore.course.exercises.grading import drawn_inputs
from kvstore.course.lessons.lesson_16 import questions as facts
from kvstore.course.lessons.lesson_16.exercises import LEVELS, SERVICES, Service, highest_rate, knee
from kvstore.load_test import Calibration, Estimate, Found, Level


def test_the_references_agree_with_slow_and_obvious_ones():
    for service, low, high in drawn_inputs(SERVICES, 100):
        tried = [rate for rate in range(low, high) if rate <= service.limit]
        assert tried[-1] == highest_rate(Service(service.limit, low, high), low, high)
    for (levels,) in drawn_inputs(LEVELS.map(lambda levels: (levels,)), 100):
        fastest_s, most_per_s = min(r for _, _, r in levels), max(x for _, x, _ in levels)
        below, above = 0.0, 1e9  # the number of callers that just reach the ceiling
        for _ in range(100):
            middle = (below + above) / 2
            below, above = (middle, above) if middle / fastest_s < most_per_s else (below, middle)
        assert knee(levels) == pytest.approx(below)


def run(in_flight, per_s):
    calls = [(n / per_s, n / per_s + in_flight / per_s, "create") for n in range(100)]
    return run_of(calls, in_flight=in_flight, window_s=100 / per_s)


SEEN = Calibration(
    levels=[
        Level(in_flight=n, throughput=Estimate(x, x, x), residence=Estimate(r, r, r))
        for n, x, r in ((1, 48, 0.021), (16, 295, 0.054))
    ],
    machine_cores=2,
)


def test_the_questions_are_answered_by_run_and_calibration():
    few, many, rate = facts.PREDICTIONS

    assert few.measured(run(3, 143), SEEN) == pytest.approx(143)
    assert few.model(run(3, 143), SEEN).value == pytest.approx(3 / 0.021)
    assert many.model(run(24, 295), SEEN).value == pytest.approx(295)
    assert 280 == rate.measured(Found(280, 270, 290, ()), SEEN)
    assert 295 == rate.model(Found(280, 270, 290, ()), SEEN)
