"""summary.py: the figures people compare, against numbers worked out by hand."""

import math
import random
import statistics

import numpy as np
import pytest
from traces import Made, run_of

from kvstore.measure import Cpu, goodput, summary, throughput_interval
from kvstore.protocol import CANCELLED, DEADLINE_EXCEEDED, NO_ANSWER, OK, RETRIEVE, STATUSES


def test_the_interval_is_that_of_batch_means():
    """One piece of one second with 40 calls, nineteen with none."""
    burst = run_of([Made(0.0, 0.5)] * 40, window_s=20.0)
    half = 2.093 * statistics.stdev([40.0] + [0.0] * 19) / 20**0.5

    low, high = throughput_interval(burst)

    assert 2.0 + half == pytest.approx(high)
    assert 0.0 == low  # a rate is never negative


def test_an_interval_covers_the_true_rate_about_as_often_as_it_says():
    """Of 100 runs of random calls at 50/s about 95 should; a wide margin is left."""
    covered = 0
    for seed in range(100):
        rng = random.Random(seed)
        at_s, calls = 0.0, []
        while (at_s := at_s + rng.expovariate(50.0)) < 10.0:
            calls.append(Made(at_s, at_s))
        low, high = throughput_interval(run_of(calls, window_s=10.0))
        covered += low <= 50.0 <= high

    assert 85 <= covered


def test_without_an_answer_the_interval_is_nothing(subtests):
    for window_s in [0.0, 1.0]:
        with subtests.test(window_s=window_s):
            assert (0.0, 0.0) == throughput_interval(run_of([], window_s=window_s))


def test_the_summary_shows_what_time_would_show_and_more(run):
    column = summary(run)["bounded x2"]

    assert "0.3" == column["operations/s"]
    assert "10 s" == column["real"]
    assert "1.5 s + 250 ms" == column["client user + sys"]
    assert "not known" == column["server user + sys"]
    assert "3.6 s" == column["mean residence"]
    assert "2 s" == column["p50"]
    assert "5" == column["calls sent"]
    assert ("3", "1", "1") == (
        column["ended OK"], column["ended NOT_FOUND"], column["ended NO_ANSWER"]
    )  # fmt: skip
    assert "200 MB" == column["client memory, most"]


def test_runs_stand_side_by_side_and_what_one_lacks_is_empty(run):
    other = run_of(
        [Made(0, 1)], strategy="futures", in_flight=0, outcome="interrupted", client_cpu=Cpu(1, 1)
    )
    table = summary(run, other)

    assert ["bounded x2", "futures"] == list(table.columns)
    assert "" == table.loc["ended NOT_FOUND", "futures"]
    assert ["", "interrupted"] == table.loc["ended by"].tolist()


# ---- goodput --------------------------------------------------------------------------------

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
    server={"operations": {"retrieve/OK": 4, "retrieve/DEADLINE_EXCEEDED": 1}},
)


def test_goodput_of_a_trace_worked_out_by_hand():
    found = goodput(OPEN_LOOP)

    assert pytest.approx(1.0) == found.offered_per_s
    assert pytest.approx(2 / 7) == found.in_time_per_s
    assert (2, 3, 2) == (found.late, found.refused, found.wasted)


def test_only_calls_that_are_due_later_count():
    """From 2 s on: the calls of the last 5 of 7 seconds."""
    found = goodput(OPEN_LOOP, from_s=2.0)
    whole = goodput(OPEN_LOOP)
    due_later = np.count_nonzero(OPEN_LOOP.records["due_s"] >= 2.0)

    assert found.offered_per_s == pytest.approx(due_later / 5)
    assert round(5 * found.in_time_per_s) + found.late + found.refused == due_later
    assert due_later < OPEN_LOOP.issued
    assert found.wasted == whole.wasted


def test_wasted_work_is_unknown_if_the_server_reports_no_operations():
    silent = run_of([made(0.0, 1.0)], settings={"deadline_s": 1.0}, server={"operations": None})

    assert math.isnan(goodput(silent).wasted)
    assert pytest.approx(1 / silent.window_s) == goodput(silent).offered_per_s


def test_a_closed_loop_has_no_goodput():
    with pytest.raises(ValueError, match="goodput needs an open loop, got a closed loop"):
        goodput(run_of([Made(0.0, 1.0)], settings={"deadline_s": 1.0}))
