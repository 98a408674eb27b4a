"""Lesson 13: which server, the models of its questions, and a run by open calls."""

import math
from itertools import count

import numpy as np
import pytest

from kvstore.client import load, workload
from kvstore.client.strategies import bounded
from kvstore.course.lessons.lesson_13 import questions
from kvstore.course.my_code import course_version
from kvstore.server import serving_replicas

FAST = {"use_asyncio": True, "locking": "global", "read_delay_s": 0.010}
READS = workload.reads(value_bytes_mean=16)


def test_models_by_hand():
    assert 50 == pytest.approx(questions.in_equal_shares().value)
    assert 100 == pytest.approx(questions.in_equal_shares([0.010, 0.010, 0.010, 0.040]).value)
    assert 116.7 == pytest.approx(questions.all_busy().value, rel=1e-3)
    assert 0.94 == pytest.approx(questions.herd_s(0.2))


def test_the_coin_wins_from_where_the_lines_cross():
    assert 75 == questions.coin_wins_ms({50: [100, 100], 100: [200, 200]}, [140, 160, 150])
    assert 0 == questions.coin_wins_ms({0: [2], 100: [3]}, [1])
    assert math.isinf(questions.coin_wins_ms({0: [2], 100: [3]}, [4]))


@pytest.mark.slow
def test_in_turn_the_slowest_server_decides_and_by_open_calls_it_does_not():
    """Two real servers, of which one is five times as slow; counts, and no speeds."""
    turn = count()
    with serving_replicas([FAST, FAST | {"read_delay_s": 0.050}]) as both:
        in_turn = load.run(
            bounded, both, READS, choose=lambda _: next(turn) % 2, in_flight=10, duration_s=1.0
        )
        choose = course_version("balance.least_outstanding")
        least = load.run(bounded, both, READS, choose=choose, in_flight=10, duration_s=1.0)
    shares = [np.bincount(run.records["connection"], minlength=2) for run in (in_turn, least)]

    assert abs(shares[0][0] - shares[0][1]) <= 1
    assert shares[1][0] > 2 * shares[1][1]
    assert questions.open_at(in_turn, 2)[1] > 6
    assert questions.open_at(least, 2)[1] < 6.5
