"""Climbs of users: their tables, and the station that stands in place of the disk."""

import dataclasses
import math

import pytest
from made_runs import climbed, run_of, staircase

from kvstore.course import views
from kvstore.measure import boxes
from kvstore.model import Station, simulate

LOOP = {"run": [Station("back end", 0.05, math.inf)]}


def in_front(run):
    return dataclasses.replace(run, server={"settings": {"back_end": "127.0.0.1:9"}})


def test_a_climb_is_followed_by_its_prediction():
    """Eight users of 20 calls a second each."""
    table = views.ramp_up.throughput_in_climb_table({"run": climbed()}, LOOP)
    last = table.iloc[-2]

    assert 8 == last["users"]
    assert 160 == last["run: predicted (calls/s)"]
    assert math.isclose(160, last["run: measured (calls/s)"], rel_tol=0.15)
    assert table["users"].is_monotonic_increasing


def test_residence_times_are_followed_too():
    table = views.ramp_up.residence_in_climb_table({"run": climbed()}, LOOP)

    assert math.isclose(50, table["run: measured (ms)"].iloc[-2], rel_tol=1e-3)
    assert math.isclose(50, table["run: predicted (ms)"].iloc[-2], rel_tol=1e-3)


def test_before_the_first_answer_there_is_no_residence_time_and_no_row():
    """Answers of 0.3 s begin in the fourth of 16 parts; a mean with zeros would be below 0.3 s."""
    stations = {"run": [Station("back end", 0.3, math.inf)]}
    table = views.ramp_up.residence_in_climb_table({"run": climbed(wait_s=0.3)}, stations)

    assert not table.isna().all(axis=1).any()
    assert (
        views.ramp_up.throughput_in_climb_table({"run": climbed()}).index[0]
        < 0.3
        <= table.index[0] + 0.05
    )
    assert {300.0} == set(table["run: predicted (ms)"].dropna())


def test_moments_are_written_as_they_are_read():
    for table in (
        views.ramp_up.throughput_in_climb_table,
        views.ramp_up.residence_in_climb_table,
    ):
        assert all(len(f"{at_s:g}") <= len("1.234") for at_s in table({"run": climbed()}).index)


def test_what_was_simulated_stands_beside_it():
    """One call of 50 ms that ends in the first part, which is 1.5 / 16 s long."""
    played = {"run": [simulate.Call(0.0, 0.0, 0.0, 0.0, 0.05)]}
    rates = views.ramp_up.throughput_in_climb_table({"run": climbed()}, None, played)
    times = views.ramp_up.residence_in_climb_table({"run": climbed()}, None, played)

    assert math.isclose(16 / 1.5, rates["run: simulated (calls/s)"].iloc[0], rel_tol=1e-3)
    assert math.isclose(50, times["run: simulated (ms)"].iloc[0], rel_tol=1e-3)
    assert 0 == rates["run: simulated (calls/s)"].iloc[1]


def test_a_run_whose_users_are_all_there_at_once_is_a_climb_too():
    table = views.ramp_up.throughput_in_climb_table({"run": staircase(40, in_flight=4)})

    assert {4} == set(table["users"])


def test_the_summary_has_the_columns_of_jmeter():
    run = run_of([(0.0, 0.010, "retrieve"), (0.0, 0.030, "retrieve", "UNAVAILABLE")], window_s=2.0)
    row = views.ramp_up_table({"label": run}).loc["label"]

    assert [2, 20, 10, 30, 10, 50, 1] == [
        row[name]
        for name in (
            "# samples",
            "average (ms)",
            "min (ms)",
            "max (ms)",
            "std. dev. (ms)",
            "error (%)",
            "throughput (calls/s)",
        )
    ]
    assert math.isclose(2 * 64 / 1024 / 2, row["sent (KB/s)"], rel_tol=1e-3)
    assert 64 == row["avg. bytes"]


@pytest.mark.slow
def test_a_server_in_front_shows_its_back_end_where_others_have_a_disk():
    run = staircase(20, stations=True)
    both = views.time_by_station_table({"disk": run, "front": in_front(run)})
    labels = views.plot_time_by_station({"front": in_front(run)}).get_legend_handles_labels()[1]

    assert both.loc["disk", "disk (ms)"] == both.loc["front", "back end (ms)"] > 0
    assert 0 == both.loc["disk", "back end (ms)"] == both.loc["front", "disk (ms)"]
    assert "back end" in labels
    assert "disk" not in labels
    assert "back end" in boxes(in_front(run)).by_name
    assert "back end" in views.little_by_station_table(in_front(run)).index
