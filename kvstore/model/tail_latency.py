"""Tail latency: a server that stalls at regular intervals, and the slowest of several replies.

A request that needs the replies of n servers takes as long as the slowest reply: J. Dean and L. A.
Barroso, "The Tail at Scale", Communications of the ACM 56 (2013).
"""

from kvstore.model.prediction import Prediction


def latency(share: float, *, stall_s: float, every_s: float, service_s: float) -> Prediction:
    """Return the latency in seconds at quantile p = `share`, for calls due at a constant rate.

    The server stalls for `stall_s` seconds every `every_s` seconds. A call that arrives x seconds
    before the end of a stall waits x seconds. The share (stall - x) / every of the calls waits
    longer than x. So the latency at quantile p is max(0, stall - (1 - p) every) + service. Calls
    that arrive together do not delay one another. Raises `ValueError` unless 0 <= share <= 1 and
    0 <= stall_s < every_s.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be from 0 to 1, got {share}")
    if not 0 <= stall_s < every_s:
        raise ValueError(
            f"stall_s must be 0 or more and below every_s, got {stall_s} and {every_s}"
        )
    waits_s = max(0.0, stall_s - (1 - share) * every_s)
    return Prediction(
        waits_s + service_s,
        "s",
        f"{stall_s / every_s:.0%} of the calls arrive during a stall of {stall_s:g} s; all but"
        f" {1 - share:.0%} wait {waits_s:.3g} s or less, and are served in {service_s:g} s",
        "stall" if waits_s else "service",
    )


def slow_share(
    longer_than_s: float, *, stall_s: float, every_s: float, service_s: float
) -> Prediction:
    """Return the share of calls that take longer than `longer_than_s` seconds.

    The server and the calls are those of `latency`: a call that arrives x seconds before the end
    of a stall takes x + `service_s`. Raises its errors.
    """
    latency(1.0, stall_s=stall_s, every_s=every_s, service_s=service_s)  # checks the arguments
    late = max(0.0, min(stall_s, stall_s - (longer_than_s - service_s)) / every_s)
    return Prediction(
        late if longer_than_s >= service_s else 1.0,
        "of the requests",
        f"a stall of {stall_s:.3g} s every {every_s:.3g} s: the share that waits for more than"
        f" {max(0.0, longer_than_s - service_s):.3g} s",
        "stall",
    )


def slow_in_spite_of_hedging(
    first: Prediction, second: Prediction, *, after_s: float
) -> Prediction:
    """Return the share of slow requests if a second server gets the request after `after_s`.

    A request is slow if both replies are: p q. `first` is p, the share of replies that take longer
    than the limit. `second` is q, the share that take longer than the limit minus `after_s`. The
    two servers must be slow independently of each other.
    """
    return Prediction(
        first.value * second.value,
        "of the requests",
        f"both are late: {first.value:.3g} · {second.value:.3g}, the second one sent"
        f" {after_s:g} s later",
        "both servers",
    )


def utilisation_with_hedging(utilisation: float, hedged_share: float) -> Prediction:
    """Return the utilisation of servers that also serve second requests: rho (1 + h).

    `utilisation` is rho without hedging, and h = `hedged_share` the share of requests that are
    sent twice, if both are served. At 1 or above, the queues grow. Raises `ValueError` for a
    share that is not from 0 to 1, or a negative utilisation.
    """
    if not 0 <= hedged_share <= 1 or not utilisation >= 0:
        raise ValueError(
            f"hedged_share must be from 0 to 1 and utilisation 0 or more, got {hedged_share} and"
            f" {utilisation}"
        )
    return Prediction(
        utilisation * (1 + hedged_share),
        "of the capacity",
        f"{utilisation:.3g} · (1 + {hedged_share:.3g})",
        "hedging",
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
        f"each of {servers} replies is slow with p = {slow_share:.3g}: 1 - (1 - p)^{servers}",
        "the slowest reply" if servers > 1 else "",
    )
