"""scaling.py: several processes and servers, by hand; keys used unevenly, by hand and simulated."""

import math
from collections import Counter

import pytest

from kvstore.client import workload
from kvstore.client.workload import Operations
from kvstore.model import bounds, scaling, simulate

UNARY = {"client_s": 100e-6, "server_s": 200e-6}


@pytest.mark.parametrize(
    ("generators", "servers", "cores", "per_s", "binds"),
    [
        # one server at 200 us: 5,000; one generator at 100 us: 10,000; 2 cores / 300 us: 6,667
        (2, 1, 2, 5_000, "servers"),
        (1, 2, 2, 2 / 300e-6, "cores"),
        (1, 2, 4, 10_000, "generators"),
        (2, 3, 16, 15_000, "servers"),
        (8, 16, math.inf, 80_000, "generators"),
    ],
)
def test_the_narrowest_of_three_binds(generators, servers, cores, per_s, binds):
    predicted = scaling.throughput(generators=generators, servers=servers, cores=cores, **UNARY)

    assert predicted.value == pytest.approx(per_s)
    assert ("operations/s", binds) == (predicted.unit, predicted.binds)


@pytest.mark.parametrize(
    ("share", "per_s", "binds"),
    [(0.25, 20_000, "servers"), (0.5, 10_000, "busiest server"), (1, 5_000, "busiest server")],
)
def test_the_busiest_server_binds_where_keys_are_not_spread_evenly(share, per_s, binds):
    predicted = scaling.throughput(
        generators=100, servers=4, cores=100, busiest_share=share, **UNARY
    )

    assert (pytest.approx(per_s), binds) == (predicted.value, predicted.binds)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cores": 9}, "1 server, 200 µs an operation: s / D'_server"),
        ({"cores": 9, "servers": 9}, "1 generator, 100 µs an operation: p / D'_client"),
        ({"cores": 1, "servers": 9}, "1 core for 100 µs + 200 µs an operation: cores / "),
        (
            {"cores": 9, "servers": 2, "generators": 9, "busiest_share": 0.75},
            "the busiest of 2 servers gets 0.75 of the operations, 200 µs each: 1 / (q D'_server)",
        ),
    ],
)
def test_a_prediction_says_its_arithmetic(given, says):
    assert scaling.throughput(
        **{"generators": 1, "servers": 1, **given}, **UNARY
    ).reason.startswith(says)


@pytest.mark.parametrize(
    ("cores", "serial", "processes", "per_s"),
    [
        # 100 us and 200 us: 2 cores do 6,667/s, 64 cores 213,333/s
        (2, {}, (1, 2), 6_666.7),
        (3, {}, (1, 2), 10_000),
        (6, {}, (2, 4), 20_000),
        (64, {}, (22, 43), 213_333),
        (64, {"client_serial_s": 50e-6, "server_serial_s": 150e-6}, (11, 32), 213_333),
    ],
)
def test_the_fewest_processes_that_fill_a_machine(cores, serial, processes, per_s):
    (found,) = scaling.by_cores([cores], **UNARY, **serial)
    p, s = processes
    fewer = scaling.throughput(generators=p - 1 or 1, servers=s - 1, cores=cores, **UNARY, **serial)

    assert (cores, p, s) == found[:3]
    assert found.predicted.value == pytest.approx(per_s, rel=1e-4)
    assert fewer.value < found.predicted.value


# ---- key skew -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p_max", "keys", "exponent"),
    [
        (6 / 11, 3, 1.0),  # 1 / (1 + 1/2 + 1/3)
        (0.8, 2, 2.0),  # 1 / (1 + 1/4)
        (1 / 8, 8, 0.0),  # all alike
        (6 / math.pi**2, 1_000_000, 2.0),  # Basel, to a millionth
    ],
)
def test_the_hottest_key_gets_its_share_and_all_add_up(p_max, keys, exponent):
    assert p_max == pytest.approx(scaling.hottest_share(keys, exponent), rel=2e-6)
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


def test_one_server_is_the_global_lock_of_the_general_simulation():
    service = simulate.Service(read_delay_s=0.020, read_share=1.0)
    general = simulate.closed_loop(9, service, calls=500)
    played = scaling.closed_loop(9, [1.0], 0.020, rounds=500)

    assert general.throughput_per_s == pytest.approx(played.throughput_per_s)


def test_callers_pile_up_at_the_hot_server():
    """At the start calls are spread evenly; at the end almost all wait for the hot server."""
    played = scaling.closed_loop(400, scaling.uneven(40, 0.5), 0.010, rounds=2_000, warm_up=200)
    at_s, rates = played.rates(40)

    assert list(at_s) == sorted(at_s)
    assert rates[20:].mean() == pytest.approx(200, rel=0.1)  # 1 / (0.5 * 10 ms)
    assert rates[0] > 1.2 * rates[20:].mean()
