"""bounds.py: the closed loop against numbers worked out by hand."""

import math
import random

import pytest

from kvstore.model import Station, bounds

DISK = Station("disk", 0.040, math.inf)
LOCK = Station("global lock", 0.040)
POOL = Station("pool", 0.040, 8)


@pytest.mark.parametrize(
    ("per_s", "binds", "in_flight", "stations", "think_s"),
    [
        (25.0, "calls in flight", 1, [DISK], 0.0),
        (2500.0, "calls in flight", 100, [DISK], 0.0),  # source 1, step 03
        (25.0, "global lock", 100, [LOCK], 0.0),  # source 1, step 02b
        (25.0, "calls in flight", 1, [LOCK], 0.0),  # one caller never queues
        (200.0, "pool", 100, [POOL], 0.0),
        (125.0, "calls in flight", 5, [POOL], 0.0),
        (25.0, "global lock", 10, [LOCK], 0.160),  # ten who think would ask for 50/s
        (10.0, "calls in flight", 1, [LOCK], 0.060),
        (1000.0, "cpu", 100, [Station("cpu", 0.001), DISK], 0.0),
    ],
)
def test_callers_or_the_slowest_station_set_the_rate(per_s, binds, in_flight, stations, think_s):
    bound = bounds.closed_loop(in_flight, stations, think_s)

    assert (per_s, binds) == (pytest.approx(bound.value, rel=1e-9), bound.binds)
    assert "calls/s" == bound.unit


def test_the_reason_holds_the_arithmetic():
    callers = bounds.closed_loop(4, [DISK]).reason
    lock = bounds.closed_loop(100, [LOCK]).reason
    pool = bounds.closed_loop(100, [POOL]).reason

    assert "4 in flight, each 40 ms a round: N / (D + Z)" == callers
    assert "global lock serves one call in 40 ms: servers / demand" == lock
    assert "pool serves 8 calls at once, each in 40 ms: servers / demand" == pool


def test_behind_one_lock_a_hundred_callers_wait_a_hundred_times():
    assert 4.0 == pytest.approx(bounds.residence(100, [LOCK]).value)


def test_residence_leaves_out_the_thinking():
    assert 0.040 == pytest.approx(bounds.residence(1, [LOCK], think_s=1.0).value)


@pytest.mark.parametrize(
    ("knee", "stations", "think_s"),
    [
        (1.0, [LOCK], 0.0),
        (8.0, [POOL], 0.0),
        (41.0, [Station("cpu", 0.001), DISK], 0.0),
        (5.0, [LOCK], 0.160),
        (math.inf, [DISK], 0.0),
    ],
)
def test_the_knee_is_where_both_bounds_meet(knee, stations, think_s):
    assert knee == pytest.approx(bounds.knee(stations, think_s))


def test_around_the_knee_the_binding_station_changes():
    stations = [Station("cpu", 0.001), DISK]

    assert "calls in flight" == bounds.closed_loop(40, stations).binds
    assert "cpu" == bounds.closed_loop(42, stations).binds


def test_more_callers_never_lower_the_bound():
    """Whatever the stations: a bound that fell would not be one."""
    rng = random.Random(1)
    for _ in range(100):
        stations = [
            Station(f"station {number}", rng.uniform(0.0001, 0.1), rng.choice([1, 4, math.inf]))
            for number in range(rng.randint(1, 4))
        ]
        think_s = rng.choice([0.0, 0.5])
        values = [bounds.closed_loop(n, stations, think_s).value for n in range(1, 60)]

        assert sorted(values) == values
        assert all(value <= min(s.most_per_s for s in stations) for value in values)


def test_nobody_calls_nothing():
    with pytest.raises(ValueError, match="in_flight must be 1 or more, got 0"):
        bounds.closed_loop(0, [LOCK])


@pytest.mark.parametrize("stations", [[], [Station("free", 0.0)]])
def test_where_nothing_takes_time_nothing_limits(stations):
    with pytest.raises(ValueError, match="add up to 0 s"):
        bounds.closed_loop(1, stations)
