"""What the page computes: axes, histograms, camps, and the laws of the votes."""

import math

import pytest

from kvstore.classroom import figures
from kvstore.classroom.codes import CodeError, new_identity, parsed


def test_an_axis_has_factors_only_where_votes_differ_by_factors():
    close, far = figures.axis_of([90.0, 100.0, 120.0]), figures.axis_of([25.0, 2500.0], 24.0)

    assert (close.log, close.low) == (False, 0.0)
    assert far.log
    assert far.place(250.0) - far.place(25.0) == pytest.approx(far.place(2500) - far.place(250))


@pytest.mark.parametrize(
    "values", [[1.0], [25.0] * 30, [25.0, 2500.0], [1e-9, 1.0, 1e300], [5e-324, 1e308], []]
)
def test_every_vote_is_in_a_bin_however_absurd(values):
    axis = figures.axis_of(values, 24.0 if values else None)

    assert sum(figures.histogram(values, axis)) == len(values)
    assert all(0 <= axis.place(tick) <= 1 for tick in axis.ticks())
    assert len(axis.ticks()) < 25


def test_a_camp_has_the_votes_near_its_number():
    assert [3, 1] == figures.camps([24.0, 26.0, 25.0, 2400.0, 250.0], [2500.0, 25.0])


def test_x_times_r_is_l_for_the_votes():
    law = figures.law([(0.0, 4.0), (1.0, 3.0), (2.0, 3.0), (2.0, 10.0)])

    assert (law.votes, law.x_per_s, law.r_s) == (4, 0.4, 3.75)
    assert law.l == pytest.approx(1.5)
    assert math.isnan(figures.law([]).l)


def test_a_code_may_be_typed_as_people_type():
    code = new_identity().code
    typed = f" {str(code).lower().replace('-', ' ').replace('0', 'o').replace('1', 'l')} "

    assert parsed(str(code)) == parsed(typed) == code
    for wrong in ("", "K7QX-2M4P", f"{code}A", "????-????-????", None):
        with pytest.raises(CodeError, match="the board"):
            parsed(wrong)
