"""What an unlimited sender does to memory: a backlog that grows at lambda - X."""

import math

from kvstore.model.prediction import Prediction

RECORD_BYTES = 56
"""What a client of ours keeps of a call that has ended."""


def backlog_growth_per_s(sent_per_s: float, answered_per_s: float) -> float:
    """Calls by which the number in flight grows each second: lambda - X, at least 0."""
    return max(0.0, sent_per_s - answered_per_s)


def held(
    in_flight: int, *, base_bytes: float, bytes_per_call: float, recorded: int = 0
) -> Prediction:
    """Megabytes of a process with so many calls in flight, and a record for each call before.

    base + N * bytes per call + 56 * calls recorded; only a client keeps records.
    """
    total_bytes = base_bytes + in_flight * bytes_per_call + recorded * RECORD_BYTES
    records = f", {recorded:,} records of {RECORD_BYTES} B" if recorded else ""
    return Prediction(
        total_bytes / 1e6,
        "MB",
        f"{base_bytes / 1e6:,.0f} MB at rest, {in_flight:,} in flight of"
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
    """Seconds until a process that starts at `base_bytes` reaches the ceiling.

    (ceiling - base) / (bytes per call * (lambda - X)); infinite when the backlog does not
    grow. Raises `ValueError` when the ceiling is not above the base.
    """
    if not ceiling_bytes > base_bytes:
        raise ValueError(
            f"the ceiling of {ceiling_bytes / 1e6:,.0f} MB must be above the"
            f" {base_bytes / 1e6:,.0f} MB that are used already"
        )
    growth_per_s = backlog_growth_per_s(sent_per_s, answered_per_s)
    bytes_per_s = bytes_per_call * growth_per_s
    if not bytes_per_s > 0:
        return Prediction(math.inf, "s", "as many are answered as are sent: it does not grow")
    room_bytes = ceiling_bytes - base_bytes
    return Prediction(
        room_bytes / bytes_per_s,
        "s",
        f"{room_bytes / 1e6:,.0f} MB of room, {bytes_per_call / 1e3:,.1f} kB a call,"
        f" {sent_per_s:,.0f} sent less {answered_per_s:,.0f} answered a second",
        "memory",
    )
