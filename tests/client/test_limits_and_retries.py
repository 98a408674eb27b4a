"""overload.py: pauses and limits computed by hand, and many callers of a real server."""

import asyncio
import math
import os
import random
import signal
import threading

import grpc
import pytest

from kvstore.client import load, workload
from kvstore.client.errors import RunInterrupted
from kvstore.client.overload import Adaptive, Backoff, Budget, Limiter, Retrying, in_step
from kvstore.measure import audit
from kvstore.server import serving

READS = workload.reads(seed=1, value_bytes_mean=64)
RNG = random.Random(1)
DISK_S, PLACES = 0.05, 2


# ---- the limit -----------------------------------------------------------------------------


def after(limiter, count, took_s, begin_s=0.0):
    """So many calls, one after the other, each sent when the last one ended."""
    for _ in range(count):
        limiter.answered(begin_s, begin_s + took_s)
        begin_s += took_s
    return begin_s


@pytest.mark.parametrize(("took_s", "limit"), [(0.020, 9), (0.024, 9), (0.030, 6)])
def test_the_limit_grows_by_one_and_falls_by_a_quarter_when_too_many_queue(took_s, limit):
    """Of 8 calls of 24 ms, 1.3 queue where 20 ms would do, which is borne; of 30 ms, 2.7."""
    limiter = Limiter(100)
    now_s = after(limiter, sum(range(1, 8)), 0.02)
    assert [1, 2, 3, 4, 5, 6, 7, 8] == [each for _, each in limiter.history]

    after(limiter, 8, took_s, now_s)
    assert limit == limiter.limit


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


def test_the_limit_stays_within_one_and_the_most():
    limiter = Limiter(3)
    now_s = after(limiter, 100, 0.02)
    assert 3 == limiter.limit

    for _ in range(9):
        limiter.answered(now_s, now_s, refused=True)
        now_s += 0.1
    assert 1 == limiter.limit


@pytest.mark.parametrize("places", [2, 30])
@pytest.mark.parametrize("first_s", [0.001, 0.5])
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


# ---- pauses and the budget -----------------------------------------------------------------


def test_without_jitter_pauses_double_up_to_the_longest():
    backoff = Backoff(first_s=0.02, most_s=0.1, pause_s=in_step)

    assert [0.02, 0.04, 0.08, 0.1, 0.1] == [backoff.wait_s(n, RNG) for n in range(1, 6)]
    assert 0.1 == backoff.wait_s(10_000, RNG)  # 2 to this power is no number any more
    assert {0.0} == {Backoff(first_s=0).wait_s(n, RNG) for n in (1, 2, 50)}


@pytest.mark.parametrize("failures", [1, 3, 9])
def test_full_jitter_uses_all_of_the_pause(failures):
    longest_s = Backoff(first_s=0.02, most_s=0.1, pause_s=in_step).wait_s(failures, RNG)
    drawn = [Backoff(first_s=0.02, most_s=0.1).wait_s(failures, RNG) for _ in range(2_000)]

    assert min(drawn) < 0.05 * longest_s
    assert 0.95 * longest_s < max(drawn) <= longest_s
    assert sum(drawn) / len(drawn) == pytest.approx(longest_s / 2, rel=0.1)


@pytest.mark.parametrize(
    ("says", "make"),
    [
        ("first_s must be from 0 to most_s, got -1", lambda: Backoff(first_s=-1)),
        ("got 2 and 1", lambda: Backoff(first_s=2, most_s=1)),
        ("first_s must .* inf", lambda: Backoff(most_s=math.inf)),
        ("attempts must be a whole number of 1 or more, got 0", lambda: Backoff(attempts=0)),
        ("tokens must be above 0 and finite", lambda: Budget(0, 0.1)),
        ("tokens must be above 0 and finite", lambda: Budget(5, -1)),
    ],
)
def test_what_makes_no_sense_is_refused(says, make):
    with pytest.raises(ValueError, match=says):
        make()


def test_a_budget_ends_at_half_its_tokens_and_answers_earn_them_up_to_the_most():
    budget, earned = Budget(10), Budget(4, ratio=0.5)
    for _ in range(100):
        earned.allows(False)

    assert [True, True, True, True, False, False] == [budget.allows(True) for _ in range(6)]
    assert [True, False] == [earned.allows(True) for _ in range(2)]
    assert earned.allows(False)


class RefusedError(grpc.RpcError):
    def code(self):
        return grpc.StatusCode.RESOURCE_EXHAUSTED


class Refuses:
    """An operation whose calls are all refused."""

    request = None

    def rpc(self, stub):
        async def refused(request):
            raise RefusedError

        return refused


def draws(budget=None, **settings):
    """What a strategy draws for its pauses in each of two runs of one refused operation."""
    drawn = []

    def noted(failures, first_s, most_s, draw):
        drawn.append(draw())
        return 0.0

    async def one():
        yield Refuses()

    strategy = Retrying(Backoff(attempts=9, pause_s=noted), budget, **settings)
    found = []
    for _ in range(2):
        drawn.clear()
        asyncio.run(strategy(None, one(), 1))
        found.append([*drawn])
    return found


def test_pauses_follow_from_the_seed_and_a_second_run_draws_them_again():
    (first, again), (other, _) = draws(seed=7), draws(seed=8)

    assert 8 == len({*first})
    assert first == again != other


def test_a_second_run_has_the_whole_budget_again():
    assert [4, 4] == [len(drawn) for drawn in draws(Budget(10))]


# ---- real servers --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow():
    settings = {"read_delay_s": DISK_S, "write_delay_s": DISK_S, "locking": "per_key"}
    with serving(**settings, threads=PLACES, max_concurrent_rpcs=PLACES) as server:
        yield server


def crowd(server, strategy, operations=12):
    run = load.run(strategy, server, READS, in_flight=operations, calls=operations)

    assert audit(run).holds
    assert operations == len(strategy.operations) == strategy.ends.total()
    assert run.issued == sum(tried.attempts for tried in strategy.operations)
    assert run.outcomes().get("OK", 0) == strategy.ends["OK"]
    return run


@pytest.mark.slow
def test_who_asks_often_enough_is_served_in_the_end(narrow):
    """The times of the operations include the pauses."""
    strategy = Retrying(Backoff(first_s=0.03, most_s=0.03, pause_s=in_step))
    for operations in (12, 4):  # another run begins anew
        crowd(narrow, strategy, operations)

        assert {"OK": operations} == strategy.ends
        least_s = [DISK_S + 0.03 * (tried.attempts - 1) for tried in strategy.operations]
        assert all(
            tried.took_s >= each for tried, each in zip(strategy.operations, least_s, strict=True)
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "most"),
    [
        (lambda: Retrying(Backoff(attempts=1)), 12),
        (lambda: Retrying(Backoff(first_s=0, most_s=0, attempts=3)), 36),
        (lambda: Retrying(Backoff(first_s=0.001), Budget(8, ratio=0.1)), 12 + 8),
    ],
)
def test_what_is_given_up_has_failed_by_name(strategy, most, narrow):
    chosen = strategy()
    run = crowd(narrow, chosen)

    assert {"OK", "RESOURCE_EXHAUSTED"} == set(chosen.ends)
    assert run.issued <= most


@pytest.mark.slow
def test_an_adaptive_limit_keeps_the_pool_busy_and_the_queue_short():
    """Eight threads, and up to 200 calls in flight if it wishes: it stays within a wide band."""
    strategy = Adaptive()
    with serving(read_delay_s=0.03, locking="per_key", threads=8) as server:
        run = load.run(strategy, server, READS, in_flight=200, duration_s=0.8)

    assert audit(run).holds
    assert {"OK"} == set(run.outcomes())
    assert 2 <= strategy.limiter.settled(run.window_s) <= 24
    assert run.samples["in_flight"].max() <= 24


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Adaptive(), Retrying(Backoff(first_s=0.01, most_s=0.05))])
def test_an_interrupted_run_is_accounted_for(strategy):
    """One call occupies the server for 20 s; the second interrupt waits for no reply."""
    interrupts = [
        threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)) for after_s in (0.01, 0.4)
    ]

    def twice(sample) -> None:
        if sample.issued > 0 and interrupts[0].ident is None:
            for interrupt in interrupts:
                interrupt.start()

    settings = {"read_delay_s": 20, "write_delay_s": 0, "locking": "per_key"}
    with (
        serving(**settings, threads=1, max_concurrent_rpcs=1) as stuck,
        pytest.raises(RunInterrupted) as ended,
    ):
        load.run(strategy, stuck, READS, in_flight=4, duration_s=30, on_sample=twice)

    assert audit(ended.value.run).holds
    if isinstance(strategy, Retrying):
        assert ended.value.run.issued == sum(tried.attempts for tried in strategy.operations)
        assert {"CANCELLED": 4} == strategy.ends
