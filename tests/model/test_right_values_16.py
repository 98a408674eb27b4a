"""The simulator of lesson 16 against another implementation of the same queue."""

import numpy as np
import pytest

from kvstore.course.my_code import part

SERVICE_S = 6 / 293
"""Work of a call of the greeter that a reader audited, with six workers."""


def many_runs_at_once(rate_per_s: float, runs: int = 2_400, calls: int = 2_500) -> np.ndarray:
    """Return response times: one row of each call, one column of each run, after the start.

    The recursion of Kiefer and Wolfowitz on the sorted remaining work of the workers.
    """
    drawn = np.random.default_rng()
    left_s = np.zeros((runs, 6))
    times_s = np.empty((calls, runs))
    for call in range(calls):
        left_s = np.maximum(0.0, left_s - drawn.exponential(1 / rate_per_s, (runs, 1)))
        left_s.sort(axis=1)
        left_s[:, 0] += SERVICE_S
        times_s[call] = left_s[:, 0]
    return times_s[500:]


def test_the_p99_at_the_rate_that_users_accept():
    expected_s = float(np.quantile(many_runs_at_once(242.0), 0.99))

    p99_at = part("laws.p99_at")
    simulated_s = np.mean([p99_at(242.0, [SERVICE_S], 6, 200_000) for _ in range(12)])

    assert expected_s == pytest.approx(0.059, rel=0.03)
    assert simulated_s == pytest.approx(expected_s, rel=0.06)
    assert expected_s < 0.7 * float(np.quantile(many_runs_at_once(270.0), 0.99))
