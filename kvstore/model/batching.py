"""What many operations in one message bring: a cost per message, shared, and one for each.

A message of k operations costs a + b * k seconds of whoever binds, so X = k / (a + b * k):
at first k times as much, in the end 1 / b however large the message.
"""

import math
from collections.abc import Mapping

import numpy as np

from kvstore.model.laws import service_time_s
from kvstore.model.prediction import Prediction


def throughput(size: int, *, per_message_s: float, per_operation_s: float) -> Prediction:
    """Operations per second in messages of `size` operations: X = k / (a + b * k).

    Raises `ValueError` for a size below 1, a negative cost, or no cost at all.
    """
    if not size >= 1:
        raise ValueError(f"size must be 1 or more operations, got {size}")
    _check(per_message_s, per_operation_s)
    message_s = per_message_s + per_operation_s * size
    if not message_s > 0:
        raise ValueError("a message costs 0 s: nothing limits the rate")
    return Prediction(
        size / message_s,
        "operations/s",
        f"{size} operations share {1e6 * per_message_s:,.4g} us and cost"
        f" {1e6 * per_operation_s:,.4g} us each: X = k / (a + b k)",
        "message" if per_message_s > per_operation_s * size else "operations",
    )


def fit(message_s: Mapping[int, float]) -> tuple[float, float]:
    """The cost per message (a) and per operation (b), in seconds, from costs by size.

    `message_s` gives the seconds that a message of so many operations took; two sizes are
    enough. With more, the squares of the relative errors are least, so that a message of
    1 counts as much as one of 512. Raises `ValueError` for less than two sizes.
    """
    if len(message_s) < 2:
        raise ValueError(f"two sizes are needed to tell a from b, got {sorted(message_s)}")
    if not all(seconds > 0 for seconds in message_s.values()):
        raise ValueError(f"every message must take more than 0 s, got {dict(message_s)}")
    sizes, seconds = np.array(list(message_s)), np.array(list(message_s.values()))
    columns = np.stack([1 / seconds, sizes / seconds], axis=1)
    (per_message_s, per_operation_s), *_ = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)
    return float(per_message_s), float(per_operation_s)


def enough(*, per_message_s: float, per_operation_s: float, share: float = 0.9) -> float:
    """The size that reaches `share` of the most there is, 1 / b; beyond it more is waste.

    k = share / (1 - share) * a / b, and at least 1: each further operation makes every answer
    b seconds later and gains almost nothing. Infinite when an operation costs nothing.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, got {share}")
    _check(per_message_s, per_operation_s)
    if per_operation_s == 0:
        return math.inf
    return max(1.0, share / (1 - share) * per_message_s / per_operation_s)


def disk_s(
    size: int,
    mix: Mapping[str, float],
    *,
    read_delay_s: float,
    write_delay_s: float,
    group_commit: bool,
) -> float:
    """Mean seconds on the disk of a batch of `size` operations drawn from a mix.

    One after the other they take size * W. As a group they pay once: a read's delay when
    all of them are reads, which happens with the chance (share of reads) ** size, else a
    write's. Raises `ValueError` for a size below 1 and as `service_time_s` does.
    """
    if not size >= 1:
        raise ValueError(f"size must be 1 or more operations, got {size}")
    each_s = service_time_s(mix, read_delay_s=read_delay_s, write_delay_s=write_delay_s)
    if not group_commit:
        return size * each_s
    only_reads = (mix.get("retrieve", 0.0) / sum(mix.values())) ** size
    return only_reads * read_delay_s + (1 - only_reads) * write_delay_s


def _check(per_message_s: float, per_operation_s: float) -> None:
    for name, value in (("per_message_s", per_message_s), ("per_operation_s", per_operation_s)):
        if not value >= 0:
            raise ValueError(f"{name} must be 0 or more seconds, got {value}")
