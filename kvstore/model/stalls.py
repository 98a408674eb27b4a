"""A server that stands still now and then: what callers feel who come by a time-table.

Who asks n servers and waits for all feels the slowest of them: J. Dean and L. A. Barroso, "The
Tail at Scale", Communications of the ACM 56 (2013).
"""

from kvstore.model.prediction import Prediction


def latency(share: float, *, stall_s: float, every_s: float, service_s: float) -> Prediction:
    """Seconds that this share of the calls does not exceed, when calls come evenly over time.

    A call that comes x seconds before the end of a stall waits x. Of all calls (stall - x) /
    every wait longer, so the share p of them waits no longer than stall - (1 - p) every.
    Raises `ValueError` where a share or time makes no sense.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be from 0 to 1, got {share}")
    if not 0 <= stall_s < every_s:
        raise ValueError(f"stall_s must be from 0 to every_s, got {stall_s} of {every_s}")
    waits_s = max(0.0, stall_s - (1 - share) * every_s)
    return Prediction(
        waits_s + service_s,
        "s",
        f"{stall_s / every_s:.0%} of the calls come in a stall of {stall_s:g} s; all but"
        f" {1 - share:.0%} wait {waits_s:.3g} s or less, and take {service_s:g} s",
        "stall" if waits_s else "service",
    )


def slow_of_all(servers: int, slow_share: float) -> Prediction:
    """The share of the requests that wait for a slow answer, when each asks so many servers.

    Each of the n answers is slow with the same chance p, whatever the others are; then none of
    them is with (1 - p)**n. Raises `ValueError` for less than one server, or no such share.
    """
    if not servers >= 1:
        raise ValueError(f"servers must be 1 or more, got {servers}")
    if not 0 <= slow_share <= 1:
        raise ValueError(f"slow_share must be from 0 to 1, got {slow_share}")
    return Prediction(
        1 - (1 - slow_share) ** servers,
        "of the requests",
        f"each of {servers} answers is slow with p = {slow_share:.3g}: 1 - (1 - p)^{servers}",
        "the slowest of all" if servers > 1 else "",
    )
