"""overload.py: pauses computed by hand, and many callers of a real server, without a lost call."""

import asyncio
import math
import os
import random
import signal
import threading

import pytest
from fakes import FakeError
from tables import for_each

from kvstore.client import load, workload
from kvstore.client.errors import RunInterrupted
from kvstore.client.overload import Attempts, Backoff, Budget, Retrying
from kvstore.measure import audit
from kvstore.model import overload
from kvstore.server import serving

READS = workload.reads(seed=1, value_bytes_mean=64)
RNG = random.Random(1)
DISK_S, PLACES = 0.05, 2


# ---- pauses --------------------------------------------------------------------------------


def test_without_jitter_pauses_double_up_to_the_longest():
    backoff = Backoff(first_s=0.02, most_s=0.1, jitter=False)

    assert [0.02, 0.04, 0.08, 0.1, 0.1] == [backoff.wait_s(n, RNG) for n in range(1, 6)]
    assert 0.1 == backoff.wait_s(10_000, RNG)  # 2 to this power is no number any more


@for_each("failures", [1, 3, 9])
def test_full_jitter_uses_all_of_the_pause(failures):
    longest_s = Backoff(first_s=0.02, most_s=0.1, jitter=False).wait_s(failures, RNG)
    drawn = [Backoff(first_s=0.02, most_s=0.1).wait_s(failures, RNG) for _ in range(2_000)]

    assert min(drawn) < 0.05 * longest_s
    assert 0.95 * longest_s < max(drawn) <= longest_s
    assert sum(drawn) / len(drawn) == pytest.approx(longest_s / 2, rel=0.1)


def test_no_pause_is_none_every_time():
    assert {0.0} == {Backoff(first_s=0).wait_s(n, RNG) for n in (1, 2, 50)}


@for_each(
    ("named", "wrong"),
    [
        ("first_s must be from 0 to most_s, got -1", {"first_s": -1}),
        ("got 2 and 1", {"first_s": 2, "most_s": 1}),
        ("first_s must .* inf", {"most_s": math.inf}),
        ("attempts must be a whole number of 1 or more, got 0", {"attempts": 0}),
    ],
)
def test_a_pause_that_makes_no_sense_is_refused(named, wrong):
    with pytest.raises(ValueError, match=named):
        Backoff(**wrong)


# ---- the budget ----------------------------------------------------------------------------


def test_a_budget_ends_at_half_its_tokens():
    budget = Budget(10)

    assert [True, True, True, True, False, False] == [budget.allows(True) for _ in range(6)]


def test_answers_earn_tokens_up_to_the_most():
    budget = Budget(4, ratio=0.5)
    for _ in range(100):
        budget.allows(False)

    assert [True, False] == [budget.allows(True) for _ in range(2)]
    assert budget.allows(False)


class Drawn(Backoff):
    """Remembers each pause that it draws."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "pauses_s", [])

    def wait_s(self, failures, rng):
        self.pauses_s.append(super().wait_s(failures, rng))
        return self.pauses_s[-1]


class Refuses:
    """An operation whose calls are all refused."""

    request = None

    def rpc(self, stub):
        async def refused(request):
            raise FakeError

        return refused


def pauses_s(strategy, backoff):
    async def one():
        yield Refuses()

    backoff.pauses_s.clear()
    asyncio.run(strategy(None, one(), 1))
    return [*backoff.pauses_s]


def test_pauses_follow_from_the_seed_and_a_second_run_draws_them_again():
    first, again, other = (
        pauses_s(Retrying(backoff := Drawn(first_s=1e-4, attempts=9), seed=seed), backoff)
        for seed in (7, 7, 8)
    )
    strategy = Retrying(backoff := Drawn(first_s=1e-4, attempts=9), seed=7)

    assert 8 == len({*first})
    assert first == again != other
    assert [first, first] == [pauses_s(strategy, backoff) for _ in range(2)]


def test_a_second_run_has_the_whole_budget_again():
    strategy = Retrying(backoff := Drawn(first_s=0), Budget(10))

    assert [4, 4] == [len(pauses_s(strategy, backoff)) for _ in range(2)]


@for_each("wrong", [(0, 0.1), (math.inf, 0.1), (5, -1)])
def test_a_budget_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="tokens must be above 0 and finite"):
        Budget(*wrong)


# ---- crowds --------------------------------------------------------------------------------


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
@for_each("first_s", [0.005, 0.1])
def test_who_asks_often_enough_is_served_in_the_end(first_s, narrow):
    strategy = Retrying(Backoff(first_s=first_s, most_s=0.2))
    crowd(narrow, strategy)

    assert {"OK": 12} == strategy.ends
    assert all(tried.took_s >= DISK_S for tried in strategy.operations)


@pytest.mark.slow
def test_a_second_run_begins_anew(narrow):
    strategy = Retrying(Backoff(attempts=3, first_s=0.001), Budget(30))
    for operations in (6, 4):
        crowd(narrow, strategy, operations)


def test_a_budget_can_be_filled_again():
    budget = Budget(2)
    assert not budget.allows(True)

    budget.refill()
    assert budget.allows(False)


@pytest.mark.slow
def test_callers_in_step_ask_about_as_often_as_predicted(narrow):
    """In a wide band: on a busy machine they fall out of step. All pauses count as their time."""
    strategy = Retrying(Backoff(first_s=0.12, most_s=0.12, jitter=False))
    run = crowd(narrow, strategy)

    assert all(each.took_s > 0.11 * (each.attempts - 1) for each in strategy.operations)
    assert 0.5 < run.issued / overload.retries_in_lockstep(12, PLACES).value < 2.5


@pytest.mark.slow
@for_each(
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
def test_an_interrupted_crowd_is_accounted_for():
    """One call occupies the server for 20 s, so no other call is served."""
    strategy = Retrying(Backoff(first_s=0.01, most_s=0.05))
    interrupts = [
        threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)) for after_s in (0.01, 0.4)
    ]

    def twice(sample) -> None:
        if sample.answered >= 5 and interrupts[0].ident is None:
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


def test_an_operation_tells_its_own_story():
    assert (2, "OK", 0.5) == Attempts(2, "OK", 0.5)
