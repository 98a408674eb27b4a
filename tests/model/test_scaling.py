"""scaling.py: several processes and servers, by hand; keys used unevenly, by hand and simulated."""

import math
from collections import Counter

import pytest

from kvstore.client import workload
from kvstore.client.workload import Operations
from kvstore.model import bounds, scaling

UNARY = {"client_s": 100e-6, "server_s": 200e-6}
"""No part of it is beside the interpreter."""
SERIAL = {"client_serial_s": 100e-6, "server_serial_s": 200e-6}


@pytest.mark.parametrize(
    ("generators", "servers", "cores", "per_s", "binds", "says"),
    [
        (2, 1, 2, 5_000, "servers", "1 server, 200 µs an operation: s / D'_server"),
        (2, 3, 16, 15_000, "servers", "3 servers, 200 µs"),
        (1, 2, 2, 2 / 300e-6, "cores", "2 cores for 100 µs + 200 µs an operation: cores / "),
        (1, 2, 4, 10_000, "generators", "1 generator, 100 µs an operation: p / D'_client"),
    ],
)
def test_the_narrowest_of_three_binds(generators, servers, cores, per_s, binds, says):
    predicted = scaling.throughput(
        generators=generators, servers=servers, cores=cores, **UNARY, **SERIAL
    )

    assert predicted.value == pytest.approx(per_s)
    assert ("operations/s", binds) == (predicted.unit, predicted.binds)
    assert predicted.reason.startswith(says)


# ---- key skew -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p_max", "keys", "exponent"),
    [
        (6 / 11, 3, 1.0),  # 1 / (1 + 1/2 + 1/3)
        (0.8, 2, 2.0),  # 1 / (1 + 1/4)
        (1 / 8, 8, 0.0),  # all alike
    ],
)
def test_the_hottest_key_gets_its_share_and_all_add_up(p_max, keys, exponent):
    assert p_max == pytest.approx(scaling.shares(keys, exponent)[0])
    assert 1.0 == pytest.approx(scaling.shares(keys, exponent).sum())


@pytest.mark.parametrize("exponent", [0.5, 0.99, 2.0])
def test_the_client_draws_what_the_model_says(exponent):
    """Each of 20 keys within five standard deviations of its share over 20,000 draws."""
    operations = Operations(
        workload.reads(keys=20, key_choice="zipf", zipf_exponent=exponent, sizes="fixed")
    )
    preloaded = [operation.key for operation in operations.preloads()]
    for key in preloaded:
        operations.created(key)
    counts = Counter(operations.draw().key for _ in range(20_000))

    for key, share in zip(preloaded, scaling.shares(20, exponent), strict=True):
        deviation = math.sqrt(20_000 * share * (1 - share))
        assert counts[key] == pytest.approx(20_000 * share, abs=5 * deviation)


@pytest.mark.parametrize(
    ("servers", "hottest", "share"),
    [(1, 0.05, 1.0), (20, 0.05, 1 / 10.26), (100, 0.05, 1 / 16.81), (4, 0.0, 0.25), (4, 1.0, 1.0)],
)
def test_the_busiest_server_has_the_hot_key_and_its_part_of_all_others(servers, hottest, share):
    assert share == pytest.approx(scaling.busiest_share(servers, hottest), rel=1e-3)
    found = scaling.uneven(servers, scaling.busiest_share(servers, hottest))
    assert (servers, 1.0) == (len(found), pytest.approx(sum(found)))


@pytest.mark.parametrize(
    ("per_s", "in_flight", "shares"),
    [
        (50.0, 1, [0.25] * 4),  # one caller keeps one server busy, whichever it is
        (62.5, 400, [0.8, 0.2]),  # the busiest: 1 / (0.8 * 20 ms)
        (50.0, 7, [1.0, 0.0, 0.0]),  # all keys on one server
        # Apart, both draw anew and meet with 1/2. Together, one draws anew and stays with 1/2.
        (75.0, 2, [0.5, 0.5]),
    ],
)
def test_throughput_of_several_servers_by_hand(per_s, in_flight, shares):
    played = scaling.closed_loop(in_flight, shares, 0.020, rounds=20_000)

    assert per_s == pytest.approx(played.throughput_per_s, rel=0.03)
    bound = bounds.closed_loop(in_flight, scaling.stations(shares, 0.020))
    assert played.throughput_per_s < 1.03 * bound.value


def test_callers_pile_up_at_the_hot_server():
    """At the start calls are spread evenly; at the end almost all wait for the hot server."""
    played = scaling.closed_loop(400, scaling.uneven(40, 0.5), 0.010, rounds=2_000, warm_up=200)
    at_s, rates = played.rates(40)

    assert list(at_s) == sorted(at_s)
    assert rates[20:].mean() == pytest.approx(200, rel=0.1)  # 1 / (0.5 * 10 ms)
    assert rates[0] > 1.2 * rates[20:].mean()
