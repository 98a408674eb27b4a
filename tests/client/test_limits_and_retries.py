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
from kvstore.client.overload import Backoff, Budget, Retrying, in_step
from kvstore.measure import audit
from kvstore.server import serving

READS = workload.reads(seed=1, value_bytes_mean=64)
RNG = random.Random(1)
DISK_S, PLACES = 0.05, 2


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
def test_an_interrupted_run_is_accounted_for():
    """One call occupies the server for 20 s; the second interrupt waits for no reply."""
    strategy = Retrying(Backoff(first_s=0.01, most_s=0.05))
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
    assert ended.value.run.issued == sum(tried.attempts for tried in strategy.operations)
    assert {"CANCELLED": 4} == strategy.ends
