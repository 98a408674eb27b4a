"""batching.py: one fsync each, or one for all that wait, by numbers worked out by hand."""

import pytest

from kvstore.model import batching


def test_one_by_one_the_log_does_one_fsync_after_another(subtests):
    for in_flight, per_s, binds in [
        (1, 80.0, "calls in flight"),  # a round: 10 ms of log, 2.5 ms of way
        (2, 100.0, "log"),
        (64, 100.0, "log"),
    ]:
        with subtests.test(in_flight=in_flight, per_s=per_s, binds=binds):
            found = batching.one_by_one(in_flight, fsync_s=0.009, per_write_s=0.001, way_s=0.0025)

            assert (pytest.approx(per_s), binds) == (found.value, found.binds)


def test_in_groups_a_write_waits_for_two(subtests):
    for in_flight, per_s, binds in [
        (1, 80.0, "calls in flight"),  # no other group to wait for
        (2, 100.0, "log"),  # two groups of one: no more than one by one
        (32, 32 / (2 * 0.025), "log"),  # T = 9 + 16 = 25 ms
    ]:
        with subtests.test(in_flight=in_flight, per_s=per_s, binds=binds):
            found = batching.in_groups(in_flight, fsync_s=0.009, per_write_s=0.001, way_s=0.0025)

            assert (pytest.approx(per_s), binds) == (found.value, found.binds)


def test_over_a_long_way_the_callers_bind_again():
    found = batching.in_groups(10, fsync_s=0.010, way_s=0.090)

    assert (pytest.approx(100.0), "calls in flight") == (found.value, found.binds)


def test_a_fast_disk_leaves_the_processor(subtests):
    """A folder in memory: 10 us of fsync, 500 µs of processor."""
    for model in [batching.one_by_one, batching.in_groups]:
        with subtests.test(model=model):
            found = model(64, fsync_s=0.00001, way_s=0.001, processor_s=0.0005)

            assert (pytest.approx(2_000.0), "cpu") == (found.value, found.binds)
            assert "500 µs of CPU time in the busier process" in found.reason


def played(in_flight: int, fsync_s: float, way_s: float, groups: int = 400) -> float:
    """The log played through, group by group: writes per second."""
    arrives_s = [1e-6 * caller for caller in range(in_flight)]
    free_s, done, ends_s = 0.0, 0, [0.0]
    for _ in range(groups):
        starts_s = max(free_s, min(arrives_s))
        group = [caller for caller, at_s in enumerate(arrives_s) if at_s <= starts_s]
        free_s = starts_s + fsync_s
        for caller in group:
            arrives_s[caller] = free_s + way_s + 1e-6 * caller  # one after the other, as calls do
        done += len(group)
        ends_s.append(free_s)
    return done / ends_s[-1]


def test_a_log_played_through_says_the_same(subtests):
    for in_flight in [1, 2, 7, 64]:
        with subtests.test(in_flight=in_flight):
            found = batching.in_groups(in_flight, fsync_s=0.010, way_s=0.002)

            assert pytest.approx(found.value, rel=0.02) == played(in_flight, 0.010, 0.002)


def test_what_makes_no_sense_is_refused(subtests):
    for model in [batching.one_by_one, batching.in_groups]:
        for says, in_flight, times in [
            ("in_flight must be 1 or more, got 0", 0, {"fsync_s": 0.01}),
            ("fsync_s must be 0 or more seconds, got -1", 1, {"fsync_s": -1}),
            ("way_s must .* got nan", 1, {"fsync_s": 0.01, "way_s": float("nan")}),
            ("must be above 0 seconds, got 0 for both", 1, {"fsync_s": 0.0}),
        ]:
            with (
                subtests.test(model=model, says=says, in_flight=in_flight, times=times),
                pytest.raises(ValueError, match=says),
            ):
                model(in_flight, **times)
