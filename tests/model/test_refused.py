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
    usl,
    waiting,
)

LOCK = Station("lock", 0.010)
POOL = Station("pool", 0.020, 4)
FREE = Station("free", 0.0)
COST = {"per_message_s": 100e-6, "per_operation_s": 1e-6}
DISK = {"read_delay_s": 0.010, "write_delay_s": 0.050}
STALL = {"stall_s": 0.2, "every_s": 0.5, "service_s": 0.01}
UNARY = {"generators": 1, "servers": 2, "cores": 2, "client_s": 100e-6, "server_s": 200e-6}
RATES = {"sent_per_s": 9.0, "answered_per_s": 1.0}


def waits(**given):
    return overload.time_until(base_bytes=100e6, bytes_per_call=1e3, **RATES, **given)


REFUSED = [
    ("arrivals_per_s must be above 0 and finite, got 0", lambda: waiting.wait(0, LOCK)),
    ("service_c2 must be 0 or more .* -1", lambda: waiting.residence(1, LOCK, service_c2=-1)),
    ("arrival_c2 must .*nan", lambda: waiting.residence(1, LOCK, arrival_c2=math.nan)),
    ("free must have a demand above 0 s", lambda: waiting.wait(1, FREE)),
    ("finite number of servers", lambda: waiting.wait(1, Station("free", 0.1, math.inf))),
    ("share must be from 0 to below 1, got 1", lambda: waiting.percentile(1, 1, LOCK)),
    ("pool must have one server, got 4", lambda: waiting.percentile(0.99, 1, POOL)),
    ("demand_s must be 0 or more .*nan", lambda: Station("station", math.nan)),
    ("servers must be 1 or more, got 0", lambda: Station("station", 0.01, 0)),
    ("in_flight must be 1 or more, got 0", lambda: bounds.closed_loop(0, [LOCK])),
    ("add up to 0 s", lambda: bounds.closed_loop(1, [FREE])),
    ("share above 0, got {}", lambda: bounds.service_time_s({}, **DISK)),
    (r"got \['batch'\]", lambda: bounds.service_time_s({"batch": 1}, **DISK)),
    ("calls must be 1 or more, got 0", lambda: bounds.expected_mix(0)),
    ("joins_s must have one time", lambda: bounds.calls([], [LOCK], 1.0)),
    ("in_flight must be a whole number .*1.5", lambda: bounds.exact_closed_loop(1.5, [LOCK])),
    ("got 4 for pool: use simulate", lambda: bounds.exact_closed_loop(1, [POOL])),
    ("think_s must be 0 or more seconds, got -1", lambda: bounds.exact_closed_loop(1, [LOCK], -1)),
    ("size must be 1 or more", lambda: batching.throughput(0, **COST)),
    ("per_message_s must .*-1", lambda: batching.throughput(1, **{**COST, "per_message_s": -1})),
    ("got 0 for both", lambda: batching.throughput(1, per_message_s=0, per_operation_s=0)),
    ("must have two sizes", lambda: batching.fit({8: 1.0})),
    ("must be above 0 s", lambda: batching.fit({8: 1.0, 16: 0.0})),
    ("share must be between 0 and 1, got 1", lambda: batching.enough(**COST, share=1)),
    ("in_flight must be 1 or more, got 0", lambda: batching.in_groups(0, fsync_s=0.01)),
    ("fsync_s must be 0 or more seconds, got -1", lambda: batching.one_by_one(1, fsync_s=-1)),
    ("way_s must .* got nan", lambda: batching.in_groups(1, fsync_s=0.01, way_s=math.nan)),
    ("offered_per_s must be above 0", lambda: overload.goodput(
        math.inf, POOL, deadline_s=1, offered_for_s=1)),
    ("offered_for_s must be above 0", lambda: overload.goodput(
        1, POOL, deadline_s=1, offered_for_s=0.0)),
    ("at least the service time of 0.02 s, got 0.01", lambda: overload.within(0.010, POOL)),
    ("calls must be 1 or more, got 0", lambda: overload.drain_burst(0, [LOCK])),
    ("every station has a demand of 0 s", lambda: overload.drain_burst(1, [FREE])),
    ("must be 1 or more", lambda: overload.retries_in_lockstep(1, 0)),
    ("attempts 1 or more", lambda: overload.failing_in_storm(70, 0, POOL)),
    ("ceiling_bytes must be above base_bytes", lambda: waits(ceiling_bytes=100e6)),
    ("generators must be .* got 0", lambda: scaling.throughput(**{**UNARY, "generators": 0})),
    ("server_s must be .*inf", lambda: scaling.throughput(**{**UNARY, "server_s": math.inf})),
    ("from 1/2 to 1, got 0.4", lambda: scaling.throughput(**UNARY, busiest_share=0.4)),
    ("cores must be finite", lambda: scaling.enough(cores=math.inf, client_s=1, server_s=1)),
    ("keys must be 1 or more, got 0", lambda: scaling.hottest_share(0, 1.0)),
    ("exponent must be 0 or more and finite, got nan", lambda: scaling.hottest_share(3, math.nan)),
    ("busiest_share must be", lambda: scaling.uneven(4, 0.2)),
    ("servers must be", lambda: scaling.busiest_share(0, 0.5)),
    ("hottest_share must be", lambda: scaling.busiest_share(2, 1.5)),
    ("in_flight must be", lambda: scaling.closed_loop(0, [1.0], 0.01)),
    ("rounds must be", lambda: scaling.closed_loop(1, [1.0], 0.01, rounds=0)),
    ("service_s must be", lambda: scaling.closed_loop(1, [1.0], math.inf)),
    ("sum to 1", lambda: scaling.closed_loop(1, [0.5, 0.4], 0.01)),
    ("locking must be one of .*, got 'none'", lambda: simulate.Service(locking="none")),
    ("threads must be 1 or more, got 0", lambda: simulate.Service(threads=0)),
    ("cpu_s must be 0 or more seconds, got nan", lambda: simulate.Service(cpu_s=math.nan)),
    ("read_share must be from 0 to 1, got 2", lambda: simulate.Service(read_share=2)),
    ("add up to 0 s", lambda: simulate.Service(read_delay_s=0, write_delay_s=0)),
    ("whole number of 1 or more, got 2.5", lambda: simulate.closed_loop(2.5, simulate.Service())),
    ("calls must be in_flight .10. or more", lambda: simulate.closed_loop(
        10, simulate.Service(), calls=5)),
    ("joins_s must have", lambda: simulate.joined([-1.0], simulate.Service(), 1.0)),
    ("until_s must be above 0", lambda: simulate.joined([0.0], simulate.Service(), 0.0)),
    ("threads must .* got 1.5", lambda: simulate.Pool(threads=1.5, disk_s=0.02)),
    ("share must be", lambda: tail_latency.latency(1.1, **STALL)),
    ("stall_s must be", lambda: tail_latency.latency(0.5, **{**STALL, "stall_s": 0.5})),
    ("must be", lambda: tail_latency.slow_of_all(2, 1.1)),
    ("hedged_share", lambda: tail_latency.utilisation_with_hedging(0.7, 2.0)),
    ("nodes must be 3 or more, got 2", lambda: tail_latency.gap(1, nodes=2, heartbeat_s=0.1)),
    ("stalled must be from 0 to 1, got 2", lambda: tail_latency.late(2, 3)),
    ("must be above heartbeat_s", lambda: tail_latency.gap(0.1, nodes=3, heartbeat_s=0.1)),
    ("4 different values or more", lambda: usl.fit([1, 2, 4, 4], [1, 2, 3, 3])),
    ("must have the same length", lambda: usl.fit([1, 2, 4, 8], [1, 2, 3])),
    ("throughput_per_s above 0", lambda: usl.fit([1, 2, 4, 8], [1, 2, 3, math.nan])),
    ("level must be between 0 and 1, got 95", lambda: usl.fit(
        [1, 2, 4, 8], [1, 2, 3, 4], level=95)),
]  # fmt: skip


@pytest.mark.parametrize(("says", "wrong"), REFUSED)
def test_what_makes_no_sense_is_refused_by_name(says, wrong):
    with pytest.raises(ValueError, match=says):
        wrong()
