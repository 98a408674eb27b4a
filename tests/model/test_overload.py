"""overload.py: goodput, bursts, retries and memory, worked out by hand."""

import math

import pytest

from kvstore.model import Station, overload

POOL = Station("pool", 0.020, 4)  # 200 calls/s


@pytest.mark.parametrize(
    ("in_time_per_s", "offered_per_s", "for_s", "limit"),
    [
        (200.0, 200.0, 1.0, math.inf),
        # grows by 200 a second; waits of 80 ms are 16 calls, so 0.08 s: 32 of 400 calls
        (32.0, 400.0, 1.0, math.inf),
        (3.2, 400.0, 10.0, math.inf),  # the longer it lasts the worse it gets
        (400.0, 400.0, 0.05, math.inf),  # the load ends before the first call is late
        (210.0, 400.0, 1.0, 10),  # 200 served in the second, and 10 are on their way
        (220.0, 400.0, 1.0, 20),  # each of them waits as long as it may
        (32.0, 400.0, 1.0, 21),  # one more, and all are late
        (51.0, 400.0, 1.0, 1),  # a limit below the number of servers leaves some of them idle
    ],
)
def test_goodput_by_hand(in_time_per_s, offered_per_s, for_s, limit):
    found = overload.goodput(offered_per_s, POOL, deadline_s=0.1, offered_for_s=for_s, limit=limit)

    assert in_time_per_s == pytest.approx(found.value)
    assert found.reason


@pytest.mark.parametrize(
    ("in_time_per_s", "offered_per_s", "from_s", "limit"),
    [
        (0.0, 400.0, 0.1, math.inf),  # after 0.08 s no call is in time
        (200.0, 400.0, 0.04, 10),  # the queue is as long at the end as at the beginning
        (400.0 * 0.04 / 0.96, 400.0, 0.04, math.inf),  # in time from 0.04 s to 0.08 s
        (150.0, 150.0, 0.5, math.inf),
    ],
)
def test_goodput_without_the_beginning_by_hand(in_time_per_s, offered_per_s, from_s, limit):
    found = overload.goodput(
        offered_per_s, POOL, deadline_s=0.1, offered_for_s=1.0, limit=limit, from_s=from_s
    )

    assert in_time_per_s == pytest.approx(found.value)


def test_a_burst_drains_at_the_rate_of_its_station():
    """10,000 calls of 0.25 ms at the server: 2.5 s."""
    drained = overload.drain_burst(10_000, Station("server", 0.00025))

    assert (pytest.approx(2.5), "s", "server") == (drained.value, drained.unit, drained.binds)
    assert "10,000 calls, and the server serves 4,000 per second: N / X" == drained.reason


@pytest.mark.parametrize(
    ("attempts", "operations", "limit"),
    [
        (6, 3, 1),
        (5 + 3 + 1, 5, 2),
        (220, 40, 4),
    ],
)
def test_equal_pauses_longer_than_the_work_stay_in_lockstep(attempts, operations, limit):
    assert attempts == overload.retries_in_lockstep(operations, limit).value


@pytest.mark.parametrize(("sent_per_s", "after_s"), [(2025.0, 2.0), (20.0, math.inf)])
def test_the_ceiling_is_reached_when_the_room_is_used_up(sent_per_s, after_s):
    """400 MB of room at 100 kB a call and 2,000 calls a second more: 2 s."""
    forecast = overload.time_until(
        512e6, base_bytes=112e6, bytes_per_call=100e3, sent_per_s=sent_per_s, answered_per_s=25.0
    )

    assert (pytest.approx(after_s), "s") == (forecast.value, forecast.unit)
