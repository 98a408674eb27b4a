"""The numbers in docs/teaching/problems.md, computed by the models or by a small simulation."""

import heapq
import math
import re
from pathlib import Path

import numpy as np
import pytest
from queues import gaps_minus_work, overtaken

from kvstore.model import Station, bounds, overload, scaling, service_time_s, tail_latency

DOCS = Path(__file__).parents[2] / "docs"
CRUD = {kind: 0.25 for kind in ("create", "retrieve", "update", "delete")}
STATIONS = [Station("client", 2e-4), Station("lock", 2e-3), Station("disk", 0.02, math.inf)]
ITEMS = Station("items", 2.4 * 0.006, 2)
CALLS = 1_000_000


def long_and_short(random, calls):
    """Work in ms: nine of ten calls take 20/3, one takes 140."""
    return np.where(random.random(calls) < 0.1, 140.0, 20 / 3)


def one_worker(work):
    """The mean residence time at one worker, first come, first served."""
    random = np.random.default_rng(1)
    work_ms = work(random, CALLS)
    return (gaps_minus_work(random.exponential(25.0, CALLS), work_ms) + work_ms).mean()


def short_first():
    """Mean residence times of short calls, of long ones, and of all, in ms."""
    is_long, times = overtaken("short first", jobs=200_000)
    residence_ms = times["short first"]
    return [residence_ms[~is_long].mean(), residence_ms[is_long].mean(), residence_ms.mean()]


def two_workers(calls=200_000):
    """One queue for two workers, exponential work of 20 ms, busy for 80 %."""
    random = np.random.default_rng(1)
    free, total = [0.0, 0.0], 0.0
    for at, work in zip(
        np.cumsum(random.exponential(12.5, calls)), random.exponential(20.0, calls), strict=True
    ):
        begin = max(at, heapq.heappop(free))
        heapq.heappush(free, begin + work)
        total += begin + work - at
    return total / calls


def busy_with_a_long_call():
    """The share of busy time that is spent in long calls, in %, and the mean rest of a call."""
    work = long_and_short(np.random.default_rng(1), CALLS)
    return [100 * work[work > 100].sum() / work.sum(), (work**2).sum() / work.sum() / 2]


def in_the_last_place_and_late():
    """In %: twenty exponential services of 5 ms take more than 100 ms."""
    return 100 * (np.random.default_rng(1).exponential(5.0, (100_000, 20)).sum(axis=1) > 100).mean()


def hot_key():
    share = scaling.busiest_share(20, 0.05)
    closed = [1 / (each * 0.020) for each in (share, scaling.busiest_share(10**9, 0.05))]
    hot, other = 900 * share * 0.020, 900 * 0.95 / 20 * 0.020
    return [*closed, hot, other, 100 * (1 - share + 50 / 900)]


def keys_that_move():
    keys = np.arange(20_000)
    slots = keys % 4
    slots[: len(keys) // 5] = 4  # as few as give the fifth server its share
    return [100 * (keys % 4 != keys % 5).mean(), 100 * (slots == 4).mean()]


CLOSED = 1 / (9_000 + 1)
COMPUTED = {
    1: lambda: [1_200 * 0.025],
    2: lambda: [24_000 * 0.0031, 1e3 * 40 / 24_000],
    3: lambda: [
        1 / (service_time_s(CRUD, read_delay_s=0.010, write_delay_s=0.050) + more)
        for more in (0, 0.0006)
    ],
    4: lambda: [bounds.knee(STATIONS), *(bounds.closed_loop(n, STATIONS).value for n in (5, 40))],
    7: lambda: [100 * 80 / ITEMS.most_per_s, ITEMS.most_per_s],
    8: lambda: [200 / 45 - 4, (0.060 + 4) / 0.020],
    12: lambda: [
        one_worker(long_and_short),
        one_worker(lambda _, calls: np.full(calls, 20.0)),
        one_worker(lambda random, calls: random.exponential(20.0, calls)),
    ],
    13: busy_with_a_long_call,
    14: lambda: [20 / (1 - 0.8)],
    15: lambda: [two_workers(), one_worker(lambda random, calls: random.exponential(20.0, calls))],
    16: short_first,
    17: lambda: [0.020 / (1 - busy) ** 2 for busy in (0.8, 0.95)],
    18: lambda: [1e3 * 0.040 * math.log(100), 50 - math.log(100) / 0.100],
    19: lambda: [400 * 0.250, in_the_last_place_and_late()],
    20: lambda: [
        overload.goodput(500, Station("pool", 0.020, 8), deadline_s=0.250, offered_for_s=100).value
        * 100
        / 500
    ],
    21: lambda: [4**3, sum(0.1**k for k in range(4))],
    22: lambda: [100 * 0.1 / 1.1],
    23: lambda: [
        next(
            rate
            for rate in range(100, 0, -1)
            if 4 * rate <= Station("pool", 0.01, 1).most_per_s  # its attempts can be served
        )
    ],
    24: lambda: [100 * 0.3 * (1 + 0.2)],
    25: lambda: [100 * tail_latency.slow_of_all(100, 0.01).value, 100 * (1 - 0.95 ** (1 / 100))],
    26: lambda: [100 * tail_latency.slow_of_all(100, 0.01**2).value],
    27: lambda: [
        100 * (1 - 0.1) / 10,
        100 * CLOSED,
    ],
    28: hot_key,
    29: keys_that_move,
    30: lambda: [64 / 16 / 0.050, 400 * 16 * 0.050],
}


def problems_of(path):
    """The text of each problem by its number."""
    parts = re.split(r"^(\d+)\. ", path.read_text("utf-8"), flags=re.MULTILINE)
    return {int(n): text for n, text in zip(parts[1::2], parts[2::2], strict=True)}


ANSWERS = problems_of(DOCS / "teaching" / "problems.md")


SIMULATED = (12, 13, 15, 16, 19)
"""Problems whose numbers are simulated."""


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SIMULATED else []) for n in COMPUTED],
)
def test_the_numbers_of_an_answer_are_computed(number):
    written = re.findall(r"\*\*([\d.,]+)\*\*", ANSWERS[number])
    stated = [float(each.replace(",", "")) for each in written]
    share = 0.08 if number in SIMULATED else 0.005

    assert stated == [pytest.approx(each, rel=share) for each in COMPUTED[number]()]


def test_each_problem_has_its_answer_and_each_without_a_number_is_a_proof():
    problems = problems_of(DOCS / "problems.md")

    assert list(problems) == list(ANSWERS) == list(range(1, 31))
    assert all("**P**" in problems[n] for n in set(problems) - set(COMPUTED))
