"""Lesson 08: what its questions measure, and what their models say."""

import pytest
from made_runs import open_run

from kvstore.course.lessons.lesson_08 import questions as facts
from kvstore.course.questions import registered


def test_the_time_of_a_call_counts_from_its_due_time():
    run = open_run([(0.0, 0.0, 0.02), (0.1, 0.15, 0.18)])

    assert 50.0 == pytest.approx(facts.mean_ms(run))
    assert 50.0 == pytest.approx(registered("08.random").measured(0.02, run))


@pytest.mark.parametrize(
    ("question", "disk_times", "in_service_times"),
    [("08.random", "fixed", 3.0), ("08.long_jobs", "two_point", 11.0)],
)
def test_the_model_is_that_of_a_long_run_and_says_how_far_short_ones_scatter(
    question, disk_times, in_service_times
):
    run = open_run([(0.0, 0.0, 0.1)] * 50, disk_times=disk_times, read_delay_s=0.02)
    found = registered(question).model(0.02, run)

    assert 0.02 * in_service_times == pytest.approx(found.value)
    assert "50 calls" in found.reason


def test_only_the_disk_time_varies():
    """A constant part of the service time makes its c² smaller."""
    whole, part = facts.law(0.8, 0.02, "two_point"), facts.law_ms(0.8, 0.0209, "two_point")

    assert 220 == pytest.approx(1e3 * whole.value)
    assert 215.8 == pytest.approx(part, abs=0.05)
