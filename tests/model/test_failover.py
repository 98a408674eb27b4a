"""tail_latency.py: the gap after a leader's death, and how often a stalled node delays a write."""

import random

import pytest
from tables import for_each

from kvstore.model import tail_latency


@for_each("nodes", [3, 5])
@for_each("ticks", [5, 10])
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
    assert ("s", "election timeout") == (found.unit, found.binds)


def test_late_by_hand():
    """Of three: the leader, or else both followers, p + (1 - p) p^2; of one: p."""
    assert pytest.approx(0.25 + 0.75 * 0.0625) == tail_latency.late(0.25, 3)
    assert tail_latency.late(0.25, 3) > tail_latency.late(0.25, 1) == pytest.approx(0.25)
    assert pytest.approx(0.5 + 0.5 * (5 / 16)) == tail_latency.late(0.5, 5)
    assert [0.0, 1.0] == [tail_latency.late(p, 5) for p in (0.0, 1.0)]


@for_each(
    ("says", "call"),
    [
        ("nodes must be 3 or more, got 2", lambda: tail_latency.gap(1, nodes=2, heartbeat_s=0.1)),
        (
            "election_timeout_s must be above",
            lambda: tail_latency.gap(0.1, nodes=3, heartbeat_s=0.1),
        ),
        ("stalled must be from 0 to 1, got 2", lambda: tail_latency.late(2, 3)),
        ("nodes must be 1 or more, got 0", lambda: tail_latency.late(0.5, 0)),
    ],
)
def test_what_makes_no_sense_is_refused(says, call):
    with pytest.raises(ValueError, match=says):
        call()
