"""figures.py: the interval of the throughput, and goodput, against numbers worked out by hand."""

import math
import statistics

import pytest
from traces import Made, run_of

from kvstore.measure import ServerReport, goodput, throughput_interval
from kvstore.protocol import CANCELLED, DEADLINE_EXCEEDED, NO_ANSWER, OK, RETRIEVE, STATUSES


def test_the_interval_is_that_of_batch_means():
    """One piece of one second with 40 calls, nineteen with none."""
    burst = run_of([Made(0.0, 0.5)] * 40, window_s=20.0)
    half = 2.093 * statistics.stdev([40.0] + [0.0] * 19) / 20**0.5

    low, high = throughput_interval(burst)

    assert 2.0 + half == pytest.approx(high)
    assert 0.0 == low  # a rate is never negative


EXHAUSTED = STATUSES.index("RESOURCE_EXHAUSTED")


def made(due_s, done_s, status=OK, sent_s=None):
    return Made(due_s if sent_s is None else sent_s, done_s, RETRIEVE, status, due_s)


OPEN_LOOP = run_of(
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
    server=ServerReport.of({"operations": {"retrieve/OK": 4, "retrieve/DEADLINE_EXCEEDED": 1}}),
)


def test_goodput_of_a_trace_worked_out_by_hand():
    found = goodput(OPEN_LOOP)

    assert pytest.approx(1.0) == found.offered_per_s
    assert pytest.approx(2 / 7) == found.in_time_per_s
    assert (2, 3, 2) == (found.late, found.refused, found.wasted)


def test_wasted_work_is_unknown_if_the_server_reports_no_operations():
    silent = run_of(
        [made(0.0, 1.0)], settings={"deadline_s": 1.0}, server=ServerReport.of({"operations": None})
    )

    assert math.isnan(goodput(silent).wasted)
    assert pytest.approx(1 / silent.window_s) == goodput(silent).offered_per_s


def test_a_closed_loop_has_no_goodput():
    with pytest.raises(ValueError, match="goodput needs an open loop, got a closed loop"):
        goodput(run_of([Made(0.0, 1.0)], settings={"deadline_s": 1.0}))
