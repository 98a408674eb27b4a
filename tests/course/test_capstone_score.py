"""The score of a plan, on runs made by hand."""

import dataclasses
import itertools
import math

import pytest
from made_runs import run_of

from kvstore.course import NOT_ATTEMPTED, capstone, predict, progress
from kvstore.course.capstone import Design, Plan
from kvstore.course.capstone.score import (
    COST,
    HELD,
    LINES,
    LOST,
    POINTS,
    RATE,
    RESULT,
    START,
    TAIL,
)
from kvstore.course.run_notebooks import NOTEBOOKS
from kvstore.protocol import StationTimes

CASE = capstone.case("lock")
CURE = capstone.reference(CASE).design


def answered(per_s, *, in_flight=8, status="OK", extra=0):
    """A run of a second; each call waited half of its time for a lock."""
    residence_s = in_flight / per_s
    stations = StationTimes(0.0, residence_s / 2, residence_s / 4, 0.0)
    calls = [
        (n / per_s, n / per_s + residence_s, "retrieve", status if n < extra else "OK", stations)
        for n in range(round(per_s))
    ]
    return run_of(calls, in_flight=in_flight, window_s=1.0)


BEFORE = answered(60.0)
RIGHT = Plan(CASE.binds, 60.0, CURE, 800.0)


def score(plan=RIGHT, after=None, **changed):
    plan = dataclasses.replace(plan, **changed)
    return capstone.score_plan(CASE, plan, BEFORE, answered(800.0) if after is None else after)


def test_a_right_plan_has_all_points_and_a_multiple_is_of_the_measured_start():
    found = score()

    assert math.isclose(100.0, found.points)
    assert found.met
    assert "passed" == found.outcome
    assert list(LINES) == [line.name for line in found.lines]
    assert 100 == sum(POINTS.values())

    cpu = capstone.case("cpu")
    plan = Plan(cpu.binds, 60.0, capstone.reference(cpu).design, 130.0)

    assert capstone.score_plan(cpu, plan, BEFORE, answered(130.0)).met
    assert not capstone.score_plan(cpu, plan, BEFORE, answered(110.0)).met


def test_the_lesson_lists_the_points_of_each_line():
    text = (NOTEBOOKS / "12_design_one.ipynb").read_text("utf-8")

    assert [] == [line for line, points in POINTS.items() if f"| {line} | {points} |" not in text]


def test_points_grow_with_throughput_and_shrink_with_days():
    points = [
        score(after=answered(per_s), result_per_s=None).points for per_s in range(40, 240, 20)
    ]

    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(points))
    assert points[0] < points[-1] - 30

    changes = [("per_key",), ("per_key", "threads=128"), ("per_key", "asyncio")]
    plans = [score(design=Design("bounded", 16, changes=each)) for each in changes]
    costs = [each[COST].points for each in plans]

    assert costs == sorted(costs, reverse=True)
    assert costs[0] == POINTS[COST] > costs[-1] > 0


def test_a_better_prediction_never_brings_less():
    points = [score(result_per_s=800.0 * 2 ** (step / 10)).points for step in range(0, 15, 2)]

    assert all(a >= b for a, b in itertools.pairwise(points))
    assert [10.0, 0.0] == [
        score(result_per_s=predicted)[RESULT].points for predicted in (860.0, 1700.0)
    ]
    assert score(result_per_s=600.0)[RESULT].points == pytest.approx(
        score(result_per_s=800.0**2 / 600.0)[RESULT].points
    )


def test_a_design_without_effect_and_a_run_without_replies_get_no_points_for_the_result():
    idle = score(design=CASE.start, after=BEFORE, result_per_s=60.0)

    assert 0.0 == idle[RATE].points == idle[COST].points
    assert not idle.met
    assert idle.points <= 50

    nothing = score(after=run_of([]))

    assert not nothing.met
    assert 0.0 == nothing[RATE].points == nothing[TAIL].points == nothing[LOST].points


def test_missing_and_wrong_predictions_lose_their_points_and_name_the_bottleneck():
    found = score(station=None, start_per_s=None, result_per_s=None)

    assert found.met
    assert math.isclose(70.0, found.points)
    assert "no prediction was made" in found[START].why
    assert "none was named" in found.lines[0].why

    assert "pool: no. global lock" in score(station="pool").lines[0].why


def test_a_slow_run_says_where_its_calls_waited():
    why = score(after=answered(70.0))[RATE].why

    assert "a call waited for a lock for 50% of its time" in why


def test_a_slow_tail_too_many_in_flight_and_lost_calls_each_miss_the_target():
    slow, crowd = answered(400.0, in_flight=320), answered(400.0, in_flight=64)
    failed = answered(800.0, status="UNAVAILABLE", extra=1)

    assert score(after=slow)[TAIL].points < POINTS[TAIL]
    assert score(after=crowd)[HELD].points == pytest.approx(POINTS[HELD] / 2, rel=0.05)
    assert 0.0 == score(after=failed)[LOST].points
    for each in (slow, crowd, failed):
        assert not score(after=each).met
        assert 0.0 == score(after=each)[COST].points


def test_a_plan_that_is_not_attempted_reveals_nothing():
    found = capstone.score_plan(CASE, capstone.plan(CASE, NOT_ATTEMPTED), BEFORE, None)

    assert "not attempted" == found.outcome
    assert CASE.binds not in repr(found)
    assert not found.met


def test_a_plan_is_what_was_committed_before_the_run(page):
    capstone.name_station(CASE, "pool")
    capstone.name_station(CASE, "global lock")
    predict(CASE.question_id("start"), 57.0, unit="operations/s")
    for question in ("station", "start"):
        progress.close(CASE.question_id(question))
    capstone.name_station(CASE, "pool")
    predict(CASE.question_id("result"), 820.0, unit="operations/s")

    assert Plan("global lock", 57.0, CURE, 820.0) == capstone.plan(CASE, CURE)
    assert "came after the run" in page[-2]["text/plain"]


def test_an_open_station_says_which_there_are(page):
    capstone.name_station(CASE, None)

    assert "hottest key, processor" in page[-1]["text/plain"]
    assert capstone.plan(CASE, CURE).station is None
    with pytest.raises(ValueError, match="the stations are"):
        capstone.name_station(CASE, "the network")


def test_the_scoreboard_has_the_best_score_of_a_case(page):
    for per_s in (800.0, 100.0):
        capstone.keep(score(after=answered(per_s)))
    capstone.keep(capstone.score_plan(CASE, Plan(), BEFORE, None))

    board = capstone.scoreboard()
    assert ["lock"] == list(board.index)
    assert [100.0, 2] == list(board.loc["lock"])
    assert "1 of 1" == progress.by_lesson().loc["12", "exercises passed"]
    assert "100 of 100 points" in page[0]["text/plain"]


def test_the_models_design_is_shown_and_counts_as_a_solution(page):
    capstone.reveal(CASE, BEFORE)

    assert "global lock" in page[-1]["text/plain"]
    assert 1 == progress.by_lesson().loc["12", "solutions seen"]
