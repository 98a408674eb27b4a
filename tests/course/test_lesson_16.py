"""Lesson 16: its questions, and data for its exercise that a service can show."""

import pandas as pd
import pytest

from kvstore.course.questions import predictions_of


def test_the_questions_are_answered_by_a_run_and_a_search():
    opened, rate = predictions_of("16")
    calls = pd.DataFrame({"latency_s": [0.001 * n for n in range(1, 102)]})

    assert opened.measured(calls, []) == pytest.approx(0.100)
    of_runs = opened.model(calls, [0.001 * n for n in range(1, 100)])
    assert of_runs.value == pytest.approx(0.050)
    assert of_runs.interval == pytest.approx((0.005, 0.095))
    assert rate.measured({"rate_per_s": 280.0}, (270.0, 300.0, 320.0)) == 280
    assert rate.model({"rate_per_s": 280.0}, (270.0, 300.0, 320.0)).value == 300
