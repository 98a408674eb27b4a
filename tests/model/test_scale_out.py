"""scale_out.py: by hand, against the bounds, exact MVA, and the general simulation."""

import math

import pytest

from kvstore.model import bounds, mva, popularity, scale_out, simulate
from kvstore.shards import shard_of


@pytest.mark.parametrize(
    ("per_s", "in_flight", "shares"),
    [
        (50.0, 1, [1.0]),
        (50.0, 20, [1.0]),
        (50.0, 1, [0.25] * 4),  # one caller keeps one server busy, whichever it is
        (62.5, 400, [0.8, 0.2]),  # the busiest: 1 / (0.8 * 20 ms)
        (50.0, 7, [1.0, 0.0, 0.0]),  # all keys on one server
    ],
)
def test_throughput_by_hand(per_s, in_flight, shares):
    played = scale_out.closed_loop(in_flight, shares, 0.020, calls=4_000)

    assert per_s == pytest.approx(played.throughput_per_s, rel=0.03)


def test_two_callers_meet_at_one_of_two_servers_half_of_the_time():
    """Exponential: X = (s / S) N / (N + s - 1), here 2/20 ms * 2/3."""
    played = scale_out.closed_loop(2, [0.5, 0.5], 0.020, calls=40_000, exponential=True)

    assert 100 * 2 / 3 == pytest.approx(played.throughput_per_s, rel=0.03)


@pytest.mark.parametrize("in_flight", [1, 4, 12])
@pytest.mark.parametrize("shares", [[0.25] * 4, [0.5, 0.3, 0.2]])
def test_as_mva_says_where_times_are_exponential(in_flight, shares):
    played = scale_out.closed_loop(in_flight, shares, 0.020, calls=40_000, exponential=True)
    exact = mva.closed_loop(in_flight, scale_out.stations(shares, 0.020))

    assert exact.value == pytest.approx(played.throughput_per_s, rel=0.03)


def test_one_server_is_the_global_lock_of_the_general_simulation():
    service = simulate.Service(read_delay_s=0.020, read_share=1.0)
    general = simulate.closed_loop(9, service, calls=500)
    played = scale_out.closed_loop(9, [1.0], 0.020, calls=500)

    assert general.throughput_per_s == pytest.approx(played.throughput_per_s)


@pytest.mark.parametrize("in_flight", [3, 30, 300])
def test_constant_times_lie_between_mva_and_the_bound(in_flight):
    parts = scale_out.stations([0.4, 0.2, 0.2, 0.2], 0.020)
    played = scale_out.closed_loop(in_flight, [0.4, 0.2, 0.2, 0.2], 0.020, calls=20_000)

    assert 0.97 * mva.closed_loop(in_flight, parts).value < played.throughput_per_s
    assert played.throughput_per_s < 1.03 * bounds.closed_loop(in_flight, parts).value


def test_the_bound_is_that_of_the_busiest_server():
    parts = scale_out.stations(scale_out.uneven(100, 0.1), 0.020)

    assert 500.0 == pytest.approx(bounds.closed_loop(10_000, parts).value)  # 1 / (0.1 * 20 ms)
    assert "server 0" == bounds.closed_loop(10_000, parts).binds


def test_keys_by_hash_are_where_the_client_looks_for_them():
    """Two keys, 2/3 and 1/3 of the calls: on the servers that `shard_of` names."""
    found = scale_out.by_hash(2, 1.0, 4)
    expected = [0.0] * 4
    for number, share in enumerate((2 / 3, 1 / 3)):
        expected[shard_of(b"key %d" % number, 4)] += share

    assert expected == pytest.approx(found)


def test_no_number_of_servers_takes_a_hot_key_apart():
    for servers in (1, 10, 100, 1_000):
        found = scale_out.by_hash(10_000, 0.99, servers)
        assert 1.0 == pytest.approx(sum(found))
        assert max(found) >= popularity.hottest_share(10_000, 0.99)


def test_callers_pile_up_at_the_hot_server():
    """At first nobody waits for it more than for others; in the end nearly all do."""
    played = scale_out.closed_loop(
        400, scale_out.uneven(40, 0.5), 0.010, calls=6_000, warm_up=3_000
    )
    at_s, rates = played.rates(10)

    assert list(at_s) == sorted(at_s)
    assert rates[-1] == pytest.approx(200, rel=0.1)  # 1 / (0.5 * 10 ms)
    assert rates[0] > 1.2 * rates[-1]
    assert "server 0" == played.prediction.binds
    assert played.throughput_per_s == played.prediction.value


def test_the_same_seed_plays_the_same():
    first, again, other = (
        scale_out.closed_loop(5, [0.5, 0.5], 0.01, calls=200, seed=seed).answered_s
        for seed in (1, 1, 2)
    )
    assert list(first) == list(again) != list(other)


@pytest.mark.parametrize(
    ("says", "call"),
    [
        ("in_flight must be", lambda: scale_out.closed_loop(0, [1.0], 0.01)),
        ("calls must be", lambda: scale_out.closed_loop(1, [1.0], 0.01, calls=0)),
        ("service_s must be", lambda: scale_out.closed_loop(1, [1.0], 0)),
        ("service_s must be", lambda: scale_out.closed_loop(1, [1.0], math.inf)),
        ("sum to 1", lambda: scale_out.closed_loop(1, [0.5, 0.4], 0.01)),
        ("sum to 1", lambda: scale_out.closed_loop(1, [], 0.01)),
        ("busiest_share must be", lambda: scale_out.uneven(4, 0.2)),
        ("busiest_share must be", lambda: scale_out.uneven(1, 0.5)),
        ("servers must be", lambda: scale_out.even(0)),
        ("servers must be", lambda: scale_out.by_hash(5, 1.0, 0)),
    ],
)
def test_what_makes_no_sense_is_named(says, call):
    with pytest.raises(ValueError, match=says):
        call()
