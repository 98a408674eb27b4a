"""The score of a plan, on runs that were made by hand."""

import dataclasses
import itertools
import math

import pytest
from made_runs import run_of

from kvstore.course import NOT_ATTEMPTED, design, predict, progress
from kvstore.course.design import Design, Plan
from kvstore.course.design.score import COST, HELD, LINES, LOST, POINTS, RATE, RESULT, START, TAIL
from kvstore.course.execute import NOTEBOOKS
from kvstore.stations import StationTimes

CASE = design.case("lock")
CURE = design.reference(CASE).design


def answered(per_s, *, in_flight=8, status="OK", extra=0):
    """A run of a second; each call waited half of its time for a lock."""
    residence_s = in_flight / per_s
    told = StationTimes(0.0, residence_s / 2, residence_s / 4, 0.0)
    calls = [
        (n / per_s, n / per_s + residence_s, "retrieve", status if n < extra else "OK", told)
        for n in range(round(per_s))
    ]
    return run_of(calls, in_flight=in_flight, window_s=1.0)


BEFORE = answered(60.0)
RIGHT = Plan(CASE.binds, 60.0, CURE, 800.0)


def score(plan=RIGHT, after=None, **changed):
    plan = dataclasses.replace(plan, **changed)
    return design.scored(CASE, plan, BEFORE, answered(800.0) if after is None else after)


def test_a_plan_that_was_right_throughout_has_all_points():
    found = score()

    assert math.isclose(100.0, found.points)
    assert found.met
    assert "passed" == found.outcome
    assert list(LINES) == [line.name for line in found.lines]
    assert 100 == sum(POINTS.values())


def test_the_lesson_tells_the_points_as_they_are_given():
    told = (NOTEBOOKS / "10_design_one.ipynb").read_text("utf-8")

    assert [] == [line for line, points in POINTS.items() if f"| {line} | {points} |" not in told]


def test_more_throughput_never_brings_less():
    points = [
        score(after=answered(per_s), result_per_s=None).points for per_s in range(40, 240, 20)
    ]

    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(points))
    assert points[0] < points[-1] - 30


def test_a_better_prediction_never_brings_less():
    points = [score(result_per_s=800.0 * 2 ** (step / 10)).points for step in range(0, 15, 2)]

    assert all(a >= b for a, b in itertools.pairwise(points))
    assert [10.0, 0.0] == [score(result_per_s=said)[RESULT].points for said in (860.0, 1700.0)]
    assert score(result_per_s=600.0)[RESULT].points == pytest.approx(
        score(result_per_s=800.0**2 / 600.0)[RESULT].points
    )


def test_more_days_never_bring_more():
    changes = [("per_key",), ("per_key", "threads=128"), ("per_key", "asyncio")]
    plans = [score(design=Design("bounded", 16, changes=each)) for each in changes]
    costs = [each[COST].points for each in plans]

    assert costs == sorted(costs, reverse=True)
    assert costs[0] == POINTS[COST] > costs[-1] > 0


def test_who_does_nothing_gets_nothing_for_it():
    idle = score(design=CASE.start, after=BEFORE, result_per_s=60.0)

    assert 0.0 == idle[RATE].points == idle[COST].points
    assert not idle.met
    assert idle.points <= 50


def test_without_predictions_a_met_target_lacks_their_points_and_says_so():
    found = score(station=None, start_per_s=None, result_per_s=None)

    assert found.met
    assert math.isclose(70.0, found.points)
    assert "no prediction was made" in found[START].why
    assert "none was named" in found.lines[0].why


def test_a_wrong_station_is_told_the_right_one():
    assert "pool: no. global lock" in score(station="pool").lines[0].why


def test_a_slow_run_says_where_its_calls_waited():
    why = score(after=answered(70.0))[RATE].why

    assert "50% of a call's time it waited for a lock" in why


def test_a_slow_tail_too_many_in_flight_and_lost_calls_each_miss_the_target():
    slow, crowd = answered(400.0, in_flight=320), answered(400.0, in_flight=64)
    failed = answered(800.0, status="UNAVAILABLE", extra=1)

    assert score(after=slow)[TAIL].points < POINTS[TAIL]
    assert score(after=crowd)[HELD].points == pytest.approx(POINTS[HELD] / 2, rel=0.05)
    assert 0.0 == score(after=failed)[LOST].points
    for each in (slow, crowd, failed):
        assert not score(after=each).met
        assert 0.0 == score(after=each)[COST].points


def test_a_run_without_an_answer_can_be_scored():
    nothing = score(after=run_of([]))

    assert not nothing.met
    assert 0.0 == nothing[RATE].points == nothing[TAIL].points == nothing[LOST].points


def test_a_multiple_is_reckoned_from_the_start_that_was_run():
    cpu = design.case("cpu")
    plan = Plan(cpu.binds, 60.0, design.reference(cpu).design, 130.0)

    assert design.scored(cpu, plan, BEFORE, answered(130.0)).met
    assert not design.scored(cpu, plan, BEFORE, answered(110.0)).met


def test_what_is_not_attempted_tells_nothing():
    found = design.scored(CASE, design.plan(CASE, NOT_ATTEMPTED), BEFORE, None)

    assert "not attempted" == found.outcome
    assert CASE.binds not in repr(found)
    assert not found.met


def test_a_plan_is_what_was_committed_before_the_run(page):
    design.name_station(CASE, "pool")
    design.name_station(CASE, "global lock")
    predict(CASE.asks("start"), 57.0, unit="operations/s")
    for question in ("station", "start"):
        progress.close(CASE.asks(question))
    design.name_station(CASE, "pool")
    predict(CASE.asks("result"), 820.0, unit="operations/s")

    assert Plan("global lock", 57.0, CURE, 820.0) == design.plan(CASE, CURE)
    assert "came after the run" in page[-2]["text/plain"]


def test_an_open_station_says_which_there_are(page):
    design.name_station(CASE, None)

    assert "hottest key, processor" in page[-1]["text/plain"]
    assert design.plan(CASE, CURE).station is None
    with pytest.raises(ValueError, match="the stations are"):
        design.name_station(CASE, "the network")


def test_the_best_score_of_a_case_is_remembered(page):
    for per_s in (800.0, 100.0):
        design.keep(score(after=answered(per_s)))
    design.keep(design.scored(CASE, Plan(), BEFORE, None))

    board = design.scoreboard()
    assert ["lock"] == list(board.index)
    assert [100.0, 2] == list(board.loc["lock"])
    assert "1 of 1" == progress.overview().loc["10", "exercises passed"]
    assert "100 of 100 points" in page[0]["text/plain"]


def test_who_asks_for_the_models_design_is_shown_it(page):
    design.reveal(CASE, BEFORE)

    assert "global lock" in page[-1]["text/plain"]
    assert 1 == progress.overview().loc["10", "solutions seen"]
