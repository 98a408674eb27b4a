"""Lesson 08: its exercise, the queue on paper, and what its questions measure."""

import dataclasses

import numpy as np
import pytest
from made_runs import open_run

from kvstore.client import load, pacing, strategies, workload
from kvstore.course.exercises.grading import drawn_inputs
from kvstore.course.lessons.lesson_08 import exercises, figures
from kvstore.course.lessons.lesson_08 import questions as facts
from kvstore.course.questions import registered
from kvstore.model import Station, waiting
from kvstore.server import ServerSettings
from kvstore.server.store import DRAWS, disk_for

# ---- 08.rate_for ---------------------------------------------------------------------------------


def test_the_reference_finds_the_rate_at_which_the_percentile_meets_the_target():
    for given in drawn_inputs(exercises.RATES, 100):
        found = exercises.rate_for(**given)
        mean_s = waiting.residence(found or 1e-9, Station("worker", given["service_s"])).value
        percentile_s = -np.log1p(-given["share"]) * mean_s
        assert pytest.approx(given["within_s"]) == percentile_s or (
            found == 0 and percentile_s >= given["within_s"]
        )


# ---- what is measured ----------------------------------------------------------------------------


def test_the_time_of_a_call_counts_from_its_due_time():
    run = open_run([(0.0, 0.0, 0.02), (0.1, 0.15, 0.18)])

    assert 50.0 == pytest.approx(facts.mean_ms(run))
    assert 50.0 == pytest.approx(registered("08.random").measured(0.02, run))
    assert {0.5: 50.0} == pytest.approx(registered("08.curve").measured(0.02, {0.5: run}))


def test_a_refused_call_has_no_part_in_the_mean():
    answered = open_run([(0.0, 0.0, 0.02)])
    refused = open_run([(0.01, 0.01, 0.011)] * 3, status=8)
    both = dataclasses.replace(
        answered, issued=4, records=np.concatenate([answered.records, refused.records])
    )

    assert 20.0 == pytest.approx(facts.mean_ms(both))
    (row,) = figures.changes_table({"limit": both}).to_dict("records")
    assert {"mean (ms)": 20.0, "p99 (ms)": 20.0, "refused (%)": 75.0} == row


def test_a_replay_begins_where_most_calls_are_in_flight():
    run = open_run([(0.0, 0.0, 0.1), (0.2, 0.2, 0.4), (0.3, 0.3, 0.5), (0.4, 0.4, 0.6)])

    assert 0.3 == facts.most_in_flight_s(run)


@pytest.mark.parametrize(
    ("question", "in_service_times"),
    [("08.random", 3.0), ("08.long_jobs", 11.0), ("08.second_worker", 1 + 2.5 * 0.16 / 0.84)],
)
def test_the_model_of_each_question(question, in_service_times):
    found = registered(question).model(0.02, None)

    assert 0.02 * in_service_times == pytest.approx(found.value)
    assert "s" == found.unit


def test_the_model_of_the_curve_is_the_law_up_to_the_last_run():
    found = registered("08.curve").model(0.02, {0.3: None, 0.9: None})

    assert {40.0: 0.5, 100.0: 0.8, 200.0: 0.9} == {
        round(found[busy], 6): busy for busy in (0.5, 0.8, 0.9)
    }
    assert max(found) == 0.9


def test_the_reason_shown_in_round_1_does_not_answer_round_2():
    """The law of round 2 has the wait of exponential times, which is twice that of round 1."""
    assert "exponential" in facts.law(0.8, 0.02, "fixed").reason
    assert "exponential" not in facts.random_arrivals(0.02).reason


# ---- the queue on paper --------------------------------------------------------------------------


def test_the_queue_on_paper_by_hand():
    """20 ms of disk, 1 ms besides: the second call waits for 11 ms, the third for nothing."""
    run = open_run([(0.0, 0.0, 0.1), (0.01, 0.01, 0.1), (0.5, 0.5, 0.6)])

    assert [21.0, 32.0, 21.0] == pytest.approx(facts.played_ms(run, 0.021))
    two = open_run([(0.0, 0.0, 0.1), (0.01, 0.01, 0.1), (0.5, 0.5, 0.6)], threads=2)
    assert [21.0, 21.0, 21.0] == pytest.approx(facts.played_ms(two, 0.021))


@pytest.mark.parametrize("disk_times", DRAWS)
def test_the_queue_on_paper_has_the_disk_times_of_the_server(disk_times):
    named = {"disk_times": disk_times, "disk_seed": 7, "read_delay_s": 0.02}
    disk = disk_for(ServerSettings(**named, write_delay_s=0.0))
    apart = [(10.0 * n, 10.0 * n, 10.0 * n + 1) for n in range(30)]
    drawn_ms = [1e3 * disk.delay_s(2) for _ in apart]

    assert drawn_ms == pytest.approx(facts.played_ms(open_run(apart, **named), 0.02))


def test_one_worker_takes_calls_in_order_with_the_times_of_the_seed(own_server):
    """Whatever else takes time here: the long disk times are those of the calls on paper."""
    named = {"disk_times": "two_point", "disk_seed": 2, "read_delay_s": 0.004}
    server = own_server(threads=1, locking="global", station_times=True, write_delay_s=0.0, **named)
    due = {"due_times": pacing.poisson(150, seed=5), "calls": 60}
    run = load.run(strategies.futures, server, workload.reads(seed=1), **due)
    by_due = np.sort(run.records, order="due_s")
    apart = [(10.0 * n, 10.0 * n, 10.0 * n + 1) for n in range(60)]
    paper_ms = np.array(facts.played_ms(open_run(apart, **named), 0.004))

    assert len(by_due) == 60
    long = paper_ms > 20
    assert 0 < long.sum() < 20
    assert by_due["disk_s"][long].min() >= 0.027
    longest = np.argsort(by_due["disk_s"])[-int(long.sum()) :]
    assert long[longest].sum() >= long.sum() - 2  # a busy machine may lengthen a short one
