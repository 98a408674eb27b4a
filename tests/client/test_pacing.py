"""pacing.py: a table of first due times."""

import math
from itertools import islice

import pytest

from kvstore.client import pacing


@pytest.mark.parametrize(
    ("due_s", "per_s"),
    [
        ([0.0, 0.1, 0.2, 0.3], 10),
        ([0.0, 1.0, 2.0, 3.0], 1),
        ([0.0, 2.0, 4.0, 6.0], 0.5),
        ([0.0, 0.0004, 0.0008, 0.0012], 2500),
    ],
)
def test_calls_are_due_one_interval_apart(due_s, per_s):
    assert due_s == pytest.approx(list(islice(pacing.constant_rate(per_s), 4)))


def test_lateness_does_not_add_up():
    """The ten-thousandth call is due when it ought to be, to rounding."""
    assert 1000.0 == next(islice(pacing.constant_rate(10), 10_000, None))


@pytest.mark.parametrize("per_s", [0, -1, math.nan])
def test_a_rate_of_nothing_is_refused_at_once(per_s):
    """Not at the first call, which may come in another thread."""
    with pytest.raises(ValueError, match="per_s must be above 0 calls per second, got"):
        pacing.constant_rate(per_s)
