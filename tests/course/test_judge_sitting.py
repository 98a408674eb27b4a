"""The rules of the capstone and its score, without a process."""

import asyncio
import itertools
import json
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from judge_cases import case_of

from kvstore.course.lessons.lesson_15.judge.__main__ import _Run
from kvstore.course.lessons.lesson_15.judge.sitting import (
    MOST,
    Line,
    Refused,
    Sitting,
    is_passed,
    lines_of,
)
from kvstore.course.lessons.lesson_15.judge.traffic import Load, Result, plan

SHOWN = Result(100, 0, 90.0, 0.2, 0.3, 26, 0.1, 90.0, 0.3)


def sitting(first="pool", then="disk", **more):
    times = itertools.count(1.0)
    case = case_of(first, then, more.pop("seed", 7))
    return Sitting(case, random.Random(3), clock=lambda: next(times), **more)


def finish(of, result=SHOWN):
    of.begin("result", {})
    of.end(result)
    return of.record


def points(record):
    return {line.name: line.points for line in lines_of(record)}


def test_the_record_has_the_case_only_when_the_score_is_final():
    of = sitting()
    of.begin("measure", {"in_flight": 4})
    of.end(SHOWN)
    of.begin("start", {})
    of.end(SHOWN)
    before = json.dumps(of.record)
    after = finish(of)

    assert not any(word in before for word in ("widths", "pool", "disk", "today", "delay"))
    assert "pool" == after["final"]["case"]["first"]
    assert ["opened", "measure", "start", "result"] == [e["event"] for e in after["history"]]


def test_all_points_can_be_had_but_those_for_measurements():
    of = sitting()
    of.predict("start", of._today_per_s)
    of.begin("start", {})
    of.end(SHOWN)
    of.name("pool", "disk")
    of.predict("result", 0.3 if of._case.open_loop else 900.0)
    of.buy(["more threads", "faster disk"])
    good = Result(500, 0, 900.0, 0.1, 0.3, 26, 0.1, 900.0, 0.3)
    found = points(finish(of, good))

    assert found == {**MOST, "spent": MOST["spent"] - 2.5}  # two changes, and the start
    assert 100 == sum(MOST.values())
    assert (
        MOST["start predicted"] + MOST["result predicted"] == MOST["target"] + MOST["nothing lost"]
    )


@pytest.mark.parametrize(
    ("points_of", "passes"),
    [
        ({}, True),
        ({"spent": 0.0, "start predicted": 0.0}, True),  # just enough
        ({"spent": 0.0, "start predicted": 0.0, "stations named": 9.9}, False),
        ({"nothing lost": 0.0}, False),
        # the most that a purchase by chance can have
        ({"stations named": 0.0, "start predicted": 0.0, "spent": 8.0}, False),
    ],
)
def test_a_design_passes_with_its_target_met_and_enough_points(points_of, passes):
    lines = [Line(name, points_of.get(name, float(of)), of, "") for name, of in MOST.items()]

    assert passes == is_passed(lines)


NAMINGS = [
    ("disk", [("pool", None)], 7),
    ("disk", [("disk", "pool")], 8),
    ("disk", [("retries", "disk")], 3),
    ("disk", [("pool", "disk"), ("processor", None)], 0),  # the last answer counts
    (None, [("pool", None)], 10),
    (None, [("processor", None)], 3),
]


@pytest.mark.parametrize(("then", "named", "expected"), NAMINGS)
def test_the_points_for_a_name(then, named, expected):
    of = sitting(then=then)
    for first, second in named:
        of.name(first, second)

    assert expected == points(finish(of))["stations named"]


ERRORS = [(1 / 1.09, 25), (1.5, 12), (0.4, 0)]


@pytest.mark.parametrize(("factor", "expected"), ERRORS)
def test_the_points_for_a_prediction(factor, expected):
    of = sitting()
    value = SHOWN.steady_p99_s if of._case.open_loop else SHOWN.steady_per_s
    of.predict("result", factor * value)

    assert points(finish(of))["result predicted"] == pytest.approx(expected, abs=0.6)


def closed_and_open():
    """A sitting with each kind of target."""
    made = {}
    for seed in range(20):
        of = sitting(seed=seed)
        made.setdefault(of._case.open_loop, of)
    return made[False], made[True]


def test_a_result_has_to_meet_its_target_and_to_lose_nothing():
    closed, opened = closed_and_open()
    slow = Result(500, 3, closed._today_per_s, 0.1, 4.0, 40, 0.1, 60.0, 4.0)
    for of in (closed, opened):
        found = points(finish(of, slow))
        assert found["target"] < 10
        assert 0 == found["nothing lost"]
        assert not of.record["final"]["met"]


@pytest.mark.parametrize(("most_open", "loses"), [(26, False), (32, False), (33, True), (52, True)])
def test_more_calls_in_flight_than_are_allowed_lose_the_points_of_a_closed_loop(most_open, loses):
    """26 are allowed; a quarter more may be seen, because an end is noticed a moment later."""
    closed, opened = closed_and_open()
    result = replace(SHOWN, most_open=most_open, lost=0)

    assert loses == (0 == points(finish(closed, result))["nothing lost"])
    assert 0 < points(finish(opened, result))["nothing lost"]


def ask(of, what, *given):
    getattr(of, what)(*given)


REFUSED = [
    ("name", ("the network", None), "the stations are"),
    ("predict", ("start", "60"), "above 0"),
    ("predict", ("end", 60.0), "of the start or of the result"),
    ("buy", (["more luck"],), "on offer"),
    ("buy", (["more threads", "faster disk", "compress"],), "at most 2"),
    ("begin", ("measure", {"in_flight": 27}), "in_flight must be"),
    ("begin", ("measure", {"rate_per_s": 9.0}), "closed loop"),
    ("begin", ("peek", {}), "one of measure, start, result"),
]


@pytest.mark.parametrize(("what", "given", "why"), REFUSED)
def test_what_the_rules_do_not_allow_is_refused_with_its_reason(what, given, why):
    with pytest.raises(Refused, match=why):
        ask(sitting(), what, *given)


def test_a_prediction_comes_before_its_run_and_nothing_after_the_score():
    of = sitting()
    of.begin("start", {})
    of.end(SHOWN)
    with pytest.raises(Refused, match="the start has run"):
        of.predict("start", 60.0)
    finish(of)
    for what, given in (("predict", ("result", 1.0)), ("begin", ("result", {})), ("buy", ([],))):
        with pytest.raises(Refused, match="final"):
            ask(of, what, *given)


CHOICES = [("predict", ("result", 90.0)), ("buy", ([],)), ("name", ("pool", None))]


@pytest.mark.parametrize(("what", "given"), CHOICES)
def test_a_client_chooses_nothing_while_it_runs(what, given):
    """It measures already, and the changes of its run are made."""
    of = sitting()
    of.predict("result", 60.0)
    of.buy(["more threads"])
    of.begin("result", {})

    with pytest.raises(Refused, match="a run has begun"):
        ask(of, what, *given)

    of.end(SHOWN)
    assert ["more threads"] == of.record["final"]["changes"]


@pytest.mark.parametrize("name", ["start", "result"])
def test_a_client_that_is_as_slow_as_its_prediction_gains_nothing(name):
    of, slow = sitting(), replace(SHOWN, steady_per_s=10.0, steady_p99_s=9.0)
    of.predict(name, 9.0 if of._case.open_loop and name == "result" else 10.0)
    if name == "start":
        of.begin("start", {})
        of.end(slow)
    found = points(finish(of, slow))

    assert 0 == found[f"{name} predicted"]


def test_a_run_that_is_broken_off_is_paid_for():
    of = sitting()
    for what in ("start", "result"):
        of.predict(what, 60.0)
        of.begin(what, {})
        of.abort()
        with pytest.raises(Refused, match="has run"):  # its client may have seen the result
            of.predict(what, 90.0)
    with pytest.raises(Refused, match="changes stay"):  # else each run tries another pair
        of.buy(["compress"])
    with pytest.raises(Refused, match="names stay"):
        of.name("pool", None)

    assert 6.0 == points(finish(of))["spent"]


def test_an_operation_that_was_answered_is_not_served_twice():
    """Its answer may have been lost, so it is given again, but not by the stations."""
    arrived = []

    class Stations:
        next_s = math.inf
        processor_s = 0.0

        def arrive(self, call, at_s, finish):
            arrived.append(call)
            finish(at_s)

        def advance(self, to_s):
            pass

    async def three_times():
        planned = plan(Load(), 3.0, random.Random(1))
        run = _Run(Stations(), planned, None, None, retries_s=1.0)
        caller = SimpleNamespace(peer=lambda: "ipv4:127.0.0.1:1")
        for _ in range(3):
            await run.answer(0, planned.kinds[0], b"item-%d/0" % planned.items[0], caller)
        return run.tally.result(0.0)

    assert 1 == asyncio.run(three_times()).answered
    assert 1 == len(arrived)
