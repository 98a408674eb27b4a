"""retries.py: attempts worked out by hand, and the same played through."""

import itertools
import random

import pytest

from kvstore.model import retries
from kvstore.model.open_loop import Pool


@pytest.mark.parametrize(
    ("attempts", "operations", "limit"),
    [(1, 1, 1), (4, 4, 4), (6, 3, 1), (5 + 3 + 1, 5, 2), (220, 40, 4), (820, 40, 1)],
)
def test_in_lockstep_by_hand(attempts, operations, limit):
    assert attempts == retries.in_lockstep(operations, limit).value


@pytest.mark.parametrize("wrong", [(0, 1), (1, 0)])
def test_no_crowd_is_refused(wrong):
    with pytest.raises(ValueError, match="must be 1 or more"):
        retries.in_lockstep(*wrong)


@pytest.mark.parametrize(("operations", "limit"), [(1, 1), (7, 2), (40, 4)])
def test_equal_pauses_longer_than_the_work_keep_in_step(operations, limit):
    pool = Pool(threads=limit, disk_s=0.02, limit=limit)
    done = retries.played(operations, pool, lambda failures: 0.03)

    assert operations == len(done)
    assert retries.in_lockstep(operations, limit).value == sum(attempts for attempts, _ in done)
    assert done[-1][1] == pytest.approx((-(-operations // limit) - 1) * 0.03 + 0.02)


def test_pauses_that_differ_ask_less_often():
    rng = random.Random(8)
    pool = Pool(threads=4, disk_s=0.02, limit=4)
    apart = retries.played(40, pool, lambda n: rng.uniform(0, min(0.1, 0.025 * 2 ** (n - 1))))

    assert sum(attempts for attempts, _ in apart) < 0.9 * retries.in_lockstep(40, 4).value


def test_no_pause_at_all_would_never_end():
    with pytest.raises(ValueError, match="a pause of 0 s"):
        retries.played(3, Pool(threads=1, disk_s=1, limit=1), lambda failures: 0.0)


def test_attempts_are_counted_from_one():
    """Three for one place of 1 s: the second asks after 0.4 s, 0.8 s and 1.2 s."""
    pauses = itertools.cycle([0.4])
    done = retries.played(2, Pool(threads=1, disk_s=1, limit=1), lambda failures: next(pauses))

    assert [(1, 1.0), (4, 2.2)] == [(n, pytest.approx(at_s)) for n, at_s in done]
