"""quorum.py: the w-th fastest of n, by numbers worked out by hand."""

import numpy as np
import pytest

from kvstore.model import quorum

COIN = [[1.0, 1.0, 1.0, 9.0]]
"""A server that answers within 1 s three times of four, else within 9 s."""


@pytest.mark.parametrize(
    ("needed", "within_1_s", "mean_s"),
    [
        (1, 63 / 64, 1 + 8 * 1 / 64),
        (2, 54 / 64, 1 + 8 * 10 / 64),
        (3, 27 / 64, 1 + 8 * 37 / 64),
    ],
)
def test_of_three_alike(needed, within_1_s, mean_s):
    assert [0.0, pytest.approx(within_1_s), 1.0] == list(
        quorum.answered_by([0.5, 1.0, 9.0], 3 * COIN, needed)
    )
    assert pytest.approx(mean_s) == quorum.mean_s(3 * COIN, needed)


def test_servers_may_differ():
    """One always takes 2 s; the other 1 or 3 s. Both: 2 or 3 s. Either: 1 or 2 s."""
    both = [[2.0], [1.0, 3.0]]

    assert [0.5, 1.0, 1.0] == list(quorum.answered_by([1.0, 2.0, 3.0], both, 1))
    assert [0.0, 0.5, 1.0] == list(quorum.answered_by([1.0, 2.0, 3.0], both, 2))
    assert (1.5, 2.5) == (quorum.mean_s(both, 1), quorum.mean_s(both, 2))


@pytest.mark.parametrize(("share", "needed", "seconds"), [(0.9, 1, 1.0), (0.5, 3, 9.0)])
def test_the_time_within_which_a_share_is_there(share, needed, seconds):
    assert seconds == quorum.quantile_s(share, 3 * COIN, needed)


def test_one_of_one_is_the_server_itself():
    times_s = np.random.default_rng(3).exponential(size=101)

    assert pytest.approx(times_s.mean()) == quorum.mean_s([times_s], 1)
    assert np.median(times_s) == quorum.quantile_s(0.5, [times_s], 1)


def test_the_second_of_three_exponential_ones_takes_five_sixths():
    """1/3 until the first, then 1/2 until the next: a known sum."""
    times_s = -np.log1p(-(np.arange(2000) + 0.5) / 2000)

    assert pytest.approx(5 / 6, rel=0.01) == quorum.mean_s(3 * [times_s], 2)


@pytest.mark.parametrize(("needed", "chance"), [(1, 0.999), (2, 0.972), (3, 0.729)])
def test_three_that_are_up_nine_times_of_ten(needed, chance):
    assert pytest.approx(chance) == quorum.available(0.9, 3, needed)


@pytest.mark.parametrize(
    ("says", "wrong"),
    [
        ("needed must be from 1 to 3 servers, got 4", lambda: quorum.mean_s(3 * COIN, 4)),
        ("needed must be from 1 to 1 servers, got 0", lambda: quorum.answered_by(1, COIN, 0)),
        ("needed must be from 1 to 3 servers, got 4", lambda: quorum.available(0.9, 3, 4)),
        ("at least one measured time", lambda: quorum.answered_by(1, [[]], 1)),
        ("share must be between 0 and 1, got 1", lambda: quorum.quantile_s(1, COIN, 1)),
        ("up must be from 0 to 1, got 1.1", lambda: quorum.available(1.1, 3, 2)),
    ],
)
def test_what_makes_no_sense_is_refused(says, wrong):
    with pytest.raises(ValueError, match=says):
        wrong()
