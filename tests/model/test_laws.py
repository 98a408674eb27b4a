"""laws.py: against numbers worked out by hand."""

import pytest

from kvstore.model import laws

KINDS = ("create", "retrieve", "update", "delete")


def test_littles_law_in_both_directions():
    """25 calls each second that stay 4 s keep 100 in flight."""
    assert 100.0 == laws.in_flight(25.0, 4.0)
    assert 25.0 == laws.throughput_per_s(100.0, 4.0)


def test_a_residence_of_nothing_says_nothing_about_the_rate():
    with pytest.raises(ValueError, match="residence_s must be above 0 seconds, got 0"):
        laws.throughput_per_s(100, 0)


def test_a_station_that_serves_25_calls_of_40_ms_is_always_busy():
    assert 1.0 == laws.utilisation(25.0, 0.040)


@pytest.mark.parametrize(
    ("service_s", "mix"),
    [
        (0.040, dict.fromkeys(KINDS, 0.25)),  # the mix that source 1 assumed
        (0.040, dict.fromkeys(KINDS, 137)),  # counts do as well as shares
        (0.010, {"retrieve": 1}),
        (0.050, {"create": 2, "delete": 1}),
        (0.042, {"retrieve": 0.2, "create": 0.3, "update": 0.3, "delete": 0.2}),
        (0.030, {"retrieve": 5, "update": 5}),
    ],
)
def test_the_service_time_of_a_mix_is_the_mean_of_its_delays(service_s, mix):
    told = laws.service_time_s(mix, read_delay_s=0.010, write_delay_s=0.050)

    assert service_s == pytest.approx(told, rel=1e-12)


@pytest.mark.parametrize(
    ("named", "mix"),
    [
        ("no operation was counted", {}),
        ("no operation was counted", {"create": 0}),
        (r"got \['batch'\]", {"batch": 1}),
        (r"got \['create', 'read'\]", {"read": 1, "create": 1}),
    ],
)
def test_a_mix_that_names_no_work_is_refused(named, mix):
    with pytest.raises(ValueError, match=named):
        laws.service_time_s(mix, read_delay_s=0.010, write_delay_s=0.050)
