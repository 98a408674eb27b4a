"""A server given only by its address: runs work, and when it goes every operation has an end."""

import time
from collections.abc import Iterator

import pytest
from plain_server import plain_server
from stacks import midway

from kvstore.client import load, workload
from kvstore.client.errors import RunFailed, ServerGone
from kvstore.client.strategies import bounded, pipelined, tasks
from kvstore.measure import accounts, audit

SMALL = workload.crud(value_bytes_mean=100)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with plain_server() as (address, _):
        yield address


@pytest.mark.parametrize("strategy", [bounded, tasks, pipelined])
def test_a_run_needs_no_more_than_the_methods_of_the_contract(strategy, address):
    run = load.run(strategy, address, SMALL, in_flight=4, calls=40)

    assert ("complete", 40) == (run.outcome, run.issued)
    assert audit(run).holds
    assert {"OK", "NOT_FOUND", "ALREADY_EXISTS"} >= set(run.outcomes())
    assert run.server.operations is None  # the server has no counts
    # It reports no process id. On this machine its process is found by its port.
    assert run.server_cpu.total_s >= 0


@pytest.mark.parametrize(
    "mixed",
    [
        workload.Workload(mix={"create": 1, "retrieve": 1}),
        workload.Workload(mix={"retrieve": 1}, preload=50),
    ],
)
def test_a_server_that_exchanges_two_replies_of_a_stream_is_noticed(mixed):
    """A retrieve has a value and a create has none; where all values are known they differ."""
    with plain_server("exchange") as (at, _), pytest.raises(RunFailed, match="made no sense"):
        load.run(pipelined, at, mixed, in_flight=8, calls=200)


def test_a_server_that_closes_in_mid_window_leaves_nothing_unaccounted_for():
    """It ends in order, but cuts off what is on its disk: those operations are unknown."""
    with plain_server() as (address, process):
        started_s = time.perf_counter()
        with pytest.raises(ServerGone) as gone:
            load.run(
                pipelined,
                address,
                SMALL,
                in_flight=8,
                duration_s=30,
                batch=50,
                streams=2,
                on_sample=midway(process.stdin.close),
            )
    run, report = gone.value.run, accounts(gone.value.run)

    assert time.perf_counter() - started_s < 10  # not the 30 s that were asked for
    assert f"no server answers at {address} any more" in str(gone.value)
    assert "server gone" == run.outcome
    assert audit(run).holds, repr(audit(run))
    assert report.balanced, repr(report)
    assert report.ok > 0
    assert 50 <= report.unknown <= 8 * 50
    assert run.server.operations is None
