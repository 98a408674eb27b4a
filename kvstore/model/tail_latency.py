"""Servers that stall or die: the tail of latency, and how long a cluster answers no writes.

A request that needs the replies of n servers takes as long as the slowest reply: J. Dean and L. A.
Barroso, "The Tail at Scale", Communications of the ACM 56 (2013).
"""

from kvstore.model.bounds import Prediction
from kvstore.numbers import number, percent, seconds


def latency(share: float, *, stall_s: float, every_s: float, service_s: float) -> Prediction:
    """Return the latency in seconds at quantile p = `share`, for calls due at a constant rate.

    The server stalls for `stall_s` seconds every `every_s` seconds. A call that arrives x seconds
    before the end of a stall waits x seconds. The share (stall - x) / every of the calls waits
    longer than x. So the latency at quantile p is max(0, stall - (1 - p) every) + service. Calls
    that arrive together do not delay one another.
    """
    waits_s = max(0.0, stall_s - (1 - share) * every_s)
    return Prediction(
        waits_s + service_s,
        "s",
        f"{percent(stall_s / every_s)} of the calls arrive during a stall of {seconds(stall_s)};"
        f" all but {percent(1 - share)} wait {seconds(waits_s)} or less, and are served in"
        f" {seconds(service_s)}",
        "stall" if waits_s else "service",
    )


def slow_of_all(servers: int, slow_share: float) -> Prediction:
    """Return the share of requests with at least one slow reply: 1 - (1 - p)^n.

    A request needs the replies of n = `servers` servers. Each reply is slow with the probability
    p = `slow_share`, independently of the others. Raises `ValueError` for fewer than one server,
    or a share that is not from 0 to 1.
    """
    if not servers >= 1:
        raise ValueError(f"servers must be 1 or more, got {servers}")
    if not 0 <= slow_share <= 1:
        raise ValueError(f"slow_share must be from 0 to 1, got {slow_share}")
    return Prediction(
        1 - (1 - slow_share) ** servers,
        "of the requests",
        f"each of {servers} replies is slow with p = {number(slow_share)}: 1 - (1 - p)^{servers}",
        "the slowest reply" if servers > 1 else "",
    )


# A cluster with a leader: how long it answers no writes after the leader has died.
#
# In Raft, a follower that has heard nothing for its election timeout becomes a candidate. It
# draws the timeout anew each time, evenly between T and 2T, so that two of them seldom stand at
# once. The first of m followers is expected after T + T / (m + 1), the minimum of m even draws.
#
# An implementation counts the timeout in ticks, one for each heartbeat interval h. The first tick
# after the last message comes half an interval early on average, and the draw excludes 2T itself:
# together h less. So the expected gap is
#
#     G = T + T / (m + 1) - h
#
# The votes (a round trip and an fsync each) and the next attempt of the client come on top. Two
# candidates within one round of votes may split them. And a candidate whose log lacks an entry is
# refused by a follower that has it, whose own timer then starts anew. In both cases the gap is
# longer by another draw. So a measured mean lies above G, the more the busier the nodes are.
#
# Source: D. Ongaro and J. Ousterhout, "In Search of an Understandable Consensus Algorithm"
# (2014), section 5.2; the ticks are those of etcd's `raft.go`.


def gap(election_timeout_s: float, *, nodes: int, heartbeat_s: float) -> Prediction:
    """Return the expected seconds without an acknowledged write after the leader was killed."""
    followers = nodes - 1
    mean_s = election_timeout_s * (1 + 1 / (followers + 1)) - heartbeat_s
    first_s, last_s = (times * election_timeout_s - heartbeat_s for times in (1, 2))
    return Prediction(
        mean_s,
        "s",
        f"the first of {followers} followers becomes a candidate after {seconds(mean_s)} on"
        f" average, between {seconds(first_s)} and {seconds(last_s)}",
        "election timeout",
    )
