"""audit.py: Little's law holds on every true trace, and is red on every false one."""

import dataclasses
import sys

import numpy as np
import pytest
from traces import Made, random_trace, run_of, without

from kvstore.codes import NO_ANSWER
from kvstore.measure import audit
from kvstore.measure.audit import TOLERANCE, in_flight_steps, mean_in_flight

BY_HAND = (Made(0.0, 2.0), Made(1.0, 3.0), Made(1.0, 4.0))
"""In flight: 1 for a second, 3 for one, 2 for one, 1 for one: 7 call-seconds in 4 s."""


def test_the_figures_of_a_trace_worked_out_by_hand():
    checked = audit(run_of(BY_HAND))

    assert 7 / 4 == pytest.approx(checked.in_flight_mean, rel=1e-12)
    assert 3 / 4 == checked.sent_per_s
    assert 7 / 3 == pytest.approx(checked.residence_mean_s, rel=1e-12)
    assert (3, 3, 0) == (checked.issued, checked.recorded, checked.unknown)
    assert checked.holds


@pytest.mark.parametrize("seed", range(20))
def test_the_identity_holds_on_any_trace(seed):
    checked = audit(random_trace(seed))

    assert checked.relative_error <= TOLERANCE
    assert checked.holds


def test_the_number_in_flight_over_time_is_walked_not_summed():
    """Were L the sum of the residence times, the law would be compared with itself."""
    calls = run_of(BY_HAND).records
    at_s, level = in_flight_steps(calls["sent_s"], calls["done_s"])

    assert [0.0, 1.0, 1.0, 2.0, 3.0, 4.0] == at_s.tolist()
    assert [1, 2, 3, 2, 1, 0] == level.tolist()


def test_both_sides_of_the_law_are_computed_apart(monkeypatch):
    """Were L the sum of the residence times, a walk that goes wrong would not be noticed."""
    module = sys.modules["kvstore.measure.audit"]  # `kvstore.measure.audit` names the function
    monkeypatch.setattr(
        module, "in_flight_steps", lambda *calls: tuple(column[1:] for column in walk(*calls))
    )
    walk = in_flight_steps

    assert not audit(random_trace(1)).holds


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_in_flight_is_what_a_patient_observer_would_count(seed):
    """Someone who looks a hundred thousand times gets nearly the same mean."""
    run = random_trace(seed)
    sent_s, done_s = run.records["sent_s"], run.records["done_s"]
    looks_s = (np.arange(100_000) + 0.5) * run.window_s / 100_000
    seen = np.searchsorted(np.sort(sent_s), looks_s) - np.searchsorted(np.sort(done_s), looks_s)

    assert seen.mean() == pytest.approx(mean_in_flight(sent_s, done_s, run.window_s), rel=1e-3)


def test_a_call_that_takes_no_time_is_never_in_flight_less_than_zero_times():
    level = in_flight_steps(np.array([1.0, 1.0]), np.array([1.0, 1.0]))[1]

    assert [1, 2, 1, 0] == level.tolist()


@pytest.mark.parametrize("place", [0, 7, -1])
def test_a_lost_call_is_found(place):
    checked = audit(without(random_trace(1), place))

    assert not checked.holds
    assert 1 == checked.issued - checked.recorded


def test_a_call_counted_twice_is_found():
    run = random_trace(1)
    twice = dataclasses.replace(run, records=np.concatenate([run.records, run.records[:1]]))

    assert not audit(twice).holds


def test_a_call_sent_and_never_recorded_is_found():
    assert not audit(run_of(BY_HAND, issued=4)).holds


def test_a_call_that_ended_before_it_was_sent_is_found():
    """Two clocks: both sides of the law may agree, and the trace is still wrong."""
    checked = audit(run_of([*BY_HAND, Made(3.0, 2.5)]))

    assert not checked.never_negative
    assert not checked.holds


def test_a_window_that_ends_before_the_last_call_is_no_excuse():
    """The law is checked over whole calls: cutting one off at the window is a false trace."""
    run = random_trace(1)
    clipped = run.records.copy()
    clipped["done_s"] = np.minimum(clipped["done_s"], run.window_s / 2)

    assert not audit(dataclasses.replace(run, records=clipped)).holds


def test_one_residence_that_is_not_a_number_does_not_pass():
    records = run_of(BY_HAND).records.copy()
    records["done_s"][0] = np.nan

    assert not audit(run_of(BY_HAND, records=records)).holds


def test_an_error_far_above_the_tolerance_does_not_hold():
    true = audit(run_of(BY_HAND))

    assert not dataclasses.replace(true, in_flight_mean=true.in_flight_mean * (1 + 1e-8)).holds


def test_calls_without_an_answer_are_counted_as_unknown():
    checked = audit(run_of([*BY_HAND, Made(2.0, 4.0, status=NO_ANSWER)]))

    assert 1 == checked.unknown
    assert checked.holds


@pytest.mark.parametrize("window_s", [0.0, 1.0])
def test_a_run_of_no_calls_holds(window_s):
    checked = audit(run_of([], window_s=window_s))

    assert checked.holds
    assert (0.0, 0.0) == (checked.in_flight_mean, checked.relative_error)


def test_no_calls_recorded_of_some_sent_does_not_hold():
    assert not audit(run_of([], issued=1)).holds


def test_the_audit_reads_as_a_sentence():
    assert (
        "L = 1.7500 in flight; lambda x W = 0.75/s x 2,333.333 ms = 1.7500 (apart by 0e+00);"
        " 3 calls sent, 3 ended, 0 of them unknown: holds"
    ) == repr(audit(run_of(BY_HAND)))


def test_an_audit_that_fails_says_so_loudly():
    assert repr(audit(without(run_of(BY_HAND), 0))).endswith("DOES NOT HOLD: do not trust this run")
