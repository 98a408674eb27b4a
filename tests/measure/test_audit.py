"""audit.py: the counts and Little's law hold on correct traces and fail on wrong ones."""

import dataclasses
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import Made, random_trace, run_of, without

from kvstore.measure import accounts, audit, boxes
from kvstore.measure.audit import SAY_NOTHING, TOLERANCE, in_flight_steps
from kvstore.protocol import BATCH, NO_ANSWER, NOT_FOUND, OK, STATUSES

TIMES_S = st.floats(0.0, 100.0, width=32) | st.integers(0, 100).map(float)

BY_HAND = (Made(0.0, 2.0), Made(1.0, 3.0), Made(1.0, 4.0))
"""In flight: 1 for a second, 3 for one, 2 for one, 1 for one: 7 call-seconds in 4 s."""


def test_the_figures_of_a_trace_worked_out_by_hand():
    checked = audit(run_of(BY_HAND))

    assert 7 / 4 == pytest.approx(checked.in_flight_mean, rel=1e-12)
    assert 3 / 4 == checked.sent_per_s
    assert 7 / 3 == pytest.approx(checked.residence_mean_s, rel=1e-12)
    assert (3, 3, 0) == (checked.issued, checked.recorded, checked.unknown)
    assert checked.holds


@given(st.lists(st.tuples(TIMES_S, st.sampled_from([0.0, 0.1]) | TIMES_S), min_size=1))
def test_littles_law_holds_on_any_trace(calls):
    """Calls start and end at any time, overlap, touch, and sometimes take no time."""
    checked = audit(run_of([Made(sent_s, sent_s + took_s) for sent_s, took_s in calls]))

    assert checked.relative_error <= TOLERANCE
    assert checked.holds


def test_the_number_in_flight_over_time_is_walked_not_summed():
    """Were L the sum of the residence times, the law would be compared with itself."""
    calls = run_of(BY_HAND).records
    at_s, level = in_flight_steps(calls["sent_s"], calls["done_s"])

    assert [0.0, 1.0, 1.0, 2.0, 3.0, 4.0] == at_s.tolist()
    assert [1, 2, 3, 2, 1, 0] == level.tolist()


def test_both_sides_of_the_law_are_computed_separately(monkeypatch):
    """Were L the sum of the residence times, a walk that goes wrong would not be noticed."""
    module = sys.modules["kvstore.measure.audit"]  # `kvstore.measure.audit` names the function
    monkeypatch.setattr(
        module, "in_flight_steps", lambda *calls: tuple(column[1:] for column in walk(*calls))
    )
    walk = in_flight_steps

    assert not audit(random_trace(1)).holds


def test_littles_law_cannot_find_lost_or_doubled_calls_but_counting_twice_can(subtests):
    """Both sides of the law come from the same records, so it holds for any subset of them."""
    run = random_trace(1)
    kept = np.random.default_rng(1).random(len(run.records)) > 0.3
    for name, records in {
        "first lost": run.records[1:],
        "one lost": np.delete(run.records, 7),
        "last lost": run.records[:-1],
        "30 % lost": run.records[kept],
        "one twice": np.concatenate([run.records, run.records[:1]]),
        "all twice": np.concatenate([run.records, run.records]),
    }.items():
        with subtests.test(name):
            checked = audit(dataclasses.replace(run, records=records))

            assert checked.relative_error <= TOLERANCE
            assert len(records) - len(run.records) == checked.recorded - checked.issued
            assert not checked.holds


def test_a_call_that_ended_before_it_was_sent_is_found():
    """Two clocks: both sides of the law may agree, and the trace is still wrong."""
    checked = audit(run_of([*BY_HAND, Made(3.0, 2.5)]))

    assert not checked.never_negative
    assert not checked.holds


def test_a_window_that_ends_before_the_last_call_fails():
    """The law holds for whole calls; a call that is cut off at the window is a wrong trace."""
    run = random_trace(1)
    clipped = run.records.copy()
    clipped["done_s"] = np.minimum(clipped["done_s"], run.window_s / 2)

    assert not audit(dataclasses.replace(run, records=clipped)).holds


def test_a_residence_time_that_is_nan_fails():
    records = run_of(BY_HAND).records.copy()
    records["done_s"][0] = np.nan

    assert not audit(run_of(BY_HAND, records=records)).holds


def test_a_run_of_no_calls_holds(subtests):
    for window_s in [0.0, 1.0]:
        with subtests.test(window_s=window_s):
            checked = audit(run_of([], window_s=window_s))

            assert checked.holds
            assert (0, 0, 0, 0) == checked.operations


def test_the_audit_reads_as_a_sentence():
    assert (
        "L = 1.75 in flight; lambda x R = 0.75/s x 2.33 s = 1.75;"
        " 3 calls sent, 3 ended, 0 of them unknown: holds"
    ) == repr(audit(run_of(BY_HAND)))
    assert repr(audit(without(run_of(BY_HAND), 0))).endswith("DOES NOT HOLD: do not trust this run")
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


# ---- the stations of the server -------------------------------------------------------------

TWO_CALLS = (Made(0.0, 4.0), Made(1.0, 5.0))
"""Two calls of 4 s each in a window of 5 s: 1.6 in flight."""


def timed(pool_s=0.5, lock_s=1.0, disk_s=1.25, rest_s=0.25):
    run = run_of(TWO_CALLS)
    records = run.records.copy()
    for name, stay_s in locals().items():
        if name.endswith("_s"):
            records[name] = stay_s
    return dataclasses.replace(run, records=records)


def test_the_stations_of_a_trace_worked_out_by_hand():
    found = boxes(timed())

    inside = {name: box.inside_mean for name, box in found.by_name.items()}
    assert inside == pytest.approx(
        {
            "pool queue": 2 * 0.5 / 5,
            "lock": 2 * 1.0 / 5,
            "disk": 2 * 1.25 / 5,
            "rest of the server": 2 * 0.25 / 5,
            "client and wire": 2 * 1.0 / 5,
        }
    )
    assert found.holds
    assert found.whole == pytest.approx(audit(timed()).in_flight_mean, rel=1e-9)
    assert [0.5, 0.4, 1250.0, 0.5] == pytest.approx(found.table().loc["disk"].tolist())


def test_two_clocks_that_disagree_are_found_out():
    """The server reports five seconds for a call that was in flight for four seconds."""
    found = boxes(timed(disk_s=3.25))

    assert 2 == found.overfull
    assert not found.holds


def test_both_sides_of_the_law_at_a_station_are_computed_separately(monkeypatch):
    """If L were computed from the stays, an error in counting events would remain hidden."""
    module = sys.modules["kvstore.measure.audit"]  # `kvstore.measure.audit` names the function
    monkeypatch.setattr(module, "mean_in_flight", lambda *calls: 0.7)

    assert not any(box.holds for box in boxes(timed()).by_name.values())


def test_a_run_without_all_station_times_is_refused(subtests):
    one_unanswered = timed()
    one_unanswered.records["pool_s"][1] = np.nan
    for run in (run_of(TWO_CALLS), one_unanswered):
        with subtests.test(run=run), pytest.raises(ValueError, match="station_times=True, and"):
            boxes(run)
