"""load_tests.py: our runs in the form of h2load's table, by hand."""

import dataclasses
import math

import pytest
from made_runs import run_of

from kvstore.course import views
from kvstore.course.views.load_tests import spread


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
    assert [1.0, 9.0, 4.0, 3.0, 75.0] == pytest.approx(spread([1.0, 3.0, 3.0, 9.0]))
    assert all(math.isnan(cell) for cell in spread([]))


def test_a_run_in_the_form_of_h2loads_table():
    table = views.h2load_table(two_connections())

    assert [10.0, 30.0] == list(table.loc["request (ms)", ["min", "max"]])
    assert [500.0, 700.0, 600.0] == list(table.loc["connect (ms)", ["min", "max", "mean"]])
    # The first connection sends at 0 and hears at 0.01; the second at 0 and at 0.03.
    assert [510.0, 730.0] == list(table.loc["first byte (ms)", ["min", "max"]])
    assert [10.0, 20.0] == list(table.loc["calls/s of a connection", ["min", "max"]])


def test_a_refused_call_is_in_no_row():
    run = two_connections()
    all_refused = run.records.copy()
    all_refused["status"] = 14
    table = views.h2load_table(dataclasses.replace(run, records=all_refused))

    assert table.loc[["request (ms)", "first byte (ms)"]].isna().all(axis=None)
    assert 0.0 == table.loc["calls/s of a connection", "max"]


def test_two_clients_stand_side_by_side():
    mine = two_connections()
    table = views.side_by_side_table({"1b": mine}, {"1b": dataclasses.replace(mine, window_s=0.05)})

    assert (2, 30.0, 60.0, 0.5) == (
        table.loc["1b", "connections, counted"],
        table.loc["1b", "ours (operations/s)"],
        table.loc["1b", "h2load (operations/s)"],
        table.loc["1b", "ours ÷ h2load"],
    )
    alone = views.side_by_side_table({"1b": mine})
    assert 30.0 == alone.loc["1b", "throughput (operations/s)"]
    assert 3 == len(alone.columns)
