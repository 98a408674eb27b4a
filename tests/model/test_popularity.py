"""popularity.py: Zipf's shares against sums worked out by hand, and what the client draws."""

import math
from collections import Counter

import pytest

from kvstore.client import workload
from kvstore.client.workload import Operations
from kvstore.model import bounds, popularity


@pytest.mark.parametrize(
    ("p_max", "keys", "exponent"),
    [
        (1.0, 1, 1.0),
        (2 / 3, 2, 1.0),  # 1 / (1 + 1/2)
        (6 / 11, 3, 1.0),  # 1 / (1 + 1/2 + 1/3)
        (12 / 25, 4, 1.0),
        (0.8, 2, 2.0),  # 1 / (1 + 1/4)
        (1 / 8, 8, 0.0),  # all alike
        (6 / math.pi**2, 1_000_000, 2.0),  # Basel, to a millionth
    ],
)
def test_the_hottest_key_gets_its_share(p_max, keys, exponent):
    assert p_max == pytest.approx(popularity.hottest_share(keys, exponent), rel=2e-6)


def test_shares_fall_from_the_hottest_and_add_up():
    assert [12 / 25, 6 / 25, 4 / 25, 3 / 25] == pytest.approx(list(popularity.shares(4, 1.0)))


def test_the_hottest_lock_sets_the_bound():
    """Half of the calls write for 50 ms, two thirds of them one of two keys: 60 a second."""
    lock = popularity.hottest_lock(2, 1.0, hold_s=0.050, locking_share=0.5)

    assert 60.0 == pytest.approx(bounds.closed_loop(1_000, [lock]).value)
    assert "lock of the hottest key" == bounds.closed_loop(1_000, [lock]).binds


@pytest.mark.parametrize(
    ("named", "keys", "exponent"),
    [
        ("keys must be 1 or more, got 0", 0, 1.0),
        ("exponent must be 0 or more and finite, got -1", 3, -1),
        ("exponent must be 0 or more and finite, got nan", 3, math.nan),
        ("exponent must be 0 or more and finite, got inf", 3, math.inf),
    ],
)
def test_shares_that_make_no_sense_are_refused(named, keys, exponent):
    with pytest.raises(ValueError, match=named):
        popularity.hottest_share(keys, exponent)


@pytest.mark.parametrize("exponent", [0.5, 0.99, 1.0, 2.0])
def test_the_client_draws_what_the_model_says(exponent):
    """Each of 20 keys within five standard deviations of its share over 20,000 draws."""
    operations = Operations(
        workload.reads(keys=20, key_choice="zipf", zipf_exponent=exponent, sizes="fixed")
    )
    preloaded = [operation.key for operation in operations.preloads()]
    for key in preloaded:
        operations.created(key)
    counts = Counter(operations.draw().key for _ in range(20_000))

    for key, share in zip(preloaded, popularity.shares(20, exponent), strict=True):
        deviation = math.sqrt(20_000 * share * (1 - share))
        assert counts[key] == pytest.approx(20_000 * share, abs=5 * deviation)
