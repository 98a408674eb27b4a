"""joining.py: callers begin one by one, nobody is lost, and the end is not waited for in vain."""

import math
import os
import signal
import threading
import time

import numpy as np
import pytest

from kvstore.client import load, pacing, run_in_process, strategies, workload
from kvstore.client.joining import checked
from kvstore.measure import audit

SMALL = workload.reads(value_bytes_mean=100)
WITH_CALLERS = pytest.mark.parametrize(
    "strategy", [strategies.threads, strategies.tasks], ids=lambda s: s.__name__
)


@pytest.mark.parametrize(
    ("named", "joins"),
    [
        ("when 2 users begin, and in_flight is 3", [0.0, 1.0]),
        ("when more users begin, and in_flight is 3", [0.0, 1.0, 2.0, 3.0]),
        ("0 or more, in order", [0.0, 2.0, 1.0]),
        ("0 or more, in order", [-1.0, 0.0, 1.0]),
        ("0 or more, in order", [0.0, 1.0, math.inf]),
        ("0 or more, in order", [0.0, 1.0, math.nan]),
    ],
)
def test_times_that_make_no_sense_are_refused(named, joins):
    with pytest.raises(ValueError, match=named):
        checked(joins, 3, strategies.tasks)


def test_a_climb_without_end_is_not_waited_for():
    with pytest.raises(ValueError, match="more users begin"):
        checked(pacing.constant_rate(10), 3, strategies.tasks)


@pytest.mark.parametrize(
    "strategy",
    [s for s in strategies.STRATEGIES if s not in (strategies.threads, strategies.tasks)],
    ids=lambda s: s.__name__,
)
def test_a_strategy_without_callers_of_its_own_is_refused_by_name(strategy):
    with pytest.raises(ValueError, match=f"join {strategy.__name__} one by one: only .* threads"):
        load.run(strategy, "127.0.0.1:1", SMALL, in_flight=1, calls=1, joins=[0.0])


@pytest.mark.slow
@WITH_CALLERS
def test_no_more_calls_are_in_flight_than_users_have_joined(strategy, quick_server):
    joins = list(pacing.joins(pacing.climb(0, 8, steps=8, over_s=0.4)))
    run = load.run(strategy, quick_server, SMALL, in_flight=8, duration_s=0.5, joins=iter(joins))
    calls = run.records
    at_s = np.sort(calls["sent_s"])
    in_flight = [np.count_nonzero((calls["sent_s"] <= at) & (calls["done_s"] > at)) for at in at_s]

    assert joins == list(run.settings["joins"])
    assert max(in_flight) > 4
    assert all(np.searchsorted(joins, at_s, side="right") >= in_flight)
    assert audit(run).holds
    assert set(run.outcomes()) == {"OK"}


@pytest.mark.slow
@WITH_CALLERS
def test_a_run_that_ends_before_all_have_joined_waits_for_nobody(strategy, quick_server):
    started_s = time.perf_counter()
    run = load.run(strategy, quick_server, SMALL, in_flight=2, calls=5, joins=[0.0, 60.0])

    assert 5 == run.issued
    assert time.perf_counter() - started_s < 20


@pytest.mark.slow
@WITH_CALLERS
def test_an_interrupt_in_the_middle_of_a_climb_ends_it(strategy, quick_server):
    started_s = time.perf_counter()
    interrupt = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

    def on_sample(sample):
        if sample.answered >= 5 and interrupt.ident is None:
            interrupt.start()

    with pytest.raises(load.RunInterrupted) as ended:
        load.run(
            strategy, quick_server, SMALL, in_flight=2, duration_s=90, joins=[0.0, 60.0],
            on_sample=on_sample,
        )  # fmt: skip

    assert time.perf_counter() - started_s < 20
    assert {"OK"} == set(ended.value.run.outcomes())
    assert audit(ended.value.run).holds


@pytest.mark.slow
def test_users_can_join_a_run_in_a_process_of_its_own(quick_server):
    climb = pacing.joins(pacing.climb(0, 3, steps=3, over_s=0.1))
    run = run_in_process(strategies.tasks, quick_server, SMALL, in_flight=3, calls=30, joins=climb)

    assert 3 == len(run.settings["joins"])
    assert 30 == run.issued
