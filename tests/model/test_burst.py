"""burst.py: bursts worked out by hand."""

import math

import pytest

from kvstore.model import Station, burst, memory

PARTS = [Station("client", 0.0002), Station("server", 0.00025)]


def test_a_burst_drains_at_the_rate_of_the_slowest_station():
    """10,000 calls of 0.25 ms at the server: 2.5 s."""
    drained = burst.drain(10_000, PARTS)

    assert (pytest.approx(2.5), "s", "server") == (drained.value, drained.unit, drained.binds)
    assert "10,000 calls, and server serves 4,000 a second: N / X" == drained.reason


def test_the_last_call_waits_for_what_is_not_answered_when_it_is_sent():
    """Sent within 2 s, answered within 2.5 s."""
    assert pytest.approx(0.5) == burst.last_wait(10_000, PARTS, sent_per_s=5_000).value


def test_a_server_as_quick_as_the_sender_keeps_nobody_waiting():
    assert pytest.approx(0.00045) == burst.last_wait(10_000, PARTS, sent_per_s=3_000).value


@pytest.mark.parametrize(
    ("left", "calls", "limit", "served", "sent"),
    [
        (2_500, 10_000, 500, 1_000, 5_000),  # 2 s of sending
        (10_000, 10_000, 500, 6_000, 5_000),
        (100, 100, 500, 1_000, 5_000),
    ],
)
def test_shedding_leaves_the_places_and_what_is_answered_meanwhile(
    left, calls, limit, served, sent
):
    found = burst.left_by_shedding(calls, limit, served_per_s=served, sent_per_s=sent)

    assert (pytest.approx(left), "calls") == (found.value, found.unit)


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ("calls must be 1 or more, got 0", lambda: burst.drain(0, PARTS)),
        ("no station takes any time", lambda: burst.drain(1, [Station("disk", 0.0, math.inf)])),
        ("no station takes any time", lambda: burst.drain(1, [])),
        ("sent_per_s must be above 0", lambda: burst.last_wait(1, PARTS, sent_per_s=0)),
        (
            "limit must be above 0, got 0",
            lambda: burst.left_by_shedding(1, 0, served_per_s=1, sent_per_s=1),
        ),
    ],
)
def test_what_makes_no_sense_is_refused(named, wrong):
    with pytest.raises(ValueError, match=named):
        wrong()


def test_memory_is_what_is_at_rest_in_flight_and_recorded():
    """100 MB, 10,000 calls of 25,000 B, 1,000,000 records of 56 B."""
    held = memory.held(10_000, base_bytes=100e6, bytes_per_call=25_000, recorded=1_000_000)

    assert (pytest.approx(406.0), "MB", "memory") == (held.value, held.unit, held.binds)
    assert "100 MB at rest, 10,000 in flight of 24.4 KiB, 1,000,000 records of 56 B" == held.reason
