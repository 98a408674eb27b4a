"""Due times: when calls ought to be sent, in seconds from the start of the run.

Each pace is a generator of due times that never looks at a clock, so that lateness
does not add up and a test needs no waiting. A closed loop has no pace: `None`.
"""

import itertools
from collections.abc import Iterator


def constant_rate(per_s: float) -> Iterator[float]:
    """One call every `1 / per_s` seconds. Raises `ValueError` unless the rate is above 0."""
    if not per_s > 0:
        raise ValueError(f"per_s must be above 0 calls per second, got {per_s}")
    return (number / per_s for number in itertools.count())
