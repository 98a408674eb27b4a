"""Services of the capstone: their stations by hand, what changes bring, what a brief shows."""

import json
import math
import random

import pytest
from judge_cases import PAIRS, case_of, reached

from kvstore.course.lessons.lesson_15.judge.cases import (
    CHANGES,
    STATIONS,
    STREAMS,
    Call,
    Network,
    Width,
    draw,
)
from kvstore.course.lessons.lesson_15.judge.sitting import Sitting
from kvstore.course.lessons.lesson_15.judge.traffic import NEVER_S, Plan, Tally
from kvstore.protocol import CREATE, RETRIEVE, UPDATE


def network(**widths):
    """A network in which nothing takes time, but for these stations."""
    free = dict.fromkeys(STATIONS, Width(math.inf, 0.0))
    named = {name.replace("_", " "): width for name, width in widths.items()}
    return Network(free | named, widths.pop("delay_s", 0.0), 5)


def finished(of, calls):
    """The times at which calls that arrive at once have finished."""
    times = []
    for kind, item, peer in calls:
        of.arrive(Call(kind, item, 1000, peer), 0.0, times.append)
    of.advance(math.inf)
    return [round(each, 9) for each in times]


READ, WRITE, NEW = (RETRIEVE, 1, "a"), (UPDATE, 1, "a"), (CREATE, 1, "a")
BY_HAND = [
    ({"processor": Width(1, 0.01)}, [READ, WRITE, NEW], [0.01, 0.02, 0.03]),
    ({"global_lock": Width(2, 0.01)}, [READ] * 4, [0.01, 0.01, 0.02, 0.02]),
    ({"disk": Width(1, 0.01)}, [READ, WRITE, READ], [0.0, 0.01, 0.02]),
    ({"commit_log": Width(1, 0.01)}, [WRITE, NEW, READ], [0.0, 0.01, 0.02]),
    ({"commit_log": Width(1, 0.01, group=8)}, [WRITE] * 10, [0.01, *[0.02] * 8, 0.03]),
    ({"back_end": Width(1, 0.01)}, [NEW, WRITE, NEW], [0.0, 0.01, 0.02]),
    ({"hot_key": Width(1, 0.01)}, [READ, READ, (RETRIEVE, 2, "a")], [0.01, 0.01, 0.02]),
    ({"message_size": Width(1, 1e-5)}, [READ, READ], [0.01, 0.02]),
    ({"retries": Width(1, 0.002)}, [READ, READ], [0.01, 0.02]),
    ({"pool": Width(1, 0.0), "disk": Width(9, 0.01)}, [READ, READ], [0.01, 0.02]),
    ({"stream_cap": Width(1, 0.0), "disk": Width(9, 0.01)}, [READ, READ], [0.01, 0.02]),
    (
        {"stream_cap": Width(1, 0.0), "disk": Width(9, 0.01)},
        [READ, (RETRIEVE, 1, "b")],
        [0.01, 0.01],
    ),
]


def tally_of(times, due_s=None, length_s=10.0):
    """The tally of a run: for each serial number the times of arrival and of the answer."""
    count = len(due_s) if due_s else 6000
    tally = Tally(Plan([RETRIEVE] * count, [1] * count, due_s, length_s, 1000))
    for serial, (arrived_s, answered_s) in times.items():
        tally.arrived(serial, arrived_s)
        tally.ended(serial, answered_s)
    return tally


def test_in_an_open_loop_a_call_without_an_answer_is_the_slowest_of_all():
    due_s = [0.1 * n for n in range(90)]
    answered = {n: (at_s, at_s + 0.2) for n, at_s in enumerate(due_s) if n % 40}
    result = tally_of(answered, due_s).result(0.0)

    assert (3, 87) == (result.lost, result.answered)
    assert NEVER_S == result.p99_s == result.steady_p99_s
    assert 0.2 == pytest.approx(result.mean_s)


def test_answers_to_operations_that_a_client_chose_do_not_count():
    """Every third operation is easy. A client that sends only these leaves out too many others."""
    in_order = {n: (0.02 * n, 0.02 * n + 0.4) for n in range(480)}
    chosen = {3 * n: (0.02 * n, 0.02 * n + 0.4) for n in range(480)}

    assert 50.0 == pytest.approx(tally_of(in_order).result(0.0).throughput_per_s, rel=0.05)
    assert 3.0 > tally_of(chosen).result(0.0).throughput_per_s
    assert 3.0 > tally_of(chosen).result(0.0).steady_per_s


def test_a_call_that_is_sent_before_it_is_due_saves_no_time():
    tally = Tally(Plan([RETRIEVE] * 3, [1] * 3, [0.0, 1.0, 2.0], 3.0, 1000))
    for serial, (arrived_s, finished_s) in enumerate([(5.0, 5.5), (5.0, 6.4), (7.1, 7.5)]):
        tally.arrived(serial, arrived_s)
        tally.ended(serial, finished_s)

    assert (0.5 + 1.4 + 0.5) / 3 == pytest.approx(tally.result(0.0).mean_s)


@pytest.mark.parametrize(("widths", "calls", "expected"), BY_HAND)
def test_each_station_by_hand(widths, calls, expected):
    assert expected == finished(network(**widths), calls)


def test_more_connections_help_where_the_cap_of_streams_binds():
    case = case_of(STREAMS, None)
    one, two = (reached(case, connections=n).throughput_per_s for n in (1, 2))

    assert two > 1.5 * one


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), PAIRS[::14])
def test_both_changes_are_needed_and_no_other_single_change_helps_more(first, then):
    case = case_of(first, then)
    today = reached(case).throughput_per_s
    gains = {each: reached(case, [each]).throughput_per_s / today for each in CHANGES}
    both = reached(case, case.cures()).throughput_per_s / today

    assert both > 2.0
    if then is None:
        assert max(gains, key=gains.get) == case.cures()[0]
        assert sorted(gains.values())[-2] < 1.1
    else:
        assert max(gains.values()) < 1.5
        assert max(gains[each] for each in gains if each not in case.cures()) < 1.05


@pytest.mark.parametrize("seed", range(3))
def test_the_brief_does_not_depend_on_the_bottleneck(seed):
    briefs = {
        json.dumps(Sitting(case_of(first, then, seed), random.Random(1)).brief())
        for first, then in PAIRS[::17]
    }

    assert 1 == len(briefs)


def test_the_draws_have_every_station_and_faults_in_one_of_three():
    cases = [draw(random.Random(seed)) for seed in range(600)]

    assert {case.first for case in cases} == set(STATIONS)
    assert 0.75 < sum(case.second is not None for case in cases) / 600 < 0.85
    assert 0.25 < sum(case.fault is not None for case in cases) / 600 < 0.42
    assert {"stall", "goes", None} == {case.fault for case in cases}
    assert 0.4 < sum(case.open_loop for case in cases) / 600 < 0.6
    assert all(case.delay_s > 0 for case in cases)
    assert {name for name, _ in CHANGES.values()} == set(STATIONS)
