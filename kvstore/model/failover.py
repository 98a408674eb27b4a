"""A cluster with a leader: how long it answers no writes after the leader has died.

In Raft, a follower that has heard nothing for its election timeout becomes a candidate. It draws
the timeout anew each time, evenly between T and 2T, so that two of them seldom stand at once. The
first of m followers is expected after T + T / (m + 1), the minimum of m even draws.

An implementation counts the timeout in ticks, one for each heartbeat interval h. The first tick
after the last message comes half an interval early on average, and the draw excludes 2T itself:
together h less. So the expected gap is

    G = T + T / (m + 1) - h

The votes (a round trip and an fsync each) and the next attempt of the client come on top. Two
candidates within one round of votes may split them. And a candidate whose log lacks an entry is
refused by a follower that has it, whose own timer then starts anew. In both cases the gap is longer
by another draw. So a measured mean lies above G, the more the busier the nodes are.

Source: D. Ongaro and J. Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014),
section 5.2; the ticks are those of etcd's `raft.go`.
"""

from kvstore.model.prediction import Prediction


def gap(election_timeout_s: float, *, nodes: int, heartbeat_s: float) -> Prediction:
    """Return the expected seconds without an acknowledged write after the leader was killed.

    Raises `ValueError` for fewer than 3 nodes (no majority is left), a heartbeat that is not above
    0 seconds, and an election timeout that is not above the heartbeat.
    """
    if not nodes >= 3:
        raise ValueError(f"nodes must be 3 or more, got {nodes}: of fewer, no majority is left")
    if not 0 < heartbeat_s < election_timeout_s:
        raise ValueError(
            "election_timeout_s must be above heartbeat_s, and both above 0 seconds, got"
            f" {election_timeout_s} and {heartbeat_s}"
        )
    followers = nodes - 1
    mean_s = election_timeout_s * (1 + 1 / (followers + 1)) - heartbeat_s
    return Prediction(
        mean_s,
        "s",
        f"the first of {followers} followers stands after {mean_s:.3g} s on average, between"
        f" {election_timeout_s - heartbeat_s:.3g} and {2 * election_timeout_s - heartbeat_s:.3g}",
        "election timeout",
    )


def late(stalled: float, nodes: int) -> float:
    """Return the share of writes that wait for a node that stalls, in a cluster with a leader.

    Each node stalls for the share `stalled` of the time, independently. A write passes the leader,
    and needs a majority with it. Raises `ValueError` unless 0 <= stalled <= 1 and `nodes` is 1 or
    more.
    """
    if not 0 <= stalled <= 1:
        raise ValueError(f"stalled must be from 0 to 1, got {stalled}")
    if not nodes >= 1:
        raise ValueError(f"nodes must be 1 or more, got {nodes}")
    needed = nodes // 2  # besides the leader
    have = [1.0] + [0.0] * (nodes - 1)  # by the number of followers that run
    for _ in range(nodes - 1):
        before = [0.0, *have[:-1]]
        have = [
            stay * stalled + come * (1 - stalled) for stay, come in zip(have, before, strict=True)
        ]
    return 1 - (1 - stalled) * sum(have[needed:])
