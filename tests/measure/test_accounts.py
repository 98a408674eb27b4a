"""accounts.py: every operation sent is done, failed by name, or unknown."""

import dataclasses

import pytest
from traces import Made, run_of

from kvstore.codes import BATCH, NO_ANSWER, NOT_FOUND, OK, STATUSES
from kvstore.measure import Run, accounts, audit, summary
from kvstore.measure.accounts import SAY_NOTHING

BATCHES = (
    Made(0.0, 1.0, BATCH, OK, operations=8, ok_operations=8),
    Made(0.0, 1.0, BATCH, NOT_FOUND, operations=8, ok_operations=5),
    Made(0.5, 2.0, BATCH, NO_ANSWER, operations=8, ok_operations=0),
    Made(1.0, 2.0, status=NOT_FOUND),
)
"""25 operations: 13 done, 3 of a message and 1 alone refused, 8 of which nobody knows."""


def test_operations_are_counted_not_messages():
    told = accounts(run_of(BATCHES, operations_sent=25))

    assert (25, 13, 4, 8) == told
    assert told.balanced
    assert "25 operations sent = 13 done + 4 failed + 8 unknown" == repr(told)


@pytest.mark.parametrize("status", range(1, len(STATUSES)), ids=STATUSES[1:])
def test_a_status_either_refuses_or_says_nothing(status):
    told = accounts(run_of([Made(0.0, 1.0, status=status)]))

    assert (STATUSES[status] in SAY_NOTHING) == bool(told.unknown) != bool(told.failed)


def test_an_operation_that_was_lost_is_missed_by_the_audit_too():
    """The messages are all there; one of them carried more than its record says."""
    lost = run_of(BATCHES, operations_sent=26)

    assert "26 operations sent IS NOT 13 done" in repr(accounts(lost))
    assert not audit(lost).holds
    assert audit(dataclasses.replace(lost, operations_sent=25)).holds


def test_where_only_calls_were_counted_a_lost_one_is_still_missed():
    run = run_of(BATCHES)
    fewer = dataclasses.replace(run, records=run.records[1:])

    assert accounts(run).balanced
    assert not accounts(fewer).balanced


def test_people_are_told_of_operations_where_it_matters(tmp_path):
    run = Run.load(run_of(BATCHES, operations_sent=25).save(tmp_path / "a.run"))
    plain = run_of([Made(0.0, 1.0)])

    assert "13 / 4 / 8" == summary(run)["bounded x2"]["operations done / failed / unknown"]
    assert "25 operations sent = 13 done + 4 failed + 8 unknown: holds" in repr(audit(run))
    assert "operations" not in repr(audit(plain))


def test_a_run_without_calls_has_nothing_to_account_for():
    assert (0, 0, 0, 0) == accounts(run_of([], window_s=0.0))
