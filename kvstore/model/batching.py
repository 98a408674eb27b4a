"""Throughput with several operations in a message: X = k / (a + b k).

A message of k operations takes a + b k seconds of the bottleneck: a for the message, b for each
operation. Throughput X first grows in proportion to k and finally approaches 1 / b. This is the
bound X <= 1 / D_max, with D_max = (a + b k) / k for each operation.
"""

import math
from collections.abc import Mapping

import numpy as np

from kvstore.model.laws import service_time_s
from kvstore.model.prediction import Prediction


def throughput(size: int, *, per_message_s: float, per_operation_s: float) -> Prediction:
    """Return X = k / (a + b k) in operations per second, for k = `size` operations in a message.

    `per_message_s` is a and `per_operation_s` is b, in seconds. Raises `ValueError` for a size
    below 1, a negative time, or if both times are 0.
    """
    if not size >= 1:
        raise ValueError(f"size must be 1 or more operations, got {size}")
    _check(per_message_s, per_operation_s)
    message_s = per_message_s + per_operation_s * size
    if not message_s > 0:
        raise ValueError("per_message_s or per_operation_s must be above 0 seconds, got 0 for both")
    return Prediction(
        size / message_s,
        "operations/s",
        f"{size} operations share {1e6 * per_message_s:,.4g} us and take"
        f" {1e6 * per_operation_s:,.4g} us each: X = k / (a + b k)",
        "message" if per_message_s > per_operation_s * size else "operations",
    )


def fit(message_s: Mapping[int, float]) -> tuple[float, float]:
    """Return (a, b), the seconds per message and per operation, fitted to measured messages.

    `message_s` maps the number of operations in a message to the seconds that such a message
    took. Two sizes are enough. With more sizes the sum of the squared relative errors is
    minimised, so that a message of 1 operation has the same weight as one of 512. Raises
    `ValueError` for fewer than two sizes, or a time that is not above 0.
    """
    if len(message_s) < 2:
        raise ValueError(f"message_s must have two sizes or more, got {sorted(message_s)}")
    if not all(seconds > 0 for seconds in message_s.values()):
        raise ValueError(f"every time in message_s must be above 0 s, got {dict(message_s)}")
    sizes, seconds = np.array(list(message_s)), np.array(list(message_s.values()))
    columns = np.stack([1 / seconds, sizes / seconds], axis=1)
    (per_message_s, per_operation_s), *_ = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)
    return float(per_message_s), float(per_operation_s)


def enough(*, per_message_s: float, per_operation_s: float, share: float = 0.9) -> float:
    """Return the message size k that reaches `share` of the maximum throughput 1 / b.

    k = share / (1 - share) * a / b, and at least 1. Each further operation delays every reply of
    the message by b seconds and adds little throughput. Infinite if b is 0. Raises `ValueError`
    unless 0 < share < 1, and for a negative time.
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
    """Return the mean disk time in seconds of a batch of `size` operations drawn from a mix.

    Without `group_commit` the operations take size * S, with S the mean service time of the mix.
    With it the batch uses the disk once: `read_delay_s` if all operations are reads, which has
    the probability (share of reads) ** size, otherwise `write_delay_s`. Raises `ValueError` for
    a size below 1, and the errors of `service_time_s`.
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
