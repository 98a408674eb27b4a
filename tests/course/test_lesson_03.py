"""Lesson 03: the residence time of few calls."""

import pytest
from made_runs import run_of

from kvstore.course.lessons.lesson_03 import questions


@pytest.mark.parametrize(("calls", "seconds"), [(9, 0.75), (4, 0.4), (1, 0.1)])
def test_the_settled_residence_time_of_few_calls_is_that_of_the_last(calls, seconds):
    """On a busy machine, a run in fast mode may make no more than its first N calls."""
    run = run_of([(0.0, 0.1 * each, "create") for each in range(1, calls + 1)], in_flight=5)

    assert questions.settled_residence_s(run) == pytest.approx(seconds)
