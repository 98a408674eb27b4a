"""stations.py: where time went, and how that travels."""

import math

import pytest

from kvstore import stations
from kvstore.stations import StationClock, StationTimes


@pytest.fixture
def clock_at(monkeypatch):
    """Sets the time that a `StationClock` sees."""

    def at(now_s: float) -> None:
        monkeypatch.setattr(stations.time, "perf_counter", lambda: now_s)

    return at


def test_a_request_passes_its_stations_one_after_the_other(clock_at):
    clock_at(10.0)
    clock = StationClock(waited_s=0.5)
    clock_at(12.0)
    clock.locked()
    clock_at(15.0)
    clock.worked()
    clock_at(15.25)

    assert StationTimes(pool_s=0.5, lock_s=2.0, disk_s=3.0, rest_s=0.25) == clock.times()


def test_several_operations_add_up_and_what_lies_between_is_the_rest(clock_at):
    clock_at(0.0)
    clock = StationClock()
    for start_s in (1.0, 5.0):  # a second on something else before each
        clock_at(start_s)
        clock.begin()
        clock_at(start_s + 1)
        clock.worked()
        clock_at(start_s + 3)
        clock.locked()
    clock_at(9.0)

    assert StationTimes(pool_s=0.0, lock_s=4.0, disk_s=2.0, rest_s=3.0) == clock.times()


def test_the_header_is_server_timing_in_milliseconds():
    header = stations.to_header(StationTimes(0.0015, 0.25, 0.05, 0.0))

    assert "pool;dur=1.5000, lock;dur=250.0000, disk;dur=50.0000, rest;dur=0.0000" == header


def test_stations_arrive_as_they_were_sent():
    sent = StationTimes(0.0015, 0.25, 0.05, 0.0000001)
    metadata = (("other", "thing"), (stations.METADATA_KEY, stations.to_header(sent)))

    assert sent == pytest.approx(stations.from_metadata(metadata), abs=1e-7)


@pytest.mark.parametrize("metadata", [None, (), (("grpc-status", "0"),), (("x-bin", b"\x00"),)])
def test_a_server_that_does_not_tell_leaves_them_unknown(metadata):
    assert all(math.isnan(time_s) for time_s in stations.from_metadata(metadata))


def test_a_station_that_is_not_told_is_unknown_and_a_strange_one_is_passed_over():
    told = stations.from_metadata(((stations.METADATA_KEY, "lock;dur=2.0, cache;dur=7.0"),))

    assert 0.002 == told.lock_s
    assert math.isnan(told.pool_s)


@pytest.mark.parametrize("header", ["", "miss", "db;dur=fast", 'cache;desc="a";dur=1', "a,b,,"])
def test_a_header_that_somebody_else_wrote_ends_no_run(header):
    """A proxy may add a Server-Timing of its own."""
    told = stations.from_metadata(((stations.METADATA_KEY, header),))

    assert all(math.isnan(time_s) for time_s in told)
