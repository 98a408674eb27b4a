import re

import pandas as pd
import pytest
from made_runs import run_of, staircase

from kvstore.course import views
from kvstore.course.rendering import TIMES
from kvstore.course.views.style import rounded
from kvstore.protocol import StationTimes


def test_a_table_shows_each_number_with_its_own_digits():
    """pandas gives a whole column the digits of its longest number, and a .0 to all others."""
    table = rounded(pd.DataFrame({"X (calls/s)": [28571.4, 50.21, 7.0, 0.02]}))

    html = table[table["X (calls/s)"] > 0]._repr_html_()

    assert ["28,570", "50.21", "7", "0.02"] == re.findall(r"<td>(.*)</td>", html)
    assert ["28,570", "50.21", "7", "0.02"] == re.findall(r"^\d +(.+)$", repr(table), re.M)


def test_runs_of_the_same_name_are_numbered_apart():
    runs = [staircase(stations=True), staircase(stations=True)]

    assert list(views.time_by_station_table(runs).index) == [
        f"blocking {TIMES}1",
        f"blocking {TIMES}1 (2)",
    ]


def test_what_no_station_of_the_server_explains_is_client_and_wire():
    told = StationTimes(0.001, 0.002, 0.010, 0.003)
    table = views.time_by_station_table(run_of([(0.0, 0.020, "retrieve", "OK", told)]))

    assert pytest.approx(dict(table.iloc[0]), rel=1e-3) == {
        "pool queue (ms)": 1.0,
        "lock (ms)": 2.0,
        "disk (ms)": 10.0,
        "rest of the server (ms)": 3.0,
        "client and wire (ms)": 4.0,
        "whole residence (ms)": 20.0,
    }


def test_each_station_holds_as_many_calls_as_littles_law_says():
    told = StationTimes(0.001, 0.002, 0.010, 0.003)
    two = run_of([(0.0, 0.020, "retrieve", "OK", told)] * 2, window_s=0.040)
    table = views.little_by_station_table(two)

    assert pytest.approx(table.loc["disk", "L = λ·R (calls)"], rel=1e-3) == 0.5
    assert pytest.approx(table.loc["whole residence", "L = λ·R (calls)"], rel=1e-3) == 1.0


def test_a_server_in_front_shows_its_back_end_where_others_have_a_disk():
    run, front = (staircase(20, stations=True, back_end=front) for front in (False, True))
    both = views.time_by_station_table({"disk": run, "front": front})

    assert both.loc["disk", "disk (ms)"] == both.loc["front", "back end (ms)"] > 0
