"""batching.py: numbers worked out by hand."""

import math

import pytest

from kvstore.model import batching

COST = {"per_message_s": 100e-6, "per_operation_s": 1e-6}
DISK = {"read_delay_s": 0.010, "write_delay_s": 0.050}
QUARTERS = {"create": 1, "retrieve": 1, "update": 1, "delete": 1}


def test_the_cost_of_a_message_is_shared(subtests):
    for size, per_s, binds in [
        (1, 1 / 101e-6, "message"),
        (101, 101 / 201e-6, "operations"),
        (99, 99 / 199e-6, "message"),
        (900, 900_000, "operations"),
    ]:
        with subtests.test(size=size, per_s=per_s, binds=binds):
            predicted = batching.throughput(size, **COST)

            assert per_s == pytest.approx(predicted.value)
            assert ("operations/s", binds) == (predicted.unit, predicted.binds)


def test_a_prediction_says_its_arithmetic():
    assert (
        "400 operations share 100 µs and take 1 µs each: X = k / (a + b k)"
    ) == batching.throughput(400, **COST).reason


def test_both_costs_are_found_again_from_messages_of_two_sizes(subtests):
    for sizes in [(1, 512), (8, 32), (1, 8, 32, 128, 512)]:
        with subtests.test(sizes=sizes):
            taken_s = {size: 100e-6 + 1e-6 * size for size in sizes}

            assert (100e-6, 1e-6) == pytest.approx(batching.fit(taken_s))


def test_a_small_message_counts_as_much_as_a_large_one():
    """10 % too slow at both ends moves both costs by 10 %; absolute errors would forget a."""
    a, b = batching.fit({1: 110e-6, 2: 110e-6, 100_000: 0.11, 200_000: 0.22})

    assert a == pytest.approx(109e-6, rel=0.02)
    assert b == pytest.approx(1.1e-6, rel=0.01)


def test_beyond_some_size_more_is_waste(subtests):
    for share, size in [(0.5, 100), (0.9, 900), (0.99, 9_900), (0.001, 1)]:
        with subtests.test(share=share, size=size):
            assert size == pytest.approx(batching.enough(**COST, share=share))
            if size > 1:
                reached = batching.throughput(size, **COST).value
                assert reached == pytest.approx(share / COST["per_operation_s"])


def test_where_an_operation_costs_nothing_more_is_never_waste():
    assert math.inf == batching.enough(per_message_s=1e-4, per_operation_s=0)


def test_what_a_batch_spends_on_the_disk(subtests):
    for size, mix, each_s, group_s in [
        (1, QUARTERS, 0.040, 0.040),
        (8, {"retrieve": 1}, 0.080, 0.010),
        (8, {"update": 3}, 0.400, 0.050),
        # 2 of a half each: all reads with a chance of a quarter, 0.25 * 10 + 0.75 * 50 ms
        (2, {"retrieve": 1, "update": 1}, 0.060, 0.040),
    ]:
        with subtests.test(size=size, mix=mix, each_s=each_s, group_s=group_s):
            assert each_s == pytest.approx(batching.disk_s(size, mix, **DISK, group_commit=False))
            assert group_s == pytest.approx(batching.disk_s(size, mix, **DISK, group_commit=True))


def test_what_makes_no_sense_is_refused(subtests):
    for says, wrong in [
        ("size must be 1 or more", lambda: batching.throughput(0, **COST)),
        (
            "per_message_s must be 0 or more seconds, got -1",
            lambda: batching.throughput(1, per_message_s=-1, per_operation_s=1),
        ),
        (
            "per_operation_s must be 0 or more seconds, got nan",
            lambda: batching.enough(per_message_s=1, per_operation_s=math.nan),
        ),
        (
            "must be above 0 seconds, got 0 for both",
            lambda: batching.throughput(1, per_message_s=0, per_operation_s=0),
        ),
        ("must have two sizes or more", lambda: batching.fit({8: 1.0})),
        ("must be above 0 s", lambda: batching.fit({8: 1.0, 16: 0.0})),
        ("share must be between 0 and 1, got 1", lambda: batching.enough(**COST, share=1)),
        ("size must be 1", lambda: batching.disk_s(0, QUARTERS, **DISK, group_commit=True)),
    ]:
        with subtests.test(says=says, wrong=wrong), pytest.raises(ValueError, match=says):
            wrong()
