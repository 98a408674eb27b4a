"""overload.py: the backlog of an unlimited sender, against numbers worked out by hand."""

import math

import pytest

from kvstore.model import overload


def test_a_backlog_grows_by_what_is_sent_and_not_answered(subtests):
    for growth, sent, answered in [(2475.0, 2500.0, 25.0), (0.0, 25.0, 25.0), (0.0, 1.0, 9.0)]:
        with subtests.test(growth=growth, sent=sent, answered=answered):
            assert growth == overload.backlog_growth_per_s(sent, answered)


def test_the_ceiling_is_reached_when_the_room_is_used_up():
    """400 MB of room at 100 kB a call and 2,000 calls a second more: 2 s."""
    forecast = overload.time_until(
        512e6, base_bytes=112e6, bytes_per_call=100e3, sent_per_s=2025.0, answered_per_s=25.0
    )

    assert (2.0, "s", "memory") == (pytest.approx(forecast.value), forecast.unit, forecast.binds)
    assert "400 MB free, 100 kB a call, 2,025 sent minus 25 answered per second" == (
        forecast.reason
    )


def test_a_backlog_that_does_not_grow_never_fills_memory():
    forecast = overload.time_until(
        512e6, base_bytes=112e6, bytes_per_call=100e3, sent_per_s=20.0, answered_per_s=25.0
    )

    assert math.inf == forecast.value
    assert "" == forecast.binds


def test_a_ceiling_below_what_is_used_already_is_refused(subtests):
    for ceiling_bytes in [100e6, 50e6, math.nan]:
        with (
            subtests.test(ceiling_bytes=ceiling_bytes),
            pytest.raises(ValueError, match="ceiling_bytes must be above base_bytes"),
        ):
            overload.time_until(
                ceiling_bytes,
                base_bytes=100e6,
                bytes_per_call=1e3,
                sent_per_s=9.0,
                answered_per_s=1.0,
            )
