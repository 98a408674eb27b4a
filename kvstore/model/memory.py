"""The memory of a client without a concurrency limit: its backlog grows at lambda - X.

lambda is the rate of calls sent, X the rate of calls answered, both in calls per second. The
growth of the number in flight follows from counting the calls that enter and leave.
"""

import math

from kvstore.model.prediction import Prediction

RECORD_BYTES = 56
"""Bytes of the record that the client keeps of a call after its end."""


def backlog_growth_per_s(sent_per_s: float, answered_per_s: float) -> float:
    """Return the growth of the number in flight in calls per second: lambda - X, at least 0."""
    return max(0.0, sent_per_s - answered_per_s)


def held(
    in_flight: int, *, base_bytes: float, bytes_per_call: float, recorded: int = 0
) -> Prediction:
    """Return the memory of a process in MB: base + N * bytes per call + 56 * recorded calls.

    N is `in_flight`. Only a client keeps a record of each call that has ended.
    """
    total_bytes = base_bytes + in_flight * bytes_per_call + recorded * RECORD_BYTES
    records = f", {recorded:,} records of {RECORD_BYTES} B" if recorded else ""
    return Prediction(
        total_bytes / 1e6,
        "MB",
        f"{base_bytes / 1e6:,.0f} MB without calls, {in_flight:,} in flight of"
        f" {bytes_per_call / 1024:,.1f} KiB{records}",
        "memory",
    )


def time_until(
    ceiling_bytes: float,
    *,
    base_bytes: float,
    bytes_per_call: float,
    sent_per_s: float,
    answered_per_s: float,
) -> Prediction:
    """Return the seconds until the memory of a process grows from `base_bytes` to the ceiling.

    t = (ceiling - base) / (bytes per call * (lambda - X)). Infinite if the backlog does not grow.
    Raises `ValueError` unless `ceiling_bytes` is above `base_bytes`.
    """
    if not ceiling_bytes > base_bytes:
        raise ValueError(
            f"ceiling_bytes must be above base_bytes, got {ceiling_bytes / 1e6:,.0f} MB and"
            f" {base_bytes / 1e6:,.0f} MB"
        )
    growth_per_s = backlog_growth_per_s(sent_per_s, answered_per_s)
    bytes_per_s = bytes_per_call * growth_per_s
    if not bytes_per_s > 0:
        return Prediction(
            math.inf,
            "s",
            "calls are answered at the rate at which they are sent: the backlog does not grow",
        )
    room_bytes = ceiling_bytes - base_bytes
    return Prediction(
        room_bytes / bytes_per_s,
        "s",
        f"{room_bytes / 1e6:,.0f} MB free, {bytes_per_call / 1e3:,.1f} kB a call,"
        f" {sent_per_s:,.0f} sent minus {answered_per_s:,.0f} answered per second",
        "memory",
    )
