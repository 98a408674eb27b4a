"""overload.py: bursts and retries worked out by hand."""

import heapq
import math
import random
from collections.abc import Callable

import pytest

from kvstore.model import Station, overload

PARTS = [Station("client", 0.0002), Station("server", 0.00025)]


def test_a_burst_drains_at_the_rate_of_the_slowest_station():
    """10,000 calls of 0.25 ms at the server: 2.5 s."""
    drained = overload.drain_burst(10_000, PARTS)

    assert (pytest.approx(2.5), "s", "server") == (drained.value, drained.unit, drained.binds)
    assert "10,000 calls, and the server serves 4,000 per second: N / X" == drained.reason


def test_the_last_call_waits_for_what_is_not_answered_when_it_is_sent():
    """Sent within 2 s, answered within 2.5 s."""
    assert pytest.approx(0.5) == overload.last_wait_of_burst(10_000, PARTS, sent_per_s=5_000).value


def test_without_a_queue_the_last_call_takes_the_sum_of_all_demands():
    assert (
        pytest.approx(0.00045) == overload.last_wait_of_burst(10_000, PARTS, sent_per_s=3_000).value
    )


def test_shedding_leaves_the_places_and_what_is_answered_meanwhile(subtests):
    for left, calls, limit, served, sent in [
        (2_500, 10_000, 500, 1_000, 5_000),  # 2 s of sending
        (10_000, 10_000, 500, 6_000, 5_000),
        (100, 100, 500, 1_000, 5_000),
    ]:
        with subtests.test(left=left, calls=calls, limit=limit, served=served, sent=sent):
            found = overload.left_by_shedding(calls, limit, served_per_s=served, sent_per_s=sent)

            assert (pytest.approx(left), "calls") == (found.value, found.unit)


def test_what_makes_no_sense_is_refused(subtests):
    for named, wrong in [
        ("calls must be 1 or more, got 0", lambda: overload.drain_burst(0, PARTS)),
        (
            "every station has a demand of 0 s",
            lambda: overload.drain_burst(1, [Station("disk", 0.0, math.inf)]),
        ),
        ("every station has a demand of 0 s", lambda: overload.drain_burst(1, [])),
        ("sent_per_s must be above 0", lambda: overload.last_wait_of_burst(1, PARTS, sent_per_s=0)),
        (
            "limit must be above 0, got 0",
            lambda: overload.left_by_shedding(1, 0, served_per_s=1, sent_per_s=1),
        ),
    ]:
        with subtests.test(named=named, wrong=wrong), pytest.raises(ValueError, match=named):
            wrong()


def test_memory_is_what_is_at_rest_in_flight_and_recorded():
    """100 MB, 10,000 calls of 25,000 B, 1,000,000 records of 56 B."""
    held = overload.held(10_000, base_bytes=100e6, bytes_per_call=25_000, recorded=1_000_000)

    assert (pytest.approx(406.0), "MB", "memory") == (held.value, held.unit, held.binds)
    assert (
        "100 MB without calls, 10,000 in flight of 25 kB, 1,000,000 records of 56 B" == held.reason
    )


def test_in_lockstep_by_hand(subtests):
    for attempts, operations, limit in [
        (1, 1, 1),
        (4, 4, 4),
        (6, 3, 1),
        (5 + 3 + 1, 5, 2),
        (220, 40, 4),
        (820, 40, 1),
    ]:
        with subtests.test(attempts=attempts, operations=operations, limit=limit):
            assert attempts == overload.retries_in_lockstep(operations, limit).value


def test_no_crowd_is_refused(subtests):
    for wrong in [(0, 1), (1, 0)]:
        with subtests.test(wrong=wrong), pytest.raises(ValueError, match="must be 1 or more"):
            overload.retries_in_lockstep(*wrong)


def attempts_of(operations: int, limit: int, wait_s: Callable[[int], float]) -> int:
    """Attempts of a simulated crowd; the server takes 20 ms for each of `limit` calls at once.

    `wait_s` gives the pause before the next attempt from the number of failures so far.
    """
    work_s, attempts, free_at_s = 0.02, 0, [0.0] * limit
    waiting = [(0.0, number, 0) for number in range(operations)]  # time, operation, failures so far
    while waiting:
        now_s, number, failures = heapq.heappop(waiting)
        attempts += 1
        place = next((at for at, free_s in enumerate(free_at_s) if free_s <= now_s), None)
        if place is None:
            heapq.heappush(waiting, (now_s + wait_s(failures + 1), number, failures + 1))
        else:
            free_at_s[place] = now_s + work_s
    return attempts


def test_equal_pauses_longer_than_the_work_stay_in_lockstep(subtests):
    for operations, limit in [(1, 1), (7, 2), (40, 4)]:
        with subtests.test(operations=operations, limit=limit):
            attempts = attempts_of(operations, limit, lambda failures: 0.03)

            assert overload.retries_in_lockstep(operations, limit).value == attempts


def test_pauses_with_jitter_need_fewer_attempts():
    rng = random.Random(8)
    attempts = attempts_of(40, 4, lambda n: rng.uniform(0, min(0.1, 0.025 * 2 ** (n - 1))))

    assert attempts < 0.9 * overload.retries_in_lockstep(40, 4).value


@pytest.mark.parametrize(("rate", "attempts", "failing"), [(70, 4, 100), (24, 4, 0), (70, 1, 0)])
def test_a_storm_lasts_if_its_attempts_exceed_the_capacity(rate, attempts, failing):
    pool = Station("pool", 0.04, 4)

    assert failing == overload.failing_in_storm(rate, attempts, pool).value
    with pytest.raises(ValueError, match="attempts 1 or more"):
        overload.failing_in_storm(rate, 0, pool)
