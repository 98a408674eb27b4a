"""goodput.py: who was in time, from a trace made by hand."""

import math

import pytest
from traces import Made, run_of

from kvstore.codes import (
    CANCELLED,
    DEADLINE_EXCEEDED,
    NO_ANSWER,
    OK,
    RETRIEVE,
    STATUSES,
)
from kvstore.measure import goodput

EXHAUSTED = STATUSES.index("RESOURCE_EXHAUSTED")


def made(due_s, done_s, status=OK, sent_s=None):
    return Made(due_s if sent_s is None else sent_s, done_s, RETRIEVE, status, due_s)


RUN = run_of(
    [
        made(0.0, 0.5),
        made(1.0, 2.0),  # at its deadline
        made(2.0, 3.5, sent_s=2.9),  # in time from sending, and late from when it was due
        made(3.0, 4.0, DEADLINE_EXCEEDED),
        made(4.0, 4.1, EXHAUSTED),
        made(5.0, 5.2, CANCELLED),
        made(6.0, 6.1, NO_ANSWER),
    ],
    settings={"deadline_s": 1.0, "duration_s": 7.0},
    server={"operations": {"retrieve/OK": 4, "retrieve/DEADLINE_EXCEEDED": 1}},
)


def test_by_hand():
    found = goodput(RUN)

    assert pytest.approx(1.0) == found.offered_per_s
    assert pytest.approx(2 / 7) == found.in_time_per_s
    assert (2, 3, 2) == (found.late, found.refused, found.wasted)


def test_another_deadline_may_be_asked_for():
    assert (1, 3) == (goodput(RUN, 2.0).late, round(7 * goodput(RUN, 2.0).in_time_per_s))
    assert 1 == round(7 * goodput(RUN, 0.6).in_time_per_s)


def test_a_server_that_does_not_tell_wastes_nobody_knows_how_much():
    silent = run_of([made(0.0, 1.0)], settings={"deadline_s": 1.0}, server={"operations": None})

    assert math.isnan(goodput(silent).wasted)
    assert pytest.approx(1 / silent.window_s) == goodput(silent).offered_per_s


def test_a_closed_loop_offers_nothing():
    with pytest.raises(ValueError, match="closed loop: goodput needs due times"):
        goodput(run_of([Made(0.0, 1.0)], settings={"deadline_s": 1.0}))
