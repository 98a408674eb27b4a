"""simulate.py: callers who join one after the other, worked out on paper."""

import math

import pytest

from kvstore.model.simulate import Service, joined


def test_callers_who_join_later_call_later():
    """Two threads, 40 ms: a third caller comes when none is idle, and waits for 20 ms."""
    service = Service(read_delay_s=0.040, read_share=1.0, locking="per_key", threads=2)
    played = joined([0.0, 0.0, 0.020], service, 0.021)

    assert [(0, 0, 40), (0, 0, 40), (20, 40, 80)] == [
        (round(1e3 * call.sent_s), round(1e3 * call.began_s), round(1e3 * call.done_s))
        for call in played
    ]


def test_who_has_joined_goes_on_until_the_end():
    service = Service(read_delay_s=0.010, read_share=1.0, locking="per_key")
    played = joined([0.0, 0.025], service, 0.041, think_s=0.005)

    assert [0, 15, 25, 30, 40] == sorted(round(1e3 * call.sent_s) for call in played)


@pytest.mark.parametrize("wrong", [((), 1.0), ((-1.0,), 1.0), ((math.inf,), 1.0), ((0.0,), 0.0)])
def test_a_climb_that_makes_no_sense_is_not_played(wrong):
    joins_s, until_s = wrong
    with pytest.raises(ValueError, match="must be"):
        joined(joins_s, Service(), until_s)
