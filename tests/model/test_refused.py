"""Every model refuses arguments that make no sense, and names the argument and its value."""

import math

import pytest

from kvstore.model import (
    Station,
    batching,
    bounds,
    overload,
    scaling,
    waiting,
)

LOCK = Station("lock", 0.010)
POOL = Station("pool", 0.020, 4)
FREE = Station("free", 0.0)


REFUSED = [
    ("arrivals_per_s must be above 0 and finite, got 0", lambda: waiting.residence(0, LOCK)),
    ("service_c2 must be 0 or more .* -1", lambda: waiting.residence(1, LOCK, service_c2=-1)),
    ("free must have a demand above 0 s", lambda: waiting.residence(1, FREE)),
    ("demand_s must be 0 or more .*nan", lambda: Station("station", math.nan)),
    ("servers must be 1 or more, got 0", lambda: Station("station", 0.01, 0)),
    ("add up to 0 s", lambda: bounds.closed_loop(1, [FREE])),
    (
        "size must be 1 or more",
        lambda: batching.throughput(0, per_message_s=1e-4, per_operation_s=1e-6),
    ),
    (
        "offered_per_s must be above 0",
        lambda: overload.goodput(math.inf, POOL, deadline_s=1, offered_for_s=1),
    ),
    (
        "from_s must be from 0 to below 1 s, got 1",
        lambda: overload.goodput(1, POOL, deadline_s=1, offered_for_s=1, from_s=1),
    ),
    ("servers must be 1 or more, got 0", lambda: scaling.busiest_share(0, 0.1)),
]


@pytest.mark.parametrize(("says", "wrong"), REFUSED)
def test_what_makes_no_sense_is_refused_by_name(says, wrong):
    with pytest.raises(ValueError, match=says):
        wrong()
