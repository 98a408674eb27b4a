"""simulate.py and overload.py: numbers by hand, one against the other, and no call lost."""

import itertools
import math

import pytest

from kvstore.model import Station, overload
from kvstore.model.simulate import Pool, open_loop

POOL = Station("pool", 0.020, 4)  # 200 calls/s
DEADLINE_S = 0.1


def every(gap_s):
    return itertools.count(step=gap_s)


# ---- the flows -----------------------------------------------------------------------------


def test_goodput_by_hand(subtests):
    for in_time_per_s, offered_per_s, for_s, limit in [
        (100.0, 100.0, 1.0, math.inf),
        (200.0, 200.0, 1.0, math.inf),
        # grows by 200 a second; waits of 80 ms are 16 calls, so 0.08 s: 32 of 400 calls
        (32.0, 400.0, 1.0, math.inf),
        (3.2, 400.0, 10.0, math.inf),  # the longer it lasts the worse it gets
        (400.0, 400.0, 0.05, math.inf),  # the load ends before the first call is late
        (210.0, 400.0, 1.0, 10),  # 200 served in the second, and 10 are on their way
        (220.0, 400.0, 1.0, 20),  # each of them waits as long as it may
        (32.0, 400.0, 1.0, 21),  # one more, and all are late
        (51.0, 400.0, 1.0, 1),  # a limit below the number of servers leaves some of them idle
    ]:
        with subtests.test(
            in_time_per_s=in_time_per_s, offered_per_s=offered_per_s, for_s=for_s, limit=limit
        ):
            found = overload.goodput(
                offered_per_s, POOL, deadline_s=DEADLINE_S, offered_for_s=for_s, limit=limit
            )

            assert in_time_per_s == pytest.approx(found.value)
            assert "calls/s" == found.unit
            assert found.reason

    at_once = Station("pool", 0.0, 4)
    found = overload.goodput(9.0, at_once, deadline_s=DEADLINE_S, offered_for_s=1.0, limit=2)
    assert 9.0 == found.value


def test_littles_law_says_how_many_may_wait():
    assert 20.0 == pytest.approx(overload.within(DEADLINE_S, POOL).value)
    assert 4.0 == pytest.approx(overload.within(0.020, POOL).value)  # no queueing
    with pytest.raises(ValueError, match=r"at least the service time of 0.02 s, got 0.01"):
        overload.within(0.010, POOL)


def test_a_rate_or_time_that_makes_no_sense_is_refused(subtests):
    for wrong in [0.0, -1.0, math.inf, math.nan]:
        with subtests.test(wrong=wrong):
            with pytest.raises(ValueError, match="offered_per_s must be above 0 and finite"):
                overload.goodput(wrong, POOL, deadline_s=1, offered_for_s=1)
            with pytest.raises(ValueError, match="offered_for_s must be above 0 and finite"):
                overload.goodput(1, POOL, deadline_s=1, offered_for_s=wrong)


# ---- call by call --------------------------------------------------------------------------


def test_one_thread_by_hand():
    """One thread, 1 s each, five calls at once, 2.5 s to wait."""
    due_s = [0.0] * 5
    ends = {
        needed_s: open_loop(
            due_s, Pool(threads=1, disk_s=1.0, time_needed_s=needed_s), deadline_s=2.5
        ).ends
        for needed_s in (0.0, 1.0, 2.0)
    }

    assert {"in time": 2, "late": 1, "dropped": 2} == ends[0.0]  # it begins at 2 s: late
    assert {"in time": 2, "dropped": 3} == ends[1.0]
    assert {"in time": 1, "dropped": 4} == ends[2.0]


def test_a_limit_refuses_at_once():
    pool = Pool(threads=1, disk_s=1.0, limit=2)
    played = open_loop([0.0, 0.0, 0.0, 1.5, 1.6, 1.7], pool, deadline_s=9)

    assert [1.0, 2.0, 0.0, 3.0, 1.6, 1.7] == pytest.approx([call.ended_s for call in played.calls])
    assert ["refused", "in time"] == [played.calls[n].end for n in (2, 3)]


def test_every_call_has_one_end(subtests):
    for offered_per_s in [50, 190, 600]:
        for limit in [1, 10, 40, math.inf]:
            for needed_s in [0.0, 0.02, 0.09]:
                with subtests.test(offered_per_s=offered_per_s, limit=limit, needed_s=needed_s):
                    pool = Pool(threads=4, disk_s=0.02, limit=limit, time_needed_s=needed_s)
                    played = open_loop(
                        every(1 / offered_per_s), pool, deadline_s=DEADLINE_S, until_s=2.0
                    )

                    assert 2 * offered_per_s == pytest.approx(len(played.calls), abs=1)
                    assert len(played.calls) == played.ends.total()
                    assert all(call.ended_s >= call.due_s for call in played.calls)


def test_flows_and_calls_agree(subtests):
    """To within the few calls that the flows pour out in parts, and a thread serves whole."""
    for times in [0.5, 0.9, 1.5, 2.0, 3.0]:
        for limit, needed_s in [(math.inf, 0.0), (10, 0.0), (20, 0.02)]:
            with subtests.test(times=times, limit=limit, needed_s=needed_s):
                offered_per_s, for_s = times * POOL.most_per_s, 4.0
                pool = Pool(
                    threads=4,
                    disk_s=0.02,
                    time_needed_s=needed_s,
                    limit=math.inf if needed_s else limit,
                )
                played = open_loop(
                    every(1 / offered_per_s), pool, deadline_s=DEADLINE_S, until_s=for_s
                )
                flows = overload.goodput(
                    offered_per_s, POOL, deadline_s=DEADLINE_S, offered_for_s=for_s, limit=limit
                )

                assert played.goodput_per_s(for_s) == pytest.approx(
                    flows.value, abs=8 / for_s, rel=0.01
                )


def test_a_pool_that_makes_no_sense_is_refused(subtests):
    for named, settings in [
        ("threads must .* got 0", {"threads": 0}),
        ("threads must .* got 1.5", {"threads": 1.5}),
        ("disk_s must .* got -1", {"disk_s": -1}),
        ("limit must .* got 0", {"limit": 0}),
        ("time_needed_s must .* got -1", {"time_needed_s": -1}),
    ]:
        with subtests.test(named=named, settings=settings), pytest.raises(ValueError, match=named):
            Pool(**{"threads": 4, "disk_s": 0.02, **settings})
