"""Whether a call that has waited is still worth the work."""

from typing import Any


def too_late(context: Any, needs_s: float) -> bool:
    """Whether the caller will have gone before `needs_s` seconds have passed.

    gRPC itself passes over a call whose deadline is behind it when a thread gets to it, and
    serves one that has a millisecond left. A caller who set no deadline has all the time.
    """
    left_s = context.time_remaining()
    return left_s is not None and left_s < needs_s
