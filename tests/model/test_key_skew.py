"""scaling.py: hottest keys and shares of servers, worked out by hand and simulated."""

import heapq
import math
import random
from collections import Counter

import pytest

from kvstore.client import workload
from kvstore.client.workload import Operations
from kvstore.model import bounds, scaling, simulate
from kvstore.protocol import shard_of


def test_the_hottest_key_gets_its_share(subtests):
    for p_max, keys, exponent in [
        (1.0, 1, 1.0),
        (2 / 3, 2, 1.0),  # 1 / (1 + 1/2)
        (6 / 11, 3, 1.0),  # 1 / (1 + 1/2 + 1/3)
        (12 / 25, 4, 1.0),
        (0.8, 2, 2.0),  # 1 / (1 + 1/4)
        (1 / 8, 8, 0.0),  # all alike
        (6 / math.pi**2, 1_000_000, 2.0),  # Basel, to a millionth
    ]:
        with subtests.test(p_max=p_max, keys=keys, exponent=exponent):
            assert p_max == pytest.approx(scaling.hottest_share(keys, exponent), rel=2e-6)


def test_shares_fall_from_the_hottest_and_add_up():
    assert [12 / 25, 6 / 25, 4 / 25, 3 / 25] == pytest.approx(list(scaling.shares(4, 1.0)))


def test_the_hottest_lock_sets_the_bound():
    """Half of the calls write for 50 ms, two thirds of them one of two keys: 60 a second."""
    lock = scaling.hottest_lock(2, 1.0, hold_s=0.050, locking_share=0.5)

    assert 60.0 == pytest.approx(bounds.closed_loop(1_000, [lock]).value)
    assert "lock of the hottest key" == bounds.closed_loop(1_000, [lock]).binds


def test_shares_that_make_no_sense_are_refused(subtests):
    for named, keys, exponent in [
        ("keys must be 1 or more, got 0", 0, 1.0),
        ("exponent must be 0 or more and finite, got -1", 3, -1),
        ("exponent must be 0 or more and finite, got nan", 3, math.nan),
        ("exponent must be 0 or more and finite, got inf", 3, math.inf),
    ]:
        with (
            subtests.test(named=named, keys=keys, exponent=exponent),
            pytest.raises(ValueError, match=named),
        ):
            scaling.hottest_share(keys, exponent)


def test_the_client_draws_what_the_model_says(subtests):
    """Each of 20 keys within five standard deviations of its share over 20,000 draws."""
    for exponent in [0.5, 0.99, 1.0, 2.0]:
        with subtests.test(exponent=exponent):
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


def test_throughput_by_hand(subtests):
    for per_s, in_flight, shares in [
        (50.0, 1, [1.0]),
        (50.0, 20, [1.0]),
        (50.0, 1, [0.25] * 4),  # one caller keeps one server busy, whichever it is
        (62.5, 400, [0.8, 0.2]),  # the busiest: 1 / (0.8 * 20 ms)
        (50.0, 7, [1.0, 0.0, 0.0]),  # all keys on one server
    ]:
        with subtests.test(per_s=per_s, in_flight=in_flight, shares=shares):
            played = scaling.closed_loop(in_flight, shares, 0.020, rounds=4_000)

            assert per_s == pytest.approx(played.throughput_per_s, rel=0.03)


def test_two_callers_meet_at_one_of_two_servers_half_of_the_time():
    """Together at one server: one call in a round. The other one then draws: half of them part."""
    played = scaling.closed_loop(2, [0.5, 0.5], 0.020, rounds=40_000)

    # Apart, both draw anew and meet with 1/2. Together, one draws anew and stays with 1/2.
    assert 1.5 / 0.020 == pytest.approx(played.throughput_per_s, rel=0.03)


def call_by_call(in_flight, shares, service_s, calls, seed=3):
    """The same closed loop, as events in order of time: return the calls per second at the end."""
    rng = random.Random(seed)
    free_s = [0.0] * len(shares)
    under_way = []
    now_s = 0.0
    answered_s = []
    while len(answered_s) < calls:
        (server,) = rng.choices(range(len(shares)), weights=shares)
        free_s[server] = max(now_s, free_s[server]) + service_s
        heapq.heappush(under_way, (free_s[server], rng.random(), server))
        if len(under_way) == in_flight:
            now_s = heapq.heappop(under_way)[0]
            answered_s.append(now_s)
    half = calls // 2
    return half / (answered_s[-1] - answered_s[-1 - half])


def test_rounds_are_the_same_as_call_by_call(subtests):
    for in_flight, shares in [(4, [0.25] * 4), (16, [0.55, 0.15, 0.15, 0.15]), (9, [0.4, 0.6])]:
        with subtests.test(in_flight=in_flight, shares=shares):
            played = scaling.closed_loop(in_flight, shares, 0.020, rounds=20_000)
            expected = call_by_call(in_flight, shares, 0.020, calls=40_000)

            assert expected == pytest.approx(played.throughput_per_s, rel=0.02)


def test_one_server_is_the_global_lock_of_the_general_simulation():
    service = simulate.Service(read_delay_s=0.020, read_share=1.0)
    general = simulate.closed_loop(9, service, calls=500)
    played = scaling.closed_loop(9, [1.0], 0.020, rounds=500)

    assert general.throughput_per_s == pytest.approx(played.throughput_per_s)


def test_constant_times_lie_between_mva_and_the_bound(subtests):
    for in_flight in [3, 30, 300]:
        with subtests.test(in_flight=in_flight):
            parts = scaling.stations([0.4, 0.2, 0.2, 0.2], 0.020)
            played = scaling.closed_loop(in_flight, [0.4, 0.2, 0.2, 0.2], 0.020, rounds=9_000)

            assert 0.97 * bounds.exact_closed_loop(in_flight, parts).value < played.throughput_per_s
            assert played.throughput_per_s < 1.03 * bounds.closed_loop(in_flight, parts).value


def test_the_bound_is_that_of_the_busiest_server():
    parts = scaling.stations(scaling.uneven(100, 0.1), 0.020)

    assert 500.0 == pytest.approx(bounds.closed_loop(10_000, parts).value)  # 1 / (0.1 * 20 ms)
    assert "server 0" == bounds.closed_loop(10_000, parts).binds


def test_keys_by_hash_are_where_the_client_looks_for_them():
    """Two keys, 2/3 and 1/3 of the calls: on the servers that `shard_of` names."""
    found = scaling.by_hash(2, 1.0, 4)
    expected = [0.0] * 4
    for number, share in enumerate((2 / 3, 1 / 3)):
        expected[shard_of(b"key %d" % number, 4)] += share

    assert expected == pytest.approx(found)


def test_the_busiest_server_has_the_hot_key_and_its_part_of_all_others(subtests):
    """q + (1 - q) / s and not q: with a hot key of 5 %, 20 servers give 10.3 times the rate."""
    for servers, times in [(1, 1.0), (20, 10.26), (100, 16.81), (10**9, 20.0)]:
        with subtests.test(servers=servers):
            assert times == pytest.approx(1 / scaling.busiest_share(servers, 0.05), rel=1e-3)
    assert 0.25 == scaling.busiest_share(4, 0.0)
    assert 1.0 == scaling.busiest_share(4, 1.0)


def test_the_busiest_share_is_that_of_keys_spread_by_a_hash(subtests):
    """Many keys after the hottest one: what the server gets besides it is nearly 1 / s."""
    q = scaling.hottest_share(100_000, 0.99)
    for servers in (2, 5, 20):
        with subtests.test(servers=servers):
            found = max(scaling.by_hash(100_000, 0.99, servers))

            assert scaling.busiest_share(servers, q) == pytest.approx(found, rel=0.25)


def test_no_number_of_servers_takes_a_hot_key_apart():
    for servers in (1, 10, 100, 1_000):
        found = scaling.by_hash(10_000, 0.99, servers)
        assert 1.0 == pytest.approx(sum(found))
        assert max(found) >= scaling.hottest_share(10_000, 0.99)


def test_callers_pile_up_at_the_hot_server():
    """At the start calls are spread evenly; at the end almost all wait for the hot server."""
    played = scaling.closed_loop(400, scaling.uneven(40, 0.5), 0.010, rounds=2_000, warm_up=200)
    at_s, rates = played.rates(40)

    assert list(at_s) == sorted(at_s)
    assert rates[20:].mean() == pytest.approx(200, rel=0.1)  # 1 / (0.5 * 10 ms)
    assert rates[0] > 1.2 * rates[20:].mean()
    assert "server 0" == played.prediction.binds
    assert played.throughput_per_s == played.prediction.value


def test_the_same_seed_plays_the_same():
    first, again, other = (
        scaling.closed_loop(5, [0.5, 0.5], 0.01, rounds=200, seed=seed).answered
        for seed in (1, 1, 2)
    )
    assert list(first) == list(again) != list(other)


def test_what_makes_no_sense_is_named(subtests):
    for says, call in [
        ("in_flight must be", lambda: scaling.closed_loop(0, [1.0], 0.01)),
        ("rounds must be", lambda: scaling.closed_loop(1, [1.0], 0.01, rounds=0)),
        ("service_s must be", lambda: scaling.closed_loop(1, [1.0], 0)),
        ("service_s must be", lambda: scaling.closed_loop(1, [1.0], math.inf)),
        ("sum to 1", lambda: scaling.closed_loop(1, [0.5, 0.4], 0.01)),
        ("sum to 1", lambda: scaling.closed_loop(1, [], 0.01)),
        ("busiest_share must be", lambda: scaling.uneven(4, 0.2)),
        ("busiest_share must be", lambda: scaling.uneven(1, 0.5)),
        ("servers must be", lambda: scaling.even(0)),
        ("servers must be", lambda: scaling.busiest_share(0, 0.5)),
        ("hottest_share must be", lambda: scaling.busiest_share(2, 1.5)),
        ("servers must be", lambda: scaling.by_hash(5, 1.0, 0)),
    ]:
        with subtests.test(says=says, call=call), pytest.raises(ValueError, match=says):
            call()
