"""quorum.py: the w-th fastest of n, by numbers worked out by hand."""

import numpy as np
import pytest

from kvstore.model import quorum

COIN = [[1.0, 1.0, 1.0, 9.0]]
"""A server that answers within 1 s three times of four, else within 9 s."""


def test_of_three_alike(subtests):
    for needed, within_1_s in [(1, 63 / 64), (2, 54 / 64), (3, 27 / 64)]:
        with subtests.test(needed=needed):
            assert [0.0, pytest.approx(within_1_s), 1.0] == list(
                quorum.answered_by([0.5, 1.0, 9.0], 3 * COIN, needed)
            )


def test_servers_may_differ():
    """One always takes 2 s; the other 1 or 3 s. Both: 2 or 3 s. Either: 1 or 2 s."""
    both = [[2.0], [1.0, 3.0]]

    assert [0.5, 1.0, 1.0] == list(quorum.answered_by([1.0, 2.0, 3.0], both, 1))
    assert [0.0, 0.5, 1.0] == list(quorum.answered_by([1.0, 2.0, 3.0], both, 2))


def test_the_time_within_which_a_share_is_there(subtests):
    for share, needed, seconds in [(0.9, 1, 1.0), (0.5, 3, 9.0)]:
        with subtests.test(share=share, needed=needed, seconds=seconds):
            assert seconds == quorum.quantile_s(share, 3 * COIN, needed)


def test_one_of_one_is_the_server_itself():
    times_s = np.random.default_rng(3).exponential(size=101)

    assert np.median(times_s) == quorum.quantile_s(0.5, [times_s], 1)


def test_the_median_of_the_second_of_three_exponential_times():
    """3 F^2 - 2 F^3 = 1/2 at F = 1/2: the second of three has the median of one."""
    times_s = -np.log1p(-(np.arange(2000) + 0.5) / 2000)

    assert pytest.approx(np.log(2), rel=0.01) == quorum.quantile_s(0.5, 3 * [times_s], 2)


def test_a_leader_that_stalls_like_the_others_makes_a_write_late_more_often():
    """p = 1/4 late: any 2 of 3 are late with 0.16; with a leader p + (1 - p) p^2 = 0.30."""
    p = 1 / 4
    (any_two,), (led,) = (
        quorum.answered_by(1.0, 3 * COIN, 2, leader=leader) for leader in (None, 0)
    )

    assert 3 * p**2 * (1 - p) + p**3 == pytest.approx(1 - any_two)
    assert p + (1 - p) * p**2 == pytest.approx(1 - led)
    assert 1 - any_two < p < 1 - led


def test_the_reply_of_the_leader_is_one_of_those_needed():
    """The leader takes 3 s, the two others 1 s: alone, with one and with both of them 3 s."""
    samples_s = [[1.0], [3.0], [1.0]]

    assert [3.0, 3.0, 3.0] == [quorum.quantile_s(0.5, samples_s, w, leader=1) for w in (1, 2, 3)]
    assert [1.0, 1.0, 3.0] == [quorum.quantile_s(0.5, samples_s, w, leader=2) for w in (1, 2, 3)]


def test_three_that_are_up_nine_times_of_ten(subtests):
    for needed, chance in [(1, 0.999), (2, 0.972), (3, 0.729)]:
        with subtests.test(needed=needed, chance=chance):
            assert pytest.approx(chance) == quorum.available(0.9, 3, needed)


def test_what_makes_no_sense_is_refused(subtests):
    for says, wrong in [
        ("needed must be from 1 to 3 servers, got 4", lambda: quorum.answered_by(1, 3 * COIN, 4)),
        ("needed must be from 1 to 1 servers, got 0", lambda: quorum.answered_by(1, COIN, 0)),
        ("needed must be from 1 to 3 servers, got 4", lambda: quorum.available(0.9, 3, 4)),
        ("server 0 has no measured time", lambda: quorum.answered_by(1, [[]], 1)),
        ("leader must be from 0 to 0", lambda: quorum.answered_by(1, COIN, 1, leader=1)),
        ("share must be between 0 and 1, got 1", lambda: quorum.quantile_s(1, COIN, 1)),
        ("up must be from 0 to 1, got 1.1", lambda: quorum.available(1.1, 3, 2)),
    ]:
        with subtests.test(says=says, wrong=wrong), pytest.raises(ValueError, match=says):
            wrong()
