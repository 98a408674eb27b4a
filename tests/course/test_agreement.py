"""The closing table: what is within its band, what the lesson explains, and what neither."""

import math

import pytest

from kvstore.course import agreement, compare, comparisons
from kvstore.course.agreement import Agreement


def made(measured, *, band=0.10, why="", predicted=100.0, lesson="03_bounded"):
    return Agreement(lesson, "03.rate", "calls/s", predicted, measured, band, why)


@pytest.mark.parametrize(
    ("measured", "band", "within"),
    [
        (100, 0.10, True),
        (110, 0.10, True),
        (111, 0.10, False),
        (90, 0.10, True),
        (89, 0.10, False),
        (89, 0.20, True),
        (81, 0.20, True),
        (121, 0.20, False),
        (0, 0.20, False),
        (None, 0.20, False),
    ],
)
def test_the_band_is_about_measured_over_predicted(measured, band, within):
    assert made(measured, band=band).within is within


def test_nothing_measured_is_no_ratio():
    assert math.isnan(made(None).ratio)
    assert made(None).verdict == "outside"


def test_it_is_read_from_what_a_comparison_published(page):
    compare("03.rate", 90.0, 100.0, main=True, binds="cpu")
    read = Agreement.of("03_bounded", page[-1][comparisons.MIME_TYPE])

    assert read == made(90.0, band=0.20)


def test_the_table_has_a_line_for_each_with_its_verdict():
    several = [made(95.0), made(80.0), made(80.0, why="timers are late")]
    lines = agreement.table(several, ["03_bounded"], full=True).splitlines()

    assert [" ".join(line.split()[3:]) for line in lines[1:4]] == [
        "100 95 0.950 ±10% within",
        "100 80 0.800 ±10% outside",
        "100 80 0.800 ±10% outside: the lesson shows why",
    ]


def test_a_full_run_says_how_many_are_neither_within_nor_explained():
    several = [made(95.0), made(80.0), made(80.0, why="timers are late")]
    said = agreement.table(several, ["03_bounded"], full=True)

    assert "03.rate: outside 10%, because timers are late" in said
    assert said.endswith("OUTSIDE ITS BAND AND NOT EXPLAINED: 1 of 3")
    assert "all 1 main comparisons" in agreement.table(several[:1], ["03_bounded"], full=True)


def test_a_short_run_is_not_held_to_the_band():
    said = agreement.table([made(80.0)], ["03_bounded"], full=False)

    assert "meant for --full" in said
    assert "NOT EXPLAINED" not in said


def test_a_lesson_without_a_main_comparison_is_named():
    said = agreement.table([made(95.0)], ["03_bounded", "09_new"], full=True)

    assert "09_new: no main comparison" in said
    assert "03_bounded: no main" not in said
    assert "09_new" in agreement.table([], ["09_new"], full=False)
