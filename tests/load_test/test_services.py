"""Calibration, search and runs against services that are slow, shed, fail, stream or go away."""

import os
import signal
import threading
import time
from contextlib import ExitStack

import pytest
from greeter import greeter

from kvstore.client import load
from kvstore.client.channel import Target
from kvstore.client.plan import RunOptions
from kvstore.client.strategies import bounded, tasks
from kvstore.client.workload import MethodCalls
from kvstore.load_test.findings import findings, findings_of_calibration, outages, populations
from kvstore.load_test.first_call import first_call, with_an_end
from kvstore.load_test.levels import calibrate
from kvstore.load_test.search import Objective, search
from kvstore.measure import Outcome
from kvstore.protocol import STATUSES

pytestmark = pytest.mark.slow  # `alone`: it compares a measurement with what the service can do

WORKERS, SLEEP_S = 4, 0.03
HELLO = MethodCalls(
    method="greeter.v1.Greeter/Hello", shape="unary_unary", requests=((b"\n\x01a",),)
)
TO_EACH = MethodCalls(
    method="greeter.v1.Greeter/HelloToEach",
    shape="unary_stream",
    requests=((b"\n\xc7\x01" + b",".join([b"a"] * 100),),),
)
"""A hundred greetings: the first call is cut before they end."""


@pytest.fixture(scope="module")
def service():
    """The target of a service with four workers."""
    with greeter(workers=WORKERS, work_s=SLEEP_S) as running:
        yield Target(running.address)


@pytest.fixture(scope="module")
def calibration(service):
    """A calibration whose levels would be too short for a few calls, if calls did not count."""
    return calibrate(tasks, service, HELLO, RunOptions(), step_s=0.2)


@pytest.mark.alone
def test_ceiling_knee_and_littles_law_of_a_sleeping_service(calibration):
    assert calibration.ceiling_per_s == pytest.approx(WORKERS / SLEEP_S, rel=0.08)
    assert calibration.ceiling.low <= calibration.ceiling_per_s <= calibration.ceiling.high
    assert calibration.knee == pytest.approx(WORKERS, rel=0.1)
    assert calibration.no_queue.value == pytest.approx(SLEEP_S, rel=0.1)
    assert calibration.saturated
    for level in calibration.levels:
        assert level.little == pytest.approx(1, abs=0.02), level
    assert not calibration.limit.known
    assert "could be" in calibration.limit.evidence


@pytest.mark.alone
def test_a_service_that_sheds_has_the_ceiling_of_what_succeeds():
    with greeter(workers=4, work_s=SLEEP_S, at_once=5) as running:
        target = Target(running.address)
        calibration = calibrate(tasks, target, HELLO, RunOptions(), step_s=0.2)
        run = load.run(tasks, target, HELLO, in_flight=16, duration_s=1, drain_s=1)

    assert calibration.ceiling_per_s == pytest.approx(4 / SLEEP_S, rel=0.08)
    assert calibration.knee == pytest.approx(4, rel=0.1)
    assert calibration.fails_from.in_flight in (5, 6)  # a place is free a moment after the reply
    assert "RESOURCE_EXHAUSTED" in findings_of_calibration(calibration)[0].text
    assert "refuses" in calibration.limit.name
    assert calibration.closed_loop(16).value == pytest.approx(run.throughput_per_s, rel=0.2)
    ok, failed = populations(run)
    assert ("OK", "failed") == (ok.name, failed.name)
    assert ok.calls + failed.calls == run.issued
    assert ok.latency["p50"].value_s >= SLEEP_S > failed.latency["p50"].value_s
    assert "failures" == findings(run, calibration)[0].name


@pytest.mark.alone
def test_the_search_finds_a_rate_below_the_ceiling_that_lasts():
    options = RunOptions(in_flight=1000, arrivals="random")
    with greeter(workers=WORKERS, work_s=0.01) as running:
        target = Target(running.address)
        calibration = calibrate(bounded, target, HELLO, options, step_s=0.1)
        result = search(
            bounded, target, HELLO, Objective(latency_s=1.0), calibration, options, search_s=6
        )

    assert 0.4 * WORKERS / 0.01 <= result.rate_per_s <= calibration.ceiling_per_s
    assert all(step.rate_per_s <= calibration.ceiling_per_s for step in result.steps)


@pytest.mark.alone
def test_a_rate_far_too_high_ends_in_time_and_names_the_limit_in_flight(service):
    began_s = time.perf_counter()
    run = load.run(
        bounded,
        service,
        HELLO,
        rate_per_s=1500,
        duration_s=1,
        in_flight=100,
        drain_s=0.1,
        arrivals="random",
    )
    took_s = time.perf_counter() - began_s

    texts = {each.name: each.text for each in findings(run)}
    assert took_s < 4  # all calls would take 11 s
    assert run.outcome is Outcome.COMPLETE
    assert "100 calls in flight" in texts["limit in flight"]
    assert "generator" not in texts
    assert {"OK", "cut off"} == {each.name for each in populations(run)}


def test_a_stream_without_end_is_cut_and_its_messages_are_counted(service):
    first = first_call(service, TO_EACH, RunOptions())
    began_s = time.perf_counter()
    run = load.run(
        tasks, service, with_an_end(TO_EACH, first), in_flight=2, duration_s=1.2, drain_s=0.3
    )
    took_s = time.perf_counter() - began_s

    streams = run.settings["streams"]
    assert not first.ends
    assert took_s < 5
    assert {"OK", "CANCELLED"} >= {*run.outcomes()}
    # 2 streams for 1.2 to 1.5 s, 33 messages/s each
    assert 20 <= streams["messages"] <= 110
    assert streams["cut"] >= 2
    assert 0 < streams["first_message_s"]["p50"] < 0.3


@pytest.mark.alone
def test_a_run_goes_on_while_the_service_restarts_and_says_when_it_was_away():
    calm = {"workers": 4, "work_s": 0.02}
    with ExitStack() as stack:
        running = stack.enter_context(greeter(**calm))
        port = int(running.address.rpartition(":")[2])

        def restart() -> None:
            os.kill(running.pid, signal.SIGKILL)
            time.sleep(0.5)
            stack.enter_context(greeter(**calm, port=port))

        timer = threading.Timer(1.0, restart)
        timer.start()
        try:
            run = load.run(
                tasks,
                Target(running.address),
                HELLO,
                in_flight=4,
                duration_s=7,
                drain_s=1,
                keep_going=True,
            )
        finally:
            timer.join()

    (away,) = outages(run)
    assert run.outcome is Outcome.COMPLETE
    away_s = away.until_s - away.from_s
    assert 0.5 <= away_s < 6
    assert 0 < away.failed
    later = run.records["done_s"] > away.from_s + 0.4  # by then the run has seen that it is away
    failed_later = later & (run.records["status"] != STATUSES.index("OK"))
    assert failed_later.sum() < 100  # the callers wait before they try again
    assert run.outcomes()["OK"] > 100
    named = {each.name for each in findings(run)}
    assert "away" in named
    assert "warm-up" not in named


def test_a_service_that_freezes_shows_in_the_latency_of_an_open_loop():
    with greeter(workers=8, work_s=0.005) as running:
        timers = [
            threading.Timer(at_s, os.kill, [running.pid, what])
            for at_s, what in ((0.5, signal.SIGSTOP), (2.0, signal.SIGCONT))
        ]
        for timer in timers:
            timer.start()
        run = load.run(
            bounded,
            Target(running.address),
            HELLO,
            in_flight=1000,
            rate_per_s=100,
            duration_s=2.5,
            arrivals="random",
            drain_s=3,
        )

    (ok,) = populations(run)
    assert 1.0 < ok.latency["p99"].value_s < 2.5
