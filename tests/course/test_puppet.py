"""What the judges of exercises wait for."""

import time

import pytest

from kvstore.course.exercises import puppet


@pytest.mark.parametrize(("ends_at", "reached"), [(8, True), (5, False)])
def test_a_count_may_take_long_as_long_as_it_grows(ends_at, reached, monkeypatch):
    """Eight calls of a busy machine, each a little sooner than a judge loses its patience."""
    clock_s = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock_s[0])
    monkeypatch.setattr(time, "sleep", lambda _: clock_s.__setitem__(0, clock_s[0] + 0.1))
    arrived = lambda: min(ends_at, int(clock_s[0] / (0.9 * puppet.PATIENCE_S)))  # noqa: E731

    assert puppet.wait_for_count(arrived, 8) == reached
    assert puppet.wait_for_count(lambda: 0, 8, lambda: clock_s[0] > 0)
