"""boxes.py: Little's law for every box, by numbers worked out by hand and on broken traces."""

import dataclasses
import sys

import numpy as np
import pytest
from traces import Made, run_of

from kvstore.measure import audit, boxes
from kvstore.measure.boxes import BOXES, OUTSIDE

BY_HAND = (Made(0.0, 4.0), Made(1.0, 5.0))
"""Two calls of 4 s each in a window of 5 s: 1.6 in flight."""


def timed(pool_s=0.5, lock_s=1.0, disk_s=1.25, rest_s=0.25):
    run = run_of(BY_HAND)
    records = run.records.copy()
    for name, stay_s in locals().items():
        if name.endswith("_s"):
            records[name] = stay_s
    return dataclasses.replace(run, records=records)


def test_the_boxes_of_a_trace_worked_out_by_hand():
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


def test_the_boxes_add_up_to_the_calls_in_flight():
    run = timed()

    assert boxes(run).whole == pytest.approx(audit(run).in_flight_mean, rel=1e-9)


def test_the_table_shows_both_sides_of_each_law():
    table = boxes(timed()).table()

    assert [*BOXES, OUTSIDE] == list(table.index)
    assert [0.5, 0.4, 1250.0, 0.5] == pytest.approx(table.loc["disk"].tolist())


def test_two_clocks_that_disagree_are_found_out():
    """The server says five seconds of a call that was four seconds under way."""
    found = boxes(timed(disk_s=3.25))

    assert 2 == found.overfull
    assert not found.holds


def test_both_sides_of_the_law_are_computed_apart(monkeypatch):
    """Were L computed from the stays, a walk that goes wrong would not be noticed."""
    module = sys.modules["kvstore.measure.boxes"]  # `kvstore.measure.boxes` names the function
    monkeypatch.setattr(module, "mean_in_flight", lambda *calls: 0.7)

    assert not any(box.holds for box in boxes(timed()).by_name.values())


def test_a_run_without_station_times_is_refused():
    with pytest.raises(ValueError, match="station_times=True"):
        boxes(run_of(BY_HAND))


def test_a_run_with_one_unanswered_call_is_refused():
    run = timed()
    run.records["pool_s"][1] = np.nan

    with pytest.raises(ValueError, match="let every call be answered"):
        boxes(run)
