"""ramp_up.py against numbers worked out by hand."""

import math

import pytest

from kvstore.model import Station, bounds, simulate

WAIT_S = 0.1
LOOP = [Station("back end", WAIT_S, math.inf)]
POOL = [Station("pool", WAIT_S, 2)]
JOINS = [0.0, 1.0, 2.0, 3.0]


def test_users_are_there_from_their_time_on(subtests):
    for at_s, users in [(-0.1, 0), (0, 1), (0.9, 1), (1.0, 2), (9, 4)]:
        with subtests.test(at_s=at_s, users=users):
            assert users == bounds.users(JOINS, at_s)


def test_each_moment_has_the_bound_of_a_little_before(subtests):
    for stations, at_s, per_s, took_s in [
        (LOOP, 0.04, 0.0, 0.0),  # the first call is still on its way
        (LOOP, 0.15, 10.0, 0.1),
        (LOOP, 1.07, 20.0, 0.1),
        (LOOP, 9.0, 40.0, 0.1),
        (POOL, 1.2, 20.0, 0.1),
        (POOL, 2.2, 20.0, 0.15),  # three users, two threads: 3 / 20
        (POOL, 9.0, 20.0, 0.2),
    ]:
        with subtests.test(stations=stations, at_s=at_s, per_s=per_s, took_s=took_s):
            assert math.isclose(per_s, bounds.throughput_per_s(JOINS, stations, at_s))
            assert math.isclose(took_s, bounds.residence_s(JOINS, stations, at_s))


def test_thinking_makes_a_round_longer_and_a_call_not():
    assert bounds.throughput_per_s(JOINS, LOOP, 0.09, think_s=0.1) == 0.0
    assert math.isclose(20.0, bounds.throughput_per_s(JOINS, LOOP, 9.0, think_s=0.1))
    assert math.isclose(0.1, bounds.residence_s(JOINS, LOOP, 9.0, think_s=0.1))


def test_a_pool_has_a_thread_for_each_user_up_to_its_limit():
    assert [10, 11, 11, 11] == [bounds.threads(JOINS, 2, at, own=9) for at in (0, 1, 2, 9)]
    assert [9, 9] == [bounds.threads(JOINS, 0, at, own=9) for at in (0, 9)]


def test_the_calls_of_a_climb_are_the_area_under_its_throughput():
    """10/s, 20/s and 30/s for a second each, from 0.05 s on, then 40/s for 0.95 s."""
    loop = bounds.calls(JOINS, LOOP, 4.0)
    pool = bounds.calls(JOINS, POOL, 4.0)

    assert math.isclose(10 + 20 + 30 + 38, loop.value)
    assert math.isclose(10 + 20 + 20 + 19, pool.value)
    assert ("calls", "calls in flight") == (loop.unit, loop.binds)
    assert "pool" == pool.binds


def test_a_climb_that_is_over_at_once_is_a_closed_loop():
    calls = bounds.calls([0.0] * 4, LOOP, 10.0 + WAIT_S / 2)

    assert math.isclose(10.0 * bounds.closed_loop(4, LOOP).value, calls.value)


def test_half_a_round_is_what_users_in_steps_are_behind(subtests):
    """Counted one by one: a user who joined at j has answered floor((t - j) / R) calls by t."""
    for round_s in [0.1, 0.37, 0.9]:
        with subtests.test(round_s=round_s):
            joins = [number * 0.01 for number in range(500)]
            counted = sum(math.floor((7.0 - join_s) / round_s) for join_s in joins)

            predicted = bounds.calls(joins, [Station("wait", round_s, math.inf)], 7.0).value
            assert math.isclose(counted, predicted, rel_tol=0.01)


def test_no_user_is_refused():
    with pytest.raises(ValueError, match="joins_s must have one time or more"):
        bounds.calls([], LOOP, 1.0)


def test_a_simulation_that_plays_each_call_says_the_same(subtests):
    """Written apart from the formulas: callers, a queue, a clock."""
    for threads in [8, math.inf]:
        with subtests.test(threads=threads):
            joins = [number * 0.02 for number in range(20)]
            service = simulate.Service(
                read_delay_s=WAIT_S, read_share=1.0, locking="per_key", threads=threads
            )
            played = simulate.joined(joins, service, 4.0)
            stations = [Station("wait", WAIT_S, threads)]
            late = [call.done_s - call.sent_s for call in played if 2.0 < call.done_s < 4.0]

            answered = sum(call.done_s <= 4.0 for call in played)
            assert math.isclose(answered, bounds.calls(joins, stations, 4.0).value, rel_tol=0.02)
            took_s = bounds.residence_s(joins, stations, 4.0)
            assert math.isclose(sum(late) / len(late), took_s, rel_tol=0.02)
