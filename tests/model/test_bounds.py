"""bounds.py: the closed loop against numbers worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore.model import Station, bounds

DISK = Station("disk", 0.040, math.inf)
LOCK = Station("global lock", 0.040)
POOL = Station("pool", 0.040, 8)


def test_callers_or_the_slowest_station_set_the_rate(subtests):
    for per_s, binds, in_flight, stations, think_s in [
        (25.0, "calls in flight", 1, [DISK], 0.0),
        (2500.0, "calls in flight", 100, [DISK], 0.0),  # source 1, step 03
        (25.0, "global lock", 100, [LOCK], 0.0),  # source 1, step 02b
        (25.0, "calls in flight", 1, [LOCK], 0.0),  # one caller never queues
        (200.0, "pool", 100, [POOL], 0.0),
        (125.0, "calls in flight", 5, [POOL], 0.0),
        (
            25.0,
            "global lock",
            10,
            [LOCK],
            0.160,
        ),  # ten callers with think time: at most 50/s without the lock
        (10.0, "calls in flight", 1, [LOCK], 0.060),
        (1000.0, "cpu", 100, [Station("cpu", 0.001), DISK], 0.0),
    ]:
        with subtests.test(
            per_s=per_s, binds=binds, in_flight=in_flight, stations=stations, think_s=think_s
        ):
            bound = bounds.closed_loop(in_flight, stations, think_s)

            assert (per_s, binds) == (pytest.approx(bound.value, rel=1e-9), bound.binds)
            assert "calls/s" == bound.unit


def test_the_reason_holds_the_arithmetic():
    callers = bounds.closed_loop(4, [DISK]).reason
    lock = bounds.closed_loop(100, [LOCK]).reason
    pool = bounds.closed_loop(100, [POOL]).reason
    hot = bounds.closed_loop(100, [Station("server 0", 0.008)]).reason
    unknown = bounds.closed_loop(100, [Station("a lock or a disk", 0.008)]).reason

    assert "4 in flight, each takes 40 ms: N / (D + Z)" == callers
    assert "a call needs the global lock for 40 ms on average: 1 / 40 ms" == lock
    assert "a call needs the pool for 40 ms on average, and it serves 8 at once: 8 / 40 ms" == pool
    assert "a call needs server 0 for 8 ms on average: 1 / 8 ms" == hot
    assert "a call needs a lock or a disk for 8 ms on average: 1 / 8 ms" == unknown


def test_behind_one_lock_a_hundred_callers_wait_a_hundred_times():
    assert 4.0 == pytest.approx(bounds.residence(100, [LOCK]).value)


def test_residence_leaves_out_the_thinking():
    assert 0.040 == pytest.approx(bounds.residence(1, [LOCK], think_s=1.0).value)


def test_the_knee_is_where_both_bounds_meet(subtests):
    for knee, stations, think_s in [
        (1.0, [LOCK], 0.0),
        (8.0, [POOL], 0.0),
        (41.0, [Station("cpu", 0.001), DISK], 0.0),
        (5.0, [LOCK], 0.160),
        (math.inf, [DISK], 0.0),
    ]:
        with subtests.test(knee=knee, stations=stations, think_s=think_s):
            assert knee == pytest.approx(bounds.knee(stations, think_s))


def test_around_the_knee_the_binding_station_changes():
    stations = [Station("cpu", 0.001), DISK]

    assert "calls in flight" == bounds.closed_loop(40, stations).binds
    assert "cpu" == bounds.closed_loop(42, stations).binds


@given(
    st.lists(st.tuples(st.floats(0.0001, 0.1), st.sampled_from([1, 4, math.inf])), min_size=1),
    st.floats(0.0, 0.5),
)
def test_more_callers_never_lower_the_bound(drawn, think_s):
    """For any stations: the bound grows with N, up to the maximum rate of the bottleneck."""
    stations = [Station(f"station {number}", *each) for number, each in enumerate(drawn)]
    values = [bounds.closed_loop(n, stations, think_s).value for n in range(1, 60)]

    assert sorted(values) == values
    assert all(value <= min(s.most_per_s for s in stations) for value in values)


@given(st.floats(0.0001, 0.1), st.sampled_from([1, 4]), st.floats(0.0001, 0.1), st.floats(0.0, 0.5))
def test_the_two_bounds_meet_at_the_knee(demand_s, servers, delay_s, think_s):
    stations = [Station("lock", demand_s, servers), Station("disk", delay_s, math.inf)]
    knee = bounds.knee(stations, think_s)

    assert knee / (demand_s + delay_s + think_s) == pytest.approx(servers / demand_s)


def test_fewer_than_one_caller_is_refused():
    with pytest.raises(ValueError, match="in_flight must be 1 or more, got 0"):
        bounds.closed_loop(0, [LOCK])


def test_where_nothing_takes_time_nothing_limits(subtests):
    for stations in [[], [Station("free", 0.0)]]:
        with subtests.test(stations=stations), pytest.raises(ValueError, match="add up to 0 s"):
            bounds.closed_loop(1, stations)
