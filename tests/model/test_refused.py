"""Every model refuses arguments that make no sense, and names the argument and its value."""

import math

import pytest

from kvstore.model import (
    Station,
    batching,
    bounds,
    overload,
    scaling,
    simulate,
    tail_latency,
    waiting,
)

LOCK = Station("lock", 0.010)
POOL = Station("pool", 0.020, 4)
FREE = Station("free", 0.0)
DISK = {"read_delay_s": 0.010, "write_delay_s": 0.050}
UNARY = {
    "generators": 1, "servers": 2, "cores": 2, "client_s": 1e-4, "server_s": 2e-4,
    "client_serial_s": 1e-4, "server_serial_s": 2e-4,
}  # fmt: skip


REFUSED = [
    ("arrivals_per_s must be above 0 and finite, got 0", lambda: waiting.residence(0, LOCK)),
    ("service_c2 must be 0 or more .* -1", lambda: waiting.residence(1, LOCK, service_c2=-1)),
    ("arrival_c2 must .*nan", lambda: waiting.residence(1, LOCK, arrival_c2=math.nan)),
    ("free must have a demand above 0 s", lambda: waiting.residence(1, FREE)),
    ("finite number of servers", lambda: waiting.residence(1, Station("free", 0.1, math.inf))),
    ("demand_s must be 0 or more .*nan", lambda: Station("station", math.nan)),
    ("servers must be 1 or more, got 0", lambda: Station("station", 0.01, 0)),
    ("in_flight must be 1 or more, got 0", lambda: bounds.closed_loop(0, [LOCK])),
    ("add up to 0 s", lambda: bounds.closed_loop(1, [FREE])),
    ("share above 0, got {}", lambda: bounds.service_time_s({}, **DISK)),
    (r"got \['batch'\]", lambda: bounds.service_time_s({"batch": 1}, **DISK)),
    ("calls must be 1 or more, got 0", lambda: bounds.expected_creates(0)),
    ("in_flight must be 1 or more, got 0", lambda: bounds.calls([], [LOCK], 1.0)),
    ("size must be 1 or more", lambda: batching.throughput(
        0, per_message_s=1e-4, per_operation_s=1e-6)),
    ("must have two sizes", lambda: batching.fit({8: 1.0})),
    ("must be above 0 s", lambda: batching.fit({8: 1.0, 16: 0.0})),
    ("in_flight must be 1 or more, got 0", lambda: batching.in_groups(0, fsync_s=0.01)),
    ("demand_s must be .* nan", lambda: batching.in_groups(1, fsync_s=0.01, way_s=math.nan)),
    ("offered_per_s must be above 0", lambda: overload.goodput(
        math.inf, POOL, deadline_s=1, offered_for_s=1)),
    ("at least the service time of 0.02 s, got 0.01", lambda: overload.goodput(
        1, POOL, deadline_s=0.01, offered_for_s=1)),
    ("from_s must be from 0 to below 1 s, got 1", lambda: overload.goodput(
        1, POOL, deadline_s=1, offered_for_s=1, from_s=1)),
    ("ceiling_bytes must be above base_bytes", lambda: overload.time_until(
        1e8, base_bytes=1e8, bytes_per_call=1e3, sent_per_s=9.0, answered_per_s=1.0)),
    ("generators must be .* got 0", lambda: scaling.throughput(**{**UNARY, "generators": 0})),
    ("server_s must be .*nan", lambda: scaling.throughput(**{**UNARY, "server_s": math.nan})),
    ("keys must be 1 or more, got 0", lambda: scaling.shares(0, 1.0)),
    ("exponent must be 0 or more and finite, got nan", lambda: scaling.shares(3, math.nan)),
    ("servers must be", lambda: scaling.busiest_share(0, 0.5)),
    ("hottest_share must be", lambda: scaling.busiest_share(2, 1.5)),
    ("locking must be one of .*, got 'none'", lambda: simulate.Service(locking="none")),
    ("threads must be 1 or more, got 0", lambda: simulate.Service(threads=0)),
    ("cpu_s must be 0 or more seconds, got nan", lambda: simulate.Service(cpu_s=math.nan)),
    ("read_share must be from 0 to 1, got 2", lambda: simulate.Service(read_share=2)),
    ("add up to 0 s", lambda: simulate.Service(read_delay_s=0, write_delay_s=0)),
    ("whole number of 1 or more, got 2.5", lambda: simulate.closed_loop(2.5, simulate.Service())),
    ("calls must be in_flight .10. or more", lambda: simulate.closed_loop(
        10, simulate.Service(), calls=5)),
    ("threads must .* got 1.5", lambda: simulate.Pool(threads=1.5, disk_s=0.02)),
    ("must be", lambda: tail_latency.slow_of_all(2, 1.1)),
]  # fmt: skip


@pytest.mark.parametrize(("says", "wrong"), REFUSED)
def test_what_makes_no_sense_is_refused_by_name(says, wrong):
    with pytest.raises(ValueError, match=says):
        wrong()
