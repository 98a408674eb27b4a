"""However a run ends, every call that was sent has an end, and memory stays under its ceiling."""

import itertools

import pytest

from kvstore.client import load, strategies, workload
from kvstore.client.schedule import LOOK_EVERY, Schedule
from kvstore.client.workload import Operations
from kvstore.measure import audit
from kvstore.server import serving

READS = workload.reads(keys=1, value_bytes_mean=16, sizes="fixed")


@pytest.fixture(scope="module")
def serial():
    with serving(read_delay_s=0.2, write_delay_s=0) as server:
        yield server


def test_a_guard_that_says_so_ends_the_schedule_at_its_next_look():
    said = itertools.chain([False], itertools.repeat(True))
    schedule = Schedule(
        Operations(workload.crud()), clock=lambda: 0.0, duration_s=1.0, guard=lambda: next(said)
    )

    assert LOOK_EVERY == len(list(schedule))


@pytest.mark.slow
def test_a_strategy_that_fails_leaves_no_call_without_an_end(serial):
    """A sender whose channel is closed under it fails just like this one."""

    def stumbles(client, schedule, in_flight):
        for operation in itertools.islice(schedule, 5):
            client.start(operation)
        raise ZeroDivisionError

    with pytest.raises(load.RunFailed, match="5") as failed:
        load.run(stumbles, serial, READS, calls=10)

    assert 5 == failed.value.run.issued
    assert audit(failed.value.run).holds


@pytest.mark.slow
def test_a_strategy_that_returns_too_early_has_its_calls_cancelled(serial):
    def leaves(client, schedule, in_flight):
        for operation in schedule:
            client.start(operation)

    run = load.run(leaves, serial, READS, calls=5)

    assert 5 == sum(run.outcomes().values())
    assert run.outcomes()["CANCELLED"] >= 1
    assert audit(run).holds


@pytest.mark.slow
def test_at_the_ceiling_every_call_has_an_end(serial):
    run = load.run(strategies.futures, serial, READS, duration_s=20, memory_ceiling_bytes=1.0)

    assert "memory ceiling" == run.outcome
    assert audit(run).holds
