"""The tables and figures in the rooms of lessons 06 to 16, by hand."""

import dataclasses
import math

import numpy as np
import pytest
from made_runs import climbed, paced, run_of, staircase

from kvstore.client.overload import Attempts
from kvstore.course import views
from kvstore.course.lessons.lesson_06 import figures as lesson_06
from kvstore.course.lessons.lesson_07 import figures as lesson_07
from kvstore.course.lessons.lesson_09 import figures as lesson_09
from kvstore.course.lessons.lesson_10 import figures as lesson_10
from kvstore.course.lessons.lesson_11 import figures as lesson_11
from kvstore.measure import Sample, boxes
from kvstore.model import Prediction, Station

pytestmark = pytest.mark.usefixtures("no_windows")


# ---- 06: two clients -----------------------------------------------------------------------------


def two_connections():
    """Two calls on each of two connections; the last call of the second was refused."""
    run = run_of(
        [
            (0.00, 0.01, "retrieve"),
            (0.00, 0.03, "retrieve"),
            (0.01, 0.02, "retrieve"),
            (0.03, 0.04, "retrieve", "UNAVAILABLE"),
        ],
        in_flight=2,
        window_s=0.1,
    )
    records = run.records.copy()
    records["connection"] = [0, 0, 1, 1]  # in the order of their answers
    return dataclasses.replace(run, records=records, connections=2, connect_s=(0.5, 0.7))


def test_the_spread_by_hand():
    assert [1.0, 9.0, 4.0, 3.0, 75.0] == pytest.approx(lesson_06.spread([1.0, 3.0, 3.0, 9.0]))
    assert all(math.isnan(cell) for cell in lesson_06.spread([]))


def test_a_run_in_the_form_of_h2loads_table():
    table = lesson_06.h2load_table(two_connections())

    assert [10.0, 30.0] == list(table.loc["request (ms)", ["min", "max"]])
    assert [500.0, 700.0, 600.0] == list(table.loc["connect (ms)", ["min", "max", "mean"]])
    # The first connection sends at 0 and hears at 0.01; the second at 0 and at 0.03.
    assert [510.0, 730.0] == list(table.loc["first byte (ms)", ["min", "max"]])
    assert [10.0, 20.0] == list(table.loc["calls/s of a connection", ["min", "max"]])


def test_two_clients_stand_side_by_side():
    mine = two_connections()
    table = lesson_06.side_by_side_table(
        {"1b": mine}, {"1b": dataclasses.replace(mine, window_s=0.05)}
    )

    assert [2, 30.0, 60.0, 0.5] == list(
        table.loc[
            "1b",
            [
                "connections, counted",
                "ours (operations/s)",
                "h2load (operations/s)",
                "ours ÷ h2load",
            ],
        ]
    )


# ---- 07: users who join --------------------------------------------------------------------------


def test_the_summary_has_the_columns_of_jmeter():
    run = run_of([(0.0, 0.010, "retrieve"), (0.0, 0.030, "retrieve", "UNAVAILABLE")], window_s=2.0)
    row = lesson_07.ramp_up_table({"label": run}).loc["label"]

    assert [2, 20, 10, 30, 10, 50, 1] == list(row.iloc[:7])
    assert math.isclose(2 * 64 / 1024 / 2, row["sent (KB/s)"], rel_tol=1e-3)
    assert 64 == row["avg. bytes"]


@pytest.mark.slow
def test_a_climb_is_followed_by_its_prediction():
    """Eight users of 20 calls a second each."""
    loop = {"run": [Station("back end", 0.05, math.inf)]}
    ax = lesson_07.throughput_in_climb({"run": climbed()}, loop)
    drawn = {line.get_label(): line.get_ydata() for line in ax.lines}

    assert 160 == max(drawn["predicted, run"])
    assert math.isclose(160, drawn["run"][-2], rel_tol=0.15)


@pytest.mark.slow
def test_a_server_in_front_shows_its_back_end_where_others_have_a_disk():
    run = staircase(20, stations=True)
    front = dataclasses.replace(run, server={"settings": {"back_end": "127.0.0.1:9"}})
    both = views.time_by_station_table({"disk": run, "front": front})
    labels = views.plot_time_by_station({"front": front}).get_legend_handles_labels()[1]

    assert both.loc["disk", "disk (ms)"] == both.loc["front", "back end (ms)"] > 0
    assert "back end" in labels
    assert "disk" not in labels
    assert "back end" in boxes(front).by_name


# ---- 08: overload --------------------------------------------------------------------------------

CALLS = [
    (0.0, 0.4, "retrieve"),
    (0.1, 0.5, "retrieve", "CANCELLED"),
    (1.0, 1.2, "retrieve"),
    (1.1, 1.6, "retrieve", "RESOURCE_EXHAUSTED"),
]
SAMPLES = [Sample(at_s, 2, 0, 0, 1e8 + 1e8 * at_s, 5e7, 1, 1) for at_s in (0.2, 0.3, 1.3)]
TWO_TURNS = run_of(CALLS, strategy="turns", in_flight=2, samples=SAMPLES)


def test_each_offered_rate_stands_beside_its_prediction():
    table = lesson_09.goodput_by_offered_table(
        {"a": [paced(60, per_s=20.0)]}, {"a": lambda per_s: Prediction(per_s / 2, "calls/s", "")}
    )

    assert (20.0, 10.0) == tuple(table.loc["a", ["offered (calls/s)", "predicted (calls/s)"]])
    assert pytest.approx(40 / 3, rel=1e-3) == table.loc["a", "in time (calls/s)"]
    assert (20, 0, 20) == tuple(table.iloc[0, -3:])


@pytest.mark.slow
def test_the_memory_of_each_turn_has_a_line_for_each_side():
    ax = lesson_09.memory_by_turn(TWO_TURNS, {"client": 150.0, "server": 60.0})
    drawn = {line.get_label(): line.get_ydata() for line in ax.lines}

    assert [130.0, 230.0] == list(drawn["client, measured"])
    assert (150.0, 60.0) == (drawn["client, predicted"][0], drawn["server, predicted"][0])


def test_collections_are_counted_for_each_side():
    run = staircase(40, in_flight=4)
    table = lesson_09.collections_table({"left": run})
    end_s = run.samples["elapsed_s"].iloc[-1]

    assert ["left, client", "left, server"] == list(table.index)
    assert pytest.approx(90 * end_s, rel=1e-3) == table["young (collections)"].iloc[0]
    assert pytest.approx(2 * end_s, rel=1e-3) == table["paused (ms)"].iloc[1]
    unknown = lesson_09.collections_table({"no samples": run_of(CALLS)})
    assert unknown["young (collections)"].isna().all()


def test_ends_are_counted_by_name():
    table = views.endings_table({"two turns": TWO_TURNS})

    assert {
        "sent (calls)": 4, "OK (calls)": 2, "CANCELLED (calls)": 1, "RESOURCE_EXHAUSTED (calls)": 1
    } == table.loc["two turns"].to_dict()  # fmt: skip


# ---- 09: retries and stalls ----------------------------------------------------------------------


def test_a_crowd_is_counted_by_how_its_operations_ended():
    run = run_of([(0.0, 0.5, "retrieve")] * 5)
    tried = [
        Attempts(1, "OK", 0.1),
        Attempts(3, "OK", 0.4),
        Attempts(1, "RESOURCE_EXHAUSTED", 0.1),
    ]
    table = lesson_10.crowd_table({"a": run, "b": run}, {"a": tried, "b": tried[:2]})

    assert {
        "attempts (calls)": 5,
        "attempts per operation": 1.667,
        "last operation ended (s)": 0.5,
        "ended OK (operations)": 2,
        "ended RESOURCE_EXHAUSTED (operations)": 1,
    } == dict(table.loc["a"])
    assert 0 == table.loc["b", "ended RESOURCE_EXHAUSTED (operations)"]


def test_a_call_that_is_sent_late_is_slow_from_its_due_time_only():
    table = lesson_11.latency_from_table({"paced": paced(90)})

    assert ["sending", "due"] == list(table["from"])
    assert [20.0, 20.0] == list(table["50 % (ms)"])
    assert [20.0, 110.0] == list(table["90 % (ms)"])
    assert ["sending"] == list(lesson_11.latency_from_table(staircase())["from"])


@pytest.mark.slow
def test_the_attempts_of_a_slice_add_up_to_the_calls():
    storm = run_of([(0.001 * n, 1.0, "retrieve") for n in range(100)])
    (dots,) = lesson_10.attempts_over_time({"storm": storm}).lines

    assert 100 == pytest.approx(np.sum(dots.get_ydata()) * storm.window_s / views.style.SLICES)
