"""bounds.py: laws and the mix against numbers worked out by hand."""

from collections import Counter

import pytest

from kvstore.client.workload import Operations, crud
from kvstore.model import bounds
from kvstore.model.bounds import expected_mix

KINDS = ("create", "retrieve", "update", "delete")


def test_littles_law():
    """25 calls per second with a residence time of 4 s: 100 in flight."""
    assert 100.0 == bounds.in_flight(25.0, 4.0)


def test_the_service_time_of_a_mix_is_the_mean_of_its_delays(subtests):
    for service_s, mix in [
        (0.040, dict.fromkeys(KINDS, 0.25)),  # the mix that source 1 assumed
        (0.040, dict.fromkeys(KINDS, 137)),  # counts do as well as shares
        (0.010, {"retrieve": 1}),
        (0.050, {"create": 2, "delete": 1}),
        (0.042, {"retrieve": 0.2, "create": 0.3, "update": 0.3, "delete": 0.2}),
        (0.030, {"retrieve": 5, "update": 5}),
    ]:
        with subtests.test(service_s=service_s, mix=mix):
            found = bounds.service_time_s(mix, read_delay_s=0.010, write_delay_s=0.050)

            assert service_s == pytest.approx(found, rel=1e-12)


def test_a_mix_that_names_no_work_is_refused(subtests):
    for named, mix in [
        ("must have a share above 0, got {}", {}),
        ("must have a share above 0, got", {"create": 0}),
        (r"got \['batch'\]", {"batch": 1}),
        (r"got \['create', 'read'\]", {"read": 1, "create": 1}),
    ]:
        with subtests.test(named=named, mix=mix), pytest.raises(ValueError, match=named):
            bounds.service_time_s(mix, read_delay_s=0.010, write_delay_s=0.050)


def test_the_first_call_can_only_create():
    assert expected_mix(1) == {"create": 1, "retrieve": 0, "update": 0, "delete": 0}


def test_the_second_call_is_drawn_freely_and_the_third_after_a_delete_is_not():
    assert pytest.approx((1 + 1 / 4) / 2) == expected_mix(2)["create"]
    # One key is known before the second call; with 1/4 it is deleted, and the third must create.
    third = 1 / 4 * 1 + 3 / 4 * 1 / 4
    assert pytest.approx((1 + 1 / 4 + third) / 3) == expected_mix(3)["create"]


def test_shares_add_up_to_one_and_creates_have_the_most(subtests):
    for calls in [1, 7, 100]:
        with subtests.test(calls=calls):
            mix = expected_mix(calls)

            assert pytest.approx(1.0) == sum(mix.values())
            assert mix["retrieve"] == mix["update"] == mix["delete"] < mix["create"]


def test_the_longer_the_nearer_to_a_quarter_each():
    creates = [expected_mix(calls)["create"] for calls in (10, 100, 1_000, 4_000)]

    assert creates == sorted(creates, reverse=True)
    assert pytest.approx(0.25, abs=0.01) == creates[-1]


def test_without_deletes_only_the_first_call_is_forced():
    mix = expected_mix(10, {"create": 1, "retrieve": 1})

    assert pytest.approx((1 + 9 / 2) / 10) == mix["create"]


def test_it_is_what_the_workload_draws_on_average():
    calls, seeds = 50, 400
    drawn: Counter[str] = Counter()
    for seed in range(seeds):
        operations = Operations(crud(seed, value_bytes_mean=1))
        for _ in range(calls):
            operation = operations.draw()
            drawn[operation.name] += 1
            if operation.name == "create":
                operations.created(operation.key)

    for kind, share in expected_mix(calls).items():
        assert pytest.approx(share, abs=0.01) == drawn[kind] / (calls * seeds)


def test_less_than_one_call_is_refused():
    with pytest.raises(ValueError, match="calls must be 1 or more, got 0"):
        expected_mix(0)
