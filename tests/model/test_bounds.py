"""bounds.py: laws, bounds, MVA and the ramp-up, against numbers worked out by hand."""

import math

import pytest

from kvstore.model import Prediction, Station, bounds

CPU = Station("cpu", 0.010)
LOCK = Station("global lock", 0.040)
FAST_LOCK = Station("lock", 0.010)
SLOW_LOCK = Station("slow lock", 0.020)
DISK = Station("disk", 0.040, math.inf)
POOL = Station("pool", 0.040, 8)


def test_measured_over_predicted():
    assert 0.95 == Prediction(100.0, "calls/s", "so").ratio_of(95.0)
    assert math.isnan(Prediction(0.0, "calls/s", "so").ratio_of(95.0))


@pytest.mark.parametrize(
    ("service_s", "mix"),
    [
        (0.040, dict.fromkeys(("create", "retrieve", "update", "delete"), 137)),  # of source 1
        (0.010, {"retrieve": 1}),
        (0.042, {"retrieve": 0.2, "create": 0.3, "update": 0.3, "delete": 0.2}),
    ],
)
def test_the_service_time_of_a_mix_is_the_mean_of_its_delays(service_s, mix):
    found = bounds.service_time_s(mix, read_delay_s=0.010, write_delay_s=0.050)

    assert service_s == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize(
    ("calls", "creates"),
    [
        (1, 1.0),
        (2, (1 + 1 / 4) / 2),
        # One key is known before the second call; with 1/4 it is deleted, and the third creates.
        (3, (1 + 1 / 4 + (1 / 4 + 3 / 4 * 1 / 4)) / 3),
        # No key is known before the calls 1 to 5 with 1, 0, 1/4, 1/8 and 9/64.
        (5, 1 / 4 + 3 / 4 * (1 + 1 / 4 + 1 / 8 + 9 / 64) / 5),
    ],
)
def test_the_first_calls_create_more_than_a_quarter(calls, creates):
    assert creates == pytest.approx(bounds.expected_creates(calls))


@pytest.mark.parametrize(
    ("per_s", "binds", "in_flight", "stations"),
    [
        (2500.0, "calls in flight", 100, [DISK]),  # source 1, step 03
        (25.0, "global lock", 100, [LOCK]),  # source 1, step 02b
        (200.0, "pool", 100, [POOL]),
        (1000.0, "cpu", 100, [Station("cpu", 0.001), DISK]),
    ],
)
def test_callers_or_the_slowest_station_set_the_rate(per_s, binds, in_flight, stations):
    bound = bounds.closed_loop(in_flight, stations)

    assert (per_s, binds) == (pytest.approx(bound.value, rel=1e-9), bound.binds)
    assert in_flight / per_s == pytest.approx(bounds.residence(in_flight, stations).value)


@pytest.mark.parametrize(
    ("knee", "stations"),
    [
        (1.0, [LOCK]),
        (8.0, [POOL]),
        (41.0, [Station("cpu", 0.001), DISK]),
        (math.inf, [DISK]),
    ],
)
def test_the_knee_is_where_both_bounds_meet(knee, stations):
    assert knee == pytest.approx(bounds.knee(stations))


@pytest.mark.parametrize(
    ("per_s", "in_flight", "stations"),
    [
        (2500.0, 100, [DISK]),  # no queueing: N / D
        # 10 and 20 ms, 2 callers. With one: R = 30 ms, a third at the cpu, two at the lock;
        # so with two: 10 * 4/3 + 20 * 5/3 = 140/3 ms, and 2 / that.
        (2 / 0.140 * 3, 2, [CPU, SLOW_LOCK]),
        # 10 ms behind a delay of 10 ms. Two: 2 / (10 + 15 ms); 1.2 at the lock.
        (3 / 0.032, 3, [FAST_LOCK, Station("delay", 0.010, math.inf)]),
    ],
)
def test_mean_values_by_hand(per_s, in_flight, stations):
    assert per_s == pytest.approx(bounds.exact_closed_loop(in_flight, stations).value)


WAIT_S = 0.1
LOOP = [Station("back end", WAIT_S, math.inf)]
TWO_THREADS = [Station("pool", WAIT_S, 2)]
JOINS = [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("stations", "at_s", "per_s", "took_s"),
    [
        (LOOP, 0.04, 0.0, 0.0),  # the first call is still on its way
        (LOOP, 0.15, 10.0, 0.1),
        (LOOP, 9.0, 40.0, 0.1),
        (TWO_THREADS, 2.2, 20.0, 0.15),  # three users, two threads: 3 / 20
        (TWO_THREADS, 9.0, 20.0, 0.2),
    ],
)
def test_each_moment_has_the_bound_of_a_little_before(stations, at_s, per_s, took_s):
    assert math.isclose(per_s, bounds.throughput_per_s(JOINS, stations, at_s))
    assert math.isclose(took_s, bounds.residence_s(JOINS, stations, at_s))


def test_the_calls_of_a_climb_are_the_area_under_its_throughput():
    """10/s, 20/s and 30/s for a second each, from 0.05 s on, then 40/s for 0.95 s."""
    loop = bounds.calls(JOINS, LOOP, 4.0)
    pool = bounds.calls(JOINS, TWO_THREADS, 4.0)

    assert math.isclose(10 + 20 + 30 + 38, loop.value)
    assert math.isclose(10 + 20 + 20 + 19, pool.value)
    assert ("calls in flight", "pool") == (loop.binds, pool.binds)
