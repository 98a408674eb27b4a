"""Lesson 09: what its exercises accept, and the models of its questions."""

import dataclasses

import made_runs
import pytest

from kvstore.course.exercises import find
from kvstore.course.exercises.grading import judged
from kvstore.course.my_code import course_version
from kvstore.course.questions import registered
from kvstore.measure import ServerReport
from kvstore.protocol import StationTimes

# 09.shed -----------------------------------------------------------------------------------


def test_a_class_that_is_still_to_be_written_is_not_attempted():
    from kvstore.course import NOT_ATTEMPTED

    class Unwritten(course_version("limits.Shed")):
        def intercept_service(self, continuation, details):
            return NOT_ATTEMPTED

    assert judged(find("09.shed"), Unwritten).outcome == "not attempted"


# Models of the questions -----------------------------------------------------------------------


def burst(**settings):
    """Eight calls that end one after the other, in 4 s."""
    stations = StationTimes(0.0, 3.9, 0.1, 0.0)
    calls = [(0.0, 0.5 * (n + 1), "create", "OK", stations) for n in range(8)]
    made = {"write_delay_s": 0.5, "max_concurrent_rpcs": None, **settings}
    server = ServerReport.of({"settings": made})
    return dataclasses.replace(made_runs.run_of(calls, in_flight=8), server=server)


def open_loop(late=0.0):
    """Reads at 20/s for 2 s with a deadline of 0.1 s; `late` of them take 0.2 s."""
    times = [(n / 20, n / 20, n / 20 + (0.2 if n < 40 * late else 0.02)) for n in range(40)]
    run = made_runs.open_run(times, read_delay_s=0.1, max_concurrent_rpcs=None)
    return dataclasses.replace(run, settings={"deadline_s": 0.1, "duration_s": 2.0}, window_s=2.2)


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
