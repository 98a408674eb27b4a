"""tail_latency.py: stalls, the slowest of several replies, and failover, by hand."""

import pytest

from kvstore.model import tail_latency

STALL = {"stall_s": 0.2, "every_s": 0.5, "service_s": 0.01}


@pytest.mark.parametrize(
    ("share", "seconds"), [(1.0, 0.21), (0.9, 0.16), (0.75, 0.085), (0.6, 0.01), (0.0, 0.01)]
)
def test_the_latency_behind_stalls(share, seconds):
    found = tail_latency.latency(share, **STALL)

    assert seconds == pytest.approx(found.value)


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


def test_the_gap_by_hand():
    """The first of two timers, drawn from 1 s to 2 s, ends after 4/3 s, less a tick."""
    assert 4 / 3 - 0.1 == pytest.approx(tail_latency.gap(1.0, nodes=3, heartbeat_s=0.1).value)
