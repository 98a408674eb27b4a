"""stalls.py: by hand, and against calls that come by a time-table."""

import pytest

from kvstore.model import stalls

STALL = {"stall_s": 0.2, "every_s": 0.5, "service_s": 0.01}


@pytest.mark.parametrize(
    ("share", "seconds"), [(1.0, 0.21), (0.9, 0.16), (0.75, 0.085), (0.6, 0.01), (0.0, 0.01)]
)
def test_by_hand(share, seconds):
    assert seconds == pytest.approx(stalls.latency(share, **STALL).value)


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.99])
def test_as_many_wait_no_longer_as_it_says(share):
    took_s = [max(0.0, 0.2 - n / 2_000) + 0.01 for n in range(1_000)]  # one every half millisecond
    within = sum(took <= stalls.latency(share, **STALL).value + 1e-9 for took in took_s)

    assert within / 1_000 == pytest.approx(max(share, 0.6), abs=0.002)


def test_no_stall_is_no_wait():
    assert 0.01 == stalls.latency(0.99, stall_s=0, every_s=1, service_s=0.01).value


@pytest.mark.parametrize(
    ("named", "wrong"),
    [("share must be", {"share": 1.1}), ("stall_s must be", {"share": 0.5, "stall_s": 0.5})],
)
def test_what_makes_no_sense_is_refused(named, wrong):
    with pytest.raises(ValueError, match=named):
        stalls.latency(**{**STALL, **wrong})


@pytest.mark.parametrize(
    ("servers", "slow_share", "share"),
    [(1, 0.01, 0.01), (2, 0.5, 0.75), (100, 0.01, 0.634), (8, 0.0, 0.0), (3, 1.0, 1.0)],
)
def test_who_waits_for_all_waits_for_the_slowest(servers, slow_share, share):
    """The third is the example of "The Tail at Scale": one in a hundred, asked of a hundred."""
    assert share == pytest.approx(stalls.slow_of_all(servers, slow_share).value, abs=1e-3)


@pytest.mark.parametrize(("servers", "slow_share"), [(0, 0.1), (2, 1.1), (2, -0.1)])
def test_no_such_share_of_slow_answers(servers, slow_share):
    with pytest.raises(ValueError, match="must be"):
        stalls.slow_of_all(servers, slow_share)
