"""Lesson 03: the overhead budget, and the residence time of few calls."""

import dataclasses

import pandas as pd
import pytest
from made_runs import run_of

from kvstore.course.lessons.lesson_03 import questions


def test_the_overhead_budget_adds_up_to_the_time_of_a_call():
    run = run_of([(n * 0.010, n * 0.010 + 0.020, "retrieve") for n in range(20)], in_flight=2)
    run = dataclasses.replace(
        run, server={"settings": {"read_delay_s": 0.010, "write_delay_s": 0.050}}
    )
    inside = pd.Series(
        {"whole residence (ms)": 20.0, "disk (ms)": 12.0, "client and wire (ms)": 5.0}
    )
    table = questions.missing_ms(run, inside)

    assert table["ms"].drop("N/X").sum() == pytest.approx(table.loc["N/X", "ms"], rel=0.01)
    assert table.loc["timers late", "ms"] == pytest.approx(2.0)


@pytest.mark.parametrize(("calls", "seconds"), [(9, 0.75), (4, 0.4), (1, 0.1)])
def test_the_settled_residence_time_of_few_calls_is_that_of_the_last(calls, seconds):
    """On a busy machine, a run in fast mode may make no more than its first N calls."""
    run = run_of([(0.0, 0.1 * each, "create") for each in range(1, calls + 1)], in_flight=5)

    assert questions.settled_residence_s(run) == pytest.approx(seconds)
