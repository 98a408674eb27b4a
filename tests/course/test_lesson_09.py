"""Lesson 09: what its exercises accept, and the models of its questions."""

import dataclasses
import math

import made_runs
import pandas as pd
import pytest

from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_09 import exercises as lesson_09
from kvstore.course.lessons.lesson_09 import exercises_server as lesson_09_server
from kvstore.course.lessons.lesson_09 import figures, giving_up
from kvstore.course.questions import registered
from kvstore.measure import Sample
from kvstore.measure.recorder import Recorder
from kvstore.model import Prediction
from kvstore.protocol import StationTimes

# 09.shed --------------------------------------------------------------------------------------


def test_an_interceptor_refuses_only_with_more_threads_than_places():
    """A call that waits for a thread has not reached the interceptor yet."""
    behind_few = lesson_09_server.shed(lesson_09_server.Shed, threads=2, limit=3, calls=20)
    behind_many = lesson_09_server.shed(lesson_09_server.Shed, threads=30, limit=3, calls=20)

    assert "20 OK, 0 refused" in behind_few
    assert " 0 refused" not in behind_many


def test_a_method_that_looks_ahead_reads_less_for_each_answer_in_time():
    this_piece = giving_up.under_load(lesson_09.Reader, for_s=0.8)
    the_rest = giving_up.under_load(giving_up.LooksAhead, for_s=0.8)

    assert the_rest.pieces_in_vain < 0.5 * this_piece.pieces_in_vain
    # On a busy machine both answer fewer calls in time; the work for one answer stays apart.
    assert the_rest.pieces / the_rest.in_time < 0.8 * this_piece.pieces / this_piece.in_time
    for found in (this_piece, the_rest):
        assert found.sent > found.in_time > 0
        assert found.pieces == found.pieces_in_vain + giving_up.PIECES * found.in_time


# 09.give_up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", [lesson_09_server.SHED, lesson_09.GIVE_UP])
def test_a_class_that_is_still_to_be_written_is_not_attempted(exercise):
    from kvstore.course import NOT_ATTEMPTED

    class Unwritten(exercise.reference):
        def intercept_service(self, continuation, details):
            return NOT_ATTEMPTED

        def Retrieve(self, request, context):
            return NOT_ATTEMPTED

    assert judged(exercise, Unwritten).outcome == "not attempted"


# The functions of the further lessons -----------------------------------------------------------


def test_in_time_for_is_a_queue_in_small_steps():
    offered, threads, disk_s, deadline_s = 300.0, 4, 0.025, 0.2
    queue, at_s, step_s = 0.0, 0.0, 1e-4
    while queue * disk_s / threads <= deadline_s - disk_s:
        queue, at_s = queue + (offered - threads / disk_s) * step_s, at_s + step_s

    found = lesson_09.in_time_for_s(offered, threads, disk_s, deadline_s)
    assert found == pytest.approx(at_s, rel=0.01)
    assert lesson_09.in_time_for_s(100.0, threads, disk_s, deadline_s) == math.inf


# Models of the questions -----------------------------------------------------------------------


def burst(*, answered_s=4.0, count=8, status="OK", grown_mb=80.0, **settings):
    """A burst of calls that end one after the other."""
    stations = StationTimes(0.0, answered_s - 0.1, 0.1, 0.0)
    calls = [
        (0.0, answered_s * (n + 1) / count, "create", status if n % 2 else "OK", stations)
        for n in range(count)
    ]
    samples = pd.DataFrame(0.0, index=range(3), columns=list(Sample._fields))
    samples["server_rss_bytes"] = [5e7, 5e7 + 1e6 * grown_mb, 5e7]
    run = made_runs.run_of(calls, in_flight=count)
    server = {
        "settings": {"write_delay_s": 0.5, "max_concurrent_rpcs": None, **settings},
        "operations": {"create/OK": run.operations_ok},
    }
    return dataclasses.replace(run, sample_rows=samples.to_records(index=False), server=server)


def open_loop(*, late=0.0, lost=0):
    """Reads at 20/s for 2 s with a deadline of 0.1 s; `late` of them take 0.2 s."""
    recorder = Recorder()
    for number in range(40):
        took_s = 0.2 if number < 40 * late else 0.02
        recorder.record(number / 20, number / 20, number / 20 + took_s, 2, 0, 64, 64)
    settings = {"threads": 1, "read_delay_s": 0.1, "max_concurrent_rpcs": None}
    return dataclasses.replace(
        made_runs.run_of([]),
        settings={"deadline_s": 0.1, "duration_s": 2.0},
        server={"operations": {"retrieve/OK": 40}, "settings": settings},
        window_s=2.2,
        issued=40 + lost,
        records=recorder.array(),
    )


def test_the_models_are_computed_from_the_settings():
    burst_q, wait, free = (
        registered(f"09.{name}") for name in ("burst", "limit_wait", "goodput_limit")
    )

    assert burst_q.model(burst()).value == burst_q.measured(burst()) == 4.0
    assert wait.model(burst(max_concurrent_rpcs=4)).value == 2.0
    assert wait.measured(burst()) == pytest.approx(4.0)
    # The late calls are those of the first second; of the last 4/3 s, 20 calls are in time.
    assert free.measured(open_loop(late=0.5)) == pytest.approx(15.0)
    # 10/s of 20/s are served, and with S = T nothing may wait.
    assert free.model(open_loop()).value == 0.0


# ---- tables --------------------------------------------------------------------------------------


def test_each_offered_rate_stands_beside_its_prediction():
    table = figures.goodput_by_offered_table(
        {"a": [made_runs.paced(60, per_s=20.0)]},
        {"a": lambda per_s: Prediction(per_s / 2, "calls/s", "")},
    )

    assert (20.0, 10.0) == tuple(table.loc["a", ["offered (calls/s)", "predicted (calls/s)"]])
    assert pytest.approx(40 / 3, rel=1e-3) == table.loc["a", "in time (calls/s)"]
    assert (20, 0, 20) == tuple(table.iloc[0, -3:])
