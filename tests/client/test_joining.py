"""Joins: callers start one by one, no call is lost, and the end of a run waits for no caller."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from tables import for_each

from kvstore.client import load, pacing, run_in_process, strategies, workload
from kvstore.client.errors import RunInterrupted
from kvstore.measure import audit

SMALL = workload.reads(value_bytes_mean=100)
WITH_CALLERS = for_each("strategy", [strategies.threads, strategies.tasks])


@pytest.mark.slow
@WITH_CALLERS
def test_no_more_calls_are_in_flight_than_users_have_joined(strategy, quick_server):
    joins = list(pacing.joins(pacing.climb(0, 8, steps=8, over_s=0.4)))
    run = load.run(strategy, quick_server, SMALL, in_flight=8, calls=2_000, joins=iter(joins))
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
def test_a_run_that_ends_before_all_have_joined_waits_for_no_caller(strategy, quick_server):
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

    with pytest.raises(RunInterrupted) as ended:
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
