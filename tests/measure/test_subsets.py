"""parts.py: calls of one kind, of a part of a run, and turn by turn, worked out by hand."""

import math

import pytest
from traces import CALLS, run_of

from kvstore.measure import audit, during, only


def test_the_calls_of_one_kind_are_left():
    run = run_of(CALLS)
    creates = only(run, "create")

    assert ["create", "create"] == creates.calls["operation"].tolist()
    assert (1.0 + 8.0) / 2 == creates.mean_residence_s
    assert run.window_s == creates.window_s
    assert 5 == len(run.records)
    assert audit(creates).holds
    with pytest.raises(ValueError, match="got 'batch'"):
        only(run, "batch")


def test_a_part_counts_the_answers_in_it_and_who_was_there():
    """From 2 s to 5 s two calls end, after 2 s and 3 s; in flight are 4, 3, and at last 2."""
    part = during(run_of(CALLS), 2.0, 5.0)

    assert math.isclose(2 / 3, part.answered_per_s)
    assert math.isclose(2.5, part.residence_mean_s)
    assert math.isclose((4 * 0.5 + 3 * 1.5 + 2 * 1.0) / 3, part.in_flight_mean)


def test_a_part_without_calls_is_empty():
    for run in (run_of([]), run_of(CALLS)):
        part = during(run, 20.0, 30.0)
        assert (0.0, 0.0) == (part.answered_per_s, part.in_flight_mean)
        assert math.isnan(part.residence_mean_s)


def test_a_part_without_length_is_refused(subtests):
    for wrong in [(1.0, 1.0), (2.0, 1.0), (-1.0, 1.0), (math.nan, 1.0)]:
        with (
            subtests.test(wrong=wrong),
            pytest.raises(ValueError, match="from_s must be 0 or more and until_s above it"),
        ):
            during(run_of(CALLS), *wrong)
