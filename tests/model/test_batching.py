"""batching.py: several operations in a message, several writes in an fsync, by hand."""

import math

import pytest

from kvstore.model import batching

COST = {"per_message_s": 100e-6, "per_operation_s": 1e-6}


@pytest.mark.parametrize(
    ("size", "per_s", "binds"),
    [
        (1, 1 / 101e-6, "message"),
        (900, 900_000, "operations"),
    ],
)
def test_the_cost_of_a_message_is_shared(size, per_s, binds):
    predicted = batching.throughput(size, **COST)

    assert per_s == pytest.approx(predicted.value)
    assert ("operations/s", binds) == (predicted.unit, predicted.binds)
    assert f"{size} operations share 100 µs and take 1 µs each" in predicted.reason


@pytest.mark.parametrize("sizes", [(1, 512), (1, 8, 32, 128, 512)])
def test_both_costs_are_found_again_from_messages_of_several_sizes(sizes):
    taken_s = {size: 100e-6 + 1e-6 * size for size in sizes}

    assert (100e-6, 1e-6) == pytest.approx(batching.fit(taken_s))


@pytest.mark.parametrize(
    ("share", "size"),
    [
        (0.5, 100),
        (0.9, 900),
    ],
)
def test_beyond_some_size_more_is_waste(share, size):
    assert size == pytest.approx(batching.enough(**COST, share=share))
    assert math.inf == batching.enough(per_message_s=1e-4, per_operation_s=0, share=share)


@pytest.mark.parametrize(
    ("model", "in_flight", "per_s", "binds"),
    [
        (batching.one_by_one, 1, 80.0, "calls in flight"),  # 10 ms of log, 2.5 ms of way
        (batching.one_by_one, 2, 100.0, "log"),
        (batching.one_by_one, 64, 100.0, "log"),
        (batching.in_groups, 1, 80.0, "calls in flight"),  # no other group to wait for
        (batching.in_groups, 2, 100.0, "log"),  # two groups of one: no more than one by one
        (batching.in_groups, 32, 32 / (2 * 0.010), "log"),
    ],
)
def test_a_log_that_writes_one_by_one_or_in_groups(model, in_flight, per_s, binds):
    found = model(in_flight, fsync_s=0.010, way_s=0.0025)

    assert (pytest.approx(per_s), binds) == (found.value, found.binds)
