"""audit.py: the counts and Little's law hold on correct traces and fail on wrong ones."""

import dataclasses
import sys

import pytest
from traces import Made, random_trace, run_of

from kvstore.measure import accounts, audit
from kvstore.measure.audit import SAY_NOTHING, TOLERANCE, in_flight_steps
from kvstore.protocol import BATCH, NO_ANSWER, NOT_FOUND, OK, STATUSES

BY_HAND = (Made(0.0, 2.0), Made(1.0, 3.0), Made(1.0, 4.0))
"""In flight: 1 for a second, 3 for one, 2 for one, 1 for one: 7 call-seconds in 4 s."""


def test_the_figures_of_a_trace_worked_out_by_hand():
    checked = audit(run_of(BY_HAND))

    assert 7 / 4 == pytest.approx(checked.in_flight_mean, rel=1e-12)
    assert 3 / 4 == checked.sent_per_s
    assert 7 / 3 == pytest.approx(checked.residence_mean_s, rel=1e-12)
    assert (3, 3, 0) == (checked.issued, checked.recorded, checked.unknown)
    assert checked.holds


def test_both_sides_of_the_law_are_computed_separately(monkeypatch):
    """Were L the sum of the residence times, a walk that goes wrong would not be noticed."""
    module = sys.modules["kvstore.measure.audit"]  # `kvstore.measure.audit` names the function
    monkeypatch.setattr(
        module, "in_flight_steps", lambda *calls: tuple(column[1:] for column in walk(*calls))
    )
    walk = in_flight_steps

    assert not audit(random_trace(1)).holds


@pytest.mark.parametrize("kept", [slice(1, None), slice(None, -1), [0, *range(300)]])
def test_littles_law_cannot_find_lost_or_doubled_calls_but_counting_twice_can(kept):
    """Both sides of the law come from the same records, so it holds for any subset of them."""
    run = random_trace(1)
    checked = audit(dataclasses.replace(run, records=run.records[kept]))

    assert checked.relative_error <= TOLERANCE
    assert abs(checked.recorded - checked.issued) == 1
    assert not checked.holds


def test_a_call_that_ended_before_it_was_sent_is_found():
    """Two clocks: both sides of the law may agree, and the trace is still wrong."""
    checked = audit(run_of([*BY_HAND, Made(3.0, 2.5)]))

    assert not checked.never_negative
    assert not checked.holds


def test_the_audit_reads_as_a_sentence():
    assert (
        "L = 1.75 in flight; lambda x R = 0.75/s x 2.33 s = 1.75;"
        " 3 calls sent, 3 ended, 0 of them unknown: holds"
    ) == repr(audit(run_of(BY_HAND)))
    assert repr(audit(run_of(BY_HAND, issued=4))).endswith("DOES NOT HOLD: do not trust this run")
    assert "25 operations sent = 13 done + 4 failed" in repr(
        audit(run_of(BATCHES, operations_sent=25))
    )


BATCHES = (
    Made(0.0, 1.0, BATCH, OK, operations=8, ok_operations=8),
    Made(0.0, 1.0, BATCH, NOT_FOUND, operations=8, ok_operations=5),
    Made(0.5, 2.0, BATCH, NO_ANSWER, operations=8, ok_operations=0),
    Made(1.0, 2.0, status=NOT_FOUND),
)
"""25 operations: 13 done, 3 of a message and 1 alone refused, 8 unknown."""


def test_operations_are_counted_not_messages():
    found = accounts(run_of(BATCHES, operations_sent=25))

    assert (25, 13, 4, 8) == found
    assert found.balanced
    assert "25 operations sent = 13 done + 4 failed + 8 unknown" == repr(found)


def test_a_status_either_refuses_or_says_nothing(subtests):
    for status in range(1, len(STATUSES)):
        with subtests.test(status=status):
            found = accounts(run_of([Made(0.0, 1.0, status=status)]))

            assert (STATUSES[status] in SAY_NOTHING) == bool(found.unknown) != bool(found.failed)


def test_an_operation_that_was_lost_is_missed_by_the_audit_too():
    """The messages are all there; one of them carried more than its record says."""
    lost = run_of(BATCHES, operations_sent=26)

    assert "26 operations sent IS NOT 13 done" in repr(accounts(lost))
    assert not audit(lost).holds
    assert audit(dataclasses.replace(lost, operations_sent=25)).holds


@pytest.mark.parametrize("issued", [3, 5])
def test_a_call_lost_or_recorded_twice_is_found_although_the_operations_balance(issued):
    """The operations were counted and recorded alike; of the calls, four were recorded."""
    run = run_of(BATCHES, operations_sent=25, issued=issued)

    assert accounts(run).balanced
    assert not audit(run).holds
