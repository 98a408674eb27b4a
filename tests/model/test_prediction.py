"""bounds.py: a number, its reason and the station that binds."""

import dataclasses
import math

import pytest

from kvstore.model import Prediction, Station


def test_a_prediction_reads_as_a_sentence():
    prediction = Prediction(2500.0, "calls/s", "100 in flight, 40 ms each", "calls in flight")

    assert "2,500 calls/s: 100 in flight, 40 ms each [calls in flight binds]" == str(prediction)


def test_where_nothing_binds_the_sentence_names_no_station():
    assert "inf s: it does not grow" == str(Prediction(math.inf, "s", "it does not grow"))


def test_a_prediction_cannot_be_changed_after_the_run():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Prediction(1.0, "s", "so").value = 2.0  # type: ignore[misc]


def test_measured_over_predicted():
    assert 0.95 == Prediction(100.0, "calls/s", "so").ratio_of(95.0)


def test_nothing_predicted_has_no_ratio():
    assert math.isnan(Prediction(0.0, "calls/s", "so").ratio_of(95.0))


def test_a_station_serves_at_most_its_servers_over_its_demand(subtests):
    for most_per_s, station in [
        (20.0, Station("lock", 0.050)),
        (3200.0, Station("pool", 0.040, 128)),
        (math.inf, Station("disk", 0.040, math.inf)),
        (math.inf, Station("nothing", 0.0)),
    ]:
        with subtests.test(most_per_s=most_per_s, station=station):
            assert most_per_s == pytest.approx(station.most_per_s)


def test_a_station_that_makes_no_sense_is_refused(subtests):
    for named, demand_s, servers in [
        ("demand_s must be 0 or more seconds, got -0.01", -0.01, 1),
        ("demand_s must be 0 or more seconds, got nan", math.nan, 1),
        ("servers must be 1 or more, got 0", 0.01, 0),
        ("servers must be 1 or more, got nan", 0.01, math.nan),
    ]:
        with (
            subtests.test(named=named, demand_s=demand_s, servers=servers),
            pytest.raises(ValueError, match=named),
        ):
            Station("station", demand_s, servers)


def test_large_numbers_are_written_out():
    assert str(Prediction(2_537_634.4, "operations/s", "so")).startswith("2,537,634 operations/s")
    assert str(Prediction(math.inf, "calls/s", "so")).startswith("inf calls/s")
