"""Lesson 13: which server, the models of its questions, and what old counts show."""

import dataclasses
import time
from itertools import count

import answers  # noqa: F401 - it fills the table
import numpy as np
import pytest
from made_runs import closed_loop
from verdicts import known_wrong

from kvstore.client import load, workload
from kvstore.client.strategies import bounded, futures
from kvstore.course.exercises import find
from kvstore.course.exercises.grading import judged
from kvstore.course.experiments.several_servers import Spread
from kvstore.course.lessons.lesson_13 import exercises, questions
from kvstore.course.questions import registered
from kvstore.server import serving_replicas

FAST = {"use_asyncio": True, "locking": "global", "read_delay_s": 0.010}
READS = workload.reads(value_bytes_mean=16)


@pytest.mark.parametrize("name", ["13.least_open", "13.two_choices"])
def test_no_right_answer_is_rejected_by_chance(name):
    exercise = find(name)
    verdicts = {judged(exercise, exercise.reference).outcome for _ in range(30)}

    assert {"passed"} == verdicts


def test_each_wrong_answer_has_a_sentence_of_its_own():
    """Two mistakes with one message would not tell the learner which of them it is."""
    for name in ("13.least_open", "13.two_choices"):
        messages = [judged(find(name), wrong.answer).message for wrong in known_wrong(name)]
        known = {wrong.expected for wrong in known_wrong(name)}

        assert len(known) >= 6
        for message in messages:
            assert 1 == sum(expected in message for expected in known), message


def test_shares_of_the_best_of_several_by_hand():
    assert [0.4, 0.3, 0.2, 0.1, 0] == pytest.approx(exercises._expected(5))
    assert [0.6, 0.3, 0.1, 0, 0] == pytest.approx(exercises._expected(5, 3))


# ---- models of the questions ---------------------------------------------------------------------


def test_models_by_hand():
    assert 50 == pytest.approx(questions.in_equal_shares().value)
    assert 100 == pytest.approx(questions.in_equal_shares([0.010, 0.010, 0.010, 0.040]).value)
    assert 116.7 == pytest.approx(questions.all_busy().value, rel=1e-3)
    assert 17.8 == pytest.approx(questions.late_in_turn().value, rel=1e-2)
    assert 0.02 == questions.herd_s(0)
    assert 0.94 == pytest.approx(questions.herd_s(0.2))
    assert 0.10 == pytest.approx(questions.herd_s(0.2, 2 / 8))


def test_late_calls_agree_with_a_queue_walked_through():
    """A call every 40 ms, 20 ms of service, and no service in the first second of every three."""
    free_s, late, calls = 0.0, 0, 0
    for number in range(75 * 40):
        due_s = number / 25
        free_s = max(free_s, due_s)
        if free_s % 3 < 1:
            free_s += 1 - free_s % 3
        free_s += 0.020
        late += free_s - due_s > questions.LATE_S + 0.020
        calls += 1

    assert questions.late_in_turn().value == pytest.approx(100 / 3 * late / calls, rel=0.05)


def test_a_herd_agrees_with_a_queue_walked_through():
    """All calls of one report go to one server."""
    free_s, longest_s = 0.0, 0.0
    for number in range(int(0.2 * questions.RATE_PER_S)):
        due_s = number / questions.RATE_PER_S
        free_s = max(free_s, due_s) + 0.020
        longest_s = max(longest_s, free_s - due_s)

    assert questions.herd_s(0.2) == pytest.approx(longest_s, rel=0.05)


def test_what_is_measured_by_hand():
    run = closed_loop(2, 50, rounds=20)
    records = run.records.copy()
    records["connection"] = np.arange(len(records)) % 2
    records["due_s"] = records["sent_s"] - np.where(records["connection"] == 0, 1.0, 0.0)
    run = dataclasses.replace(
        run, records=records, settings={"duration_s": float(records["done_s"].max())}
    )

    assert 50 == questions.late_share(run)
    assert 2 == pytest.approx(sum(questions.open_at(run, 2)), rel=0.05)
    assert 30 == registered("13.round_robin").measured(Spread((10, 10, 10), 1.0))
    assert 1_000 * 0.4 in registered("13.old_counts").measured({0.4: run})


# ---- the experiment ------------------------------------------------------------------------------


def test_counts_are_as_old_as_the_last_report(monkeypatch):
    seen, clock = [], iter([10.0, 10.1, 10.25, 10.3])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    choose = questions.old_counts(lambda open_calls: seen.append(open_calls) or 0, 0.2)
    for calls in range(4):
        choose([calls, 0])

    assert [[0, 0], [0, 0], [2, 0], [2, 0]] == seen


def test_a_choice_by_old_counts_cannot_change_the_report():
    choose = questions.old_counts(lambda open_calls: open_calls.pop(), 60.0)

    assert [7, 7] == [choose([3, 7]), choose([0, 0])]


@pytest.mark.slow
def test_in_turn_the_slowest_server_decides_and_by_open_calls_it_does_not():
    """Two real servers, of which one is five times as slow; counts, and no speeds."""
    turn = count()
    with serving_replicas([FAST, FAST | {"read_delay_s": 0.050}]) as both:
        in_turn = load.run(
            bounded, both, READS, choose=lambda _: next(turn) % 2, in_flight=10, duration_s=1.0
        )
        least = load.run(
            bounded, both, READS, choose=exercises.least_open, in_flight=10, duration_s=1.0
        )
    shares = [np.bincount(run.records["connection"], minlength=2) for run in (in_turn, least)]

    assert abs(shares[0][0] - shares[0][1]) <= 1
    assert shares[1][0] > 2 * shares[1][1]
    assert questions.open_at(in_turn, 2)[1] > 6
    assert questions.open_at(least, 2)[1] < 6.5


@pytest.mark.slow
def test_all_calls_between_two_reports_go_to_one_server():
    """A canary for the surprise of round 4: the herd."""

    def first_of_the_fewest(open_calls):
        return open_calls.index(min(open_calls))

    with serving_replicas([FAST] * 3) as three:
        old = questions.old_counts(first_of_the_fewest, 0.25)
        run = load.run(futures, three, READS, choose=old, rate_per_s=200, duration_s=1.0)
    used = run.calls["connection"].to_numpy()
    changes = int((np.diff(used) != 0).sum())

    assert len(set(used)) > 1
    assert changes <= 1.0 / 0.25 + 1
