"""tail_latency.py: stalls, the slowest of several replies, hedging and failover, by hand."""

import pytest

from kvstore.model import Prediction, tail_latency

STALL = {"stall_s": 0.2, "every_s": 0.5, "service_s": 0.01}


@pytest.mark.parametrize(
    ("share", "seconds"), [(1.0, 0.21), (0.9, 0.16), (0.75, 0.085), (0.6, 0.01), (0.0, 0.01)]
)
def test_the_latency_behind_stalls_and_its_inverse(share, seconds):
    found = tail_latency.latency(share, **STALL)

    assert seconds == pytest.approx(found.value)
    assert min(0.4, 1 - share) == pytest.approx(tail_latency.slow_share(seconds, **STALL).value)


@pytest.mark.parametrize(
    ("servers", "slow_share", "share"),
    [
        (1, 0.01, 0.01),
        (2, 0.5, 0.75),
        (100, 0.01, 0.634),  # the example of "The Tail at Scale"
        (3, 1.0, 1.0),
    ],
)
def test_a_request_takes_as_long_as_its_slowest_reply(servers, slow_share, share):
    assert share == pytest.approx(tail_latency.slow_of_all(servers, slow_share).value, abs=1e-3)


def test_a_hedged_read_is_slow_if_both_replies_are():
    first, second = (Prediction(share, "of the requests", "") for share in (0.1, 0.2))
    hedged = tail_latency.slow_in_spite_of_hedging(first, second, after_s=0.05)

    assert pytest.approx(0.02) == hedged.value
    assert pytest.approx(1.4) == tail_latency.utilisation_with_hedging(0.7, 1.0).value


def test_the_gap_by_hand():
    """The first of two timers, drawn from 1 s to 2 s, ends after 4/3 s, less a tick."""
    assert 4 / 3 - 0.1 == pytest.approx(tail_latency.gap(1.0, nodes=3, heartbeat_s=0.1).value)
