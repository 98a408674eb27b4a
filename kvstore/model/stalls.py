"""A server that stands still now and then: what callers feel who come by a time-table."""

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
