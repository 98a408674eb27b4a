"""views/overload.py: numbers by hand."""

import math

import pytest
from made_runs import paced, run_of, staircase

from kvstore.client.overload import Attempts
from kvstore.course import views
from kvstore.model import Prediction


def test_each_rate_stands_beside_what_was_predicted_and_simulated():
    table = views.goodput_by_offered_table(
        {"a": [paced(60, per_s=20.0)], "b": [paced(30, per_s=10.0)]},
        {"a": lambda per_s: Prediction(per_s / 2, "calls/s", "")},
        {"b": [9.0]},
    )

    assert [20.0, 10.0] == list(table["offered (calls/s)"])
    assert [10.0] == list(table["predicted (calls/s)"].dropna())
    assert [9.0] == list(table["simulated (calls/s)"].dropna())
    assert [pytest.approx(40 / 3, rel=1e-3), pytest.approx(20 / 3, rel=1e-3)] == list(
        table["in time (calls/s)"]
    )
    assert [20, 10] == list(table["too late (calls)"])
    assert [0, 0] == list(table["refused (calls)"])
    assert [20, 10] == list(table["served after their deadline (calls)"])


def test_another_deadline_changes_who_was_in_time():
    table = views.goodput_by_offered_table({"a": [paced(60)]}, deadline_s=1.0)

    assert [20.0] == list(table["in time (calls/s)"])


def test_attempts_add_up_to_the_calls():
    storm = run_of([(0.001 * n, 1.0, "retrieve") for n in range(100)])
    calm = run_of([(0.5, 2.0, "retrieve")])
    table = views.overload.attempts_over_time_table({"storm": storm, "calm": calm})

    assert 40 == len(table)
    assert [100, 1] == [pytest.approx(total * 2.0 / 40) for total in table.sum()]


def test_a_crowd_is_counted_by_how_its_operations_ended():
    run = run_of([(0.0, 0.5, "retrieve")] * 5)
    tried = [
        Attempts(1, "OK", 0.1),
        Attempts(3, "OK", 0.4),
        Attempts(1, "RESOURCE_EXHAUSTED", 0.1),
    ]
    table = views.crowd_table({"a": run, "b": run}, {"a": tried, "b": tried[:2]})

    assert {
        "attempts (calls)": 5,
        "attempts per operation": 1.667,
        "last operation ended (s)": 0.5,
        "ended OK (operations)": 2,
        "ended RESOURCE_EXHAUSTED (operations)": 1,
    } == dict(table.loc["a"])
    assert 0 == table.loc["b", "ended RESOURCE_EXHAUSTED (operations)"]


def test_a_call_that_is_sent_late_hides_it_from_those_who_count_from_sending():
    table = views.latency_from_table({"paced": paced(90)})

    assert ["sending", "due"] == list(table["from"])
    assert [20.0, 20.0] == list(table["50 % (ms)"])
    assert [20.0, 110.0] == list(table["90 % (ms)"])


def test_a_latency_is_predicted_by_the_share_it_covers():
    table = views.latency_from_table(paced(90), lambda share: Prediction(share, "s", ""))

    assert 900.0 == table.loc["predicted", "90 % (ms)"]


def test_a_closed_loop_is_told_from_sending_only():
    assert ["sending"] == list(views.latency_from_table(staircase())["from"])
    assert 0 == len(views.latency_from_table(run_of([])))


def test_a_limit_stands_beside_its_prediction():
    table = views.overload.limit_over_time_table([(0.0, 1), (0.5, 2)], 8)

    assert {0.0: 1, 0.5: 2} == dict(table["limit (calls)"])
    assert [8, 8] == list(table["predicted N* (calls)"])
    assert not any(
        math.isnan(limit) for limit in views.overload.limit_over_time_table([(0.0, 1)]).iloc[0]
    )
