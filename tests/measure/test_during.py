"""during.py: a part of a run, on a trace that was worked out by hand."""

import math

import pytest
from traces import CALLS, random_trace, run_of

from kvstore.measure import audit, during


def test_a_part_counts_the_answers_in_it_and_who_was_there():
    """From 2 s to 5 s two calls end, after 2 s and 3 s; in flight are 4, 3, and at last 2."""
    part = during(run_of(CALLS), 2.0, 5.0)

    assert math.isclose(2 / 3, part.answered_per_s)
    assert math.isclose(2.5, part.residence_mean_s)
    assert math.isclose((4 * 0.5 + 3 * 1.5 + 2 * 1.0) / 3, part.in_flight_mean)


def test_the_whole_run_is_what_the_audit_says():
    run = random_trace(3)
    whole = during(run, 0.0, run.window_s)

    assert math.isclose(audit(run).in_flight_mean, whole.in_flight_mean)


def test_a_part_without_calls_is_empty():
    for run in (run_of([]), run_of(CALLS)):
        part = during(run, 20.0, 30.0)
        assert (0.0, 0.0) == (part.answered_per_s, part.in_flight_mean)
        assert math.isnan(part.residence_mean_s)


@pytest.mark.parametrize("wrong", [(1.0, 1.0), (2.0, 1.0), (-1.0, 1.0), (math.nan, 1.0)])
def test_a_part_without_length_is_refused(wrong):
    with pytest.raises(ValueError, match="begins before it ends"):
        during(run_of(CALLS), *wrong)
