"""tail_latency.py: numbers worked out by hand, and calls at a constant rate."""

import pytest

from kvstore.model import Prediction, tail_latency

STALL = {"stall_s": 0.2, "every_s": 0.5, "service_s": 0.01}


def test_by_hand(subtests):
    for share, seconds in [(1.0, 0.21), (0.9, 0.16), (0.75, 0.085), (0.6, 0.01), (0.0, 0.01)]:
        with subtests.test(share=share, seconds=seconds):
            assert seconds == pytest.approx(tail_latency.latency(share, **STALL).value)


def test_as_many_wait_no_longer_as_it_says(subtests):
    for share in [0.5, 0.7, 0.9, 0.99]:
        with subtests.test(share=share):
            took_s = [
                max(0.0, 0.2 - n / 2_000) + 0.01 for n in range(1_000)
            ]  # one every half millisecond
            within = sum(
                took <= tail_latency.latency(share, **STALL).value + 1e-9 for took in took_s
            )

            assert within / 1_000 == pytest.approx(max(share, 0.6), abs=0.002)


def test_no_stall_is_no_wait():
    assert 0.01 == tail_latency.latency(0.99, stall_s=0, every_s=1, service_s=0.01).value


def test_what_makes_no_sense_is_refused(subtests):
    for named, wrong in [
        ("share must be", {"share": 1.1}),
        ("stall_s must be", {"share": 0.5, "stall_s": 0.5}),
    ]:
        with subtests.test(named=named, wrong=wrong), pytest.raises(ValueError, match=named):
            tail_latency.latency(**{**STALL, **wrong})


def test_a_request_takes_as_long_as_its_slowest_reply(subtests):
    """The third is the example of "The Tail at Scale": 1 % of replies are slow, 100 servers."""
    for servers, slow_share, share in [
        (1, 0.01, 0.01),
        (2, 0.5, 0.75),
        (100, 0.01, 0.634),
        (8, 0.0, 0.0),
        (3, 1.0, 1.0),
    ]:
        with subtests.test(servers=servers, slow_share=slow_share, share=share):
            assert share == pytest.approx(
                tail_latency.slow_of_all(servers, slow_share).value, abs=1e-3
            )


def test_no_such_share_of_slow_answers(subtests):
    for servers, slow_share in [(0, 0.1), (2, 1.1), (2, -0.1)]:
        with (
            subtests.test(servers=servers, slow_share=slow_share),
            pytest.raises(ValueError, match="must be"),
        ):
            tail_latency.slow_of_all(servers, slow_share)


def test_the_share_of_slow_calls_is_the_inverse_of_their_latency():
    stalls = {"stall_s": 0.2, "every_s": 0.5, "service_s": 0.005}
    p90_s = tail_latency.latency(0.9, **stalls).value

    assert pytest.approx(0.1) == tail_latency.slow_share(p90_s, **stalls).value
    assert 1.0 == tail_latency.slow_share(0.001, **stalls).value
    assert 0.0 == tail_latency.slow_share(0.3, **stalls).value


def test_a_hedged_read_is_slow_if_both_replies_are():
    first, second = (Prediction(share, "of the requests", "") for share in (0.1, 0.2))
    hedged = tail_latency.slow_in_spite_of_hedging(first, second, after_s=0.05)

    assert pytest.approx(0.02) == hedged.value
    assert pytest.approx(1.4) == tail_latency.utilisation_with_hedging(0.7, 1.0).value
    with pytest.raises(ValueError, match="hedged_share"):
        tail_latency.utilisation_with_hedging(0.7, 2.0)
