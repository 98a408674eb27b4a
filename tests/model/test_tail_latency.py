"""tail_latency.py: stalls, the slowest of several replies, hedging and failover, by hand."""

import random

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


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_as_many_wait_no_longer_as_the_latency_says(share):
    took_s = [max(0.0, 0.2 - n / 2_000) + 0.01 for n in range(1_000)]  # one every half millisecond
    within = sum(took <= tail_latency.latency(share, **STALL).value + 1e-9 for took in took_s)

    assert within / 1_000 == pytest.approx(max(share, 0.6), abs=0.002)


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


@pytest.mark.parametrize("nodes", [3, 5])
@pytest.mark.parametrize("ticks", [5, 10])
def test_the_gap_is_the_mean_of_timers_played_through(ticks, nodes):
    """Each follower draws whole ticks from T to 2T - 1; the first tick comes early, at random."""
    rng = random.Random(11)
    heartbeat_s = 0.1
    played_s = [
        heartbeat_s * min(rng.randrange(ticks, 2 * ticks) - rng.random() for _ in range(nodes - 1))
        for _ in range(20_000)
    ]
    found = tail_latency.gap(ticks * heartbeat_s, nodes=nodes, heartbeat_s=heartbeat_s)

    assert found.value == pytest.approx(sum(played_s) / len(played_s), rel=0.01)


@pytest.mark.parametrize(
    ("late", "stalled", "nodes"),
    [
        (0.25 + 0.75 * 0.0625, 0.25, 3),  # the leader, or else both followers: p + (1 - p) p^2
        (0.25, 0.25, 1),
        (0.5 + 0.5 * (5 / 16), 0.5, 5),
        (0.0, 0.0, 5),
        (1.0, 1.0, 5),
    ],
)
def test_how_often_a_stalled_node_delays_a_write(late, stalled, nodes):
    assert late == pytest.approx(tail_latency.late(stalled, nodes))
