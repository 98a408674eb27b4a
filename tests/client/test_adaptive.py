"""overload.py: the rule by hand, on a made-up server, and on a real one."""

import os
import signal
import threading

import pytest
from tables import for_each

from kvstore.client import load, workload
from kvstore.client.errors import RunInterrupted
from kvstore.client.overload import Adaptive, Limiter
from kvstore.measure import audit
from kvstore.server import serving


def after(limiter, count, took_s, begin_s=0.0):
    """So many calls, one after the other, each sent when the last one ended."""
    for _ in range(count):
        limiter.answered(begin_s, begin_s + took_s)
        begin_s += took_s
    return begin_s


def test_the_limit_grows_by_one_while_no_call_waits():
    limiter = Limiter(100)
    after(limiter, 1 + 2 + 3 + 4, 0.02)

    assert [1, 2, 3, 4, 5] == [limit for _, limit in limiter.history]


def test_a_quarter_fewer_when_too_many_wait():
    limiter = Limiter(100)
    now_s = after(limiter, sum(range(1, 8)), 0.02)
    assert 8 == limiter.limit

    after(limiter, 8, 0.03, now_s)  # of 8 calls of 30 ms, 2.7 wait when 20 ms would do
    assert 6 == limiter.limit


def test_two_that_wait_are_borne():
    limiter = Limiter(100)
    after(limiter, 8, 0.024, after(limiter, sum(range(1, 8)), 0.02))

    assert 9 == limiter.limit


def test_answers_to_calls_of_another_limit_tell_nothing():
    limiter = Limiter(100)
    limiter.answered(0.0, 1.0)
    for _ in range(10):
        limiter.answered(0.5, 1.5)

    assert 2 == limiter.limit


def test_a_refusal_is_heard_at_once_and_takes_no_part_in_the_times():
    limiter = Limiter(100)
    now_s = after(limiter, sum(range(1, 8)), 0.02)
    limiter.answered(now_s, now_s + 0.0001, refused=True)
    assert 6 == limiter.limit

    after(limiter, 6, 0.02, now_s + 0.001)
    assert 7 == limiter.limit


@for_each("took_s", [0.02, 0.0])
def test_the_limit_stays_within_one_and_the_most(took_s):
    limiter = Limiter(3)
    now_s = after(limiter, 100, 0.02)
    assert 3 == limiter.limit

    for _ in range(9):
        limiter.answered(now_s, now_s + took_s, refused=True)
        now_s += 0.1
    assert 1 == limiter.limit


@for_each("places", [2, 8, 30])
@for_each("first_s", [0.001, 0.5])
def test_it_settles_where_a_few_wait(places, first_s):
    """A pool that serves `places` at once: whatever is above them waits, by Little's law."""
    limiter, now_s = Limiter(1_000), 0.0
    while now_s < 400 * first_s:
        took_s = first_s * max(1.0, limiter.limit / places)
        sent_s, now_s = now_s, now_s + took_s
        for _ in range(limiter.limit):
            limiter.answered(sent_s, now_s)

    assert 0.75 * places <= limiter.settled(now_s) <= places + 3


def test_the_settled_limit_is_a_mean_over_time():
    limiter = Limiter(9)
    limiter.history = [(0.0, 1), (4.0, 2), (6.0, 4), (9.0, 8)]

    assert pytest.approx((2 * 1.0 + 4 * 3.0 + 8 * 1.0) / 5) == limiter.settled(10.0)


@pytest.mark.slow
def test_on_a_real_server_it_keeps_the_pool_busy_and_the_queue_short():
    """Eight threads, and up to 200 calls in flight if it wishes: it stays within a wide band."""
    reads = workload.reads(seed=1, value_bytes_mean=64)
    strategy = Adaptive()
    with serving(read_delay_s=0.03, locking="per_key", threads=8) as server:
        run = load.run(strategy, server, reads, in_flight=200, duration_s=1.5)

    assert audit(run).holds
    assert {"OK"} == set(run.outcomes())
    assert 2 <= strategy.limiter.settled(run.window_s) <= 24
    assert run.samples["in_flight"].max() <= 24


@pytest.mark.slow
def test_an_interrupted_run_is_whole():
    reads = workload.reads(seed=1, value_bytes_mean=64)
    interrupt = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

    def once(sample) -> None:
        if sample.answered >= 5 and interrupt.ident is None:
            interrupt.start()

    with (
        serving(read_delay_s=0.02, locking="per_key", threads=4) as server,
        pytest.raises(RunInterrupted) as ended,
    ):
        load.run(Adaptive(), server, reads, in_flight=50, duration_s=30, on_sample=once)

    assert audit(ended.value.run).holds
    assert {"OK"} == set(ended.value.run.outcomes())
