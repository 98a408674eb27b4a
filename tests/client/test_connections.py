"""connections.py: as many as asked for, really apart, and each with its share in flight."""

import gc
import time

import numpy as np
import psutil
import pytest

from kvstore.client import load, run_in_process
from kvstore.client.channel import ServerNotReached, Target
from kvstore.client.connections import ConnectionsShared, Opened, _distinct
from kvstore.client.load import RunFailed
from kvstore.client.strategies import blocking, bounded, futures, pipelined, tasks, threads
from kvstore.client.workload import Workload
from kvstore.measure import Run, audit

SMALL = Workload(value_bytes_mean=16)
ONE = Target("127.0.0.1:1")

WAYS = [
    (bounded, 12, {}),
    (tasks, 12, {}),
    (threads, 8, {}),
    (pipelined, 8, {"streams": 4}),
    (futures, 1, {}),
]


def established(address: str) -> int:
    """Connections from this process to the server, as the system counts them."""
    port = int(address.rpartition(":")[2])
    here = psutil.Process().net_connections()
    return sum(1 for c in here if c.status == "ESTABLISHED" and c.raddr and c.raddr.port == port)


def when_at_rest(address: str, expected: int = 0) -> int:
    """Connections once those of runs that have ended are closed, or after 10 s."""
    gc.collect()  # gRPC's streams refer to their channel in a circle
    end_s = time.perf_counter() + 10.0  # and it closes a socket when its thread comes to it
    while established(address) > expected and time.perf_counter() < end_s:
        time.sleep(0.02)
    return established(address)


def most_in_flight(run: Run, connection: int) -> int:
    """The most calls that were in flight at once on one connection."""
    calls = run.records[run.records["connection"] == connection]
    at_s = np.concatenate([calls["sent_s"], calls["done_s"]])
    change = np.repeat([1, -1], len(calls))
    return int(change[np.lexsort((change, at_s))].cumsum().max(initial=0))


@pytest.mark.parametrize(("strategy", "in_flight", "options"), WAYS)
def test_connections_are_apart_and_share_the_calls(strategy, in_flight, options, quick_server):
    seen = [0]

    def look(_: object) -> None:
        seen.append(established(quick_server.address) - before)

    before = when_at_rest(quick_server.address)
    run = load.run(
        strategy, quick_server, SMALL, in_flight=in_flight, connections=4, calls=400,
        on_sample=look, sample_interval_s=0.02, **options,
    )  # fmt: skip
    used = np.bincount(run.records["connection"], minlength=4)

    assert (4, 4) == (run.connections, len(run.connect_s))
    assert max(seen) == 5  # and one that asks the server for its status
    assert audit(run).holds
    assert 4 == len(used)
    assert min(used) > 0
    if strategy is not futures:
        share = [most_in_flight(run, number) for number in range(4)]
        assert max(share) <= in_flight // 4
    assert all(0 < took_s < 10 for took_s in run.connect_s)
    assert when_at_rest(quick_server.address, before) == before


def test_connections_stand_before_the_clock_starts(quick_server):
    run = load.run(tasks, quick_server, SMALL, in_flight=8, connections=8, calls=8)

    assert run.records["sent_s"].min() >= 0
    assert run.samples["elapsed_s"].iloc[0] == 0
    assert run.samples["elapsed_s"].is_monotonic_increasing


@pytest.mark.parametrize("strategy", [blocking, tasks])
def test_a_single_connection_is_verified_as_well(strategy, quick_server):
    assert 1 == load.run(strategy, quick_server, SMALL, calls=3).connections


def test_a_run_of_a_process_of_its_own_has_as_many(quick_server, tmp_path):
    run = run_in_process(bounded, quick_server, SMALL, in_flight=6, connections=3, calls=60)

    assert (3, 3) == (run.connections, len(run.connect_s))
    assert "x6 over 3 connections" in repr(run)


@pytest.mark.parametrize(
    ("strategy", "options", "says"),
    [
        (blocking, {"connections": 2}, "2 connections need at least as many calls in flight"),
        (pipelined, {"in_flight": 8, "connections": 4}, "at least as many streams, got 1"),
        (bounded, {"connections": 0}, "connections must be a whole number of 1 or more"),
    ],
)
def test_connections_that_would_carry_nothing_are_refused(strategy, options, says, quick_server):
    with pytest.raises(ValueError, match=says):
        load.run(strategy, quick_server, SMALL, calls=1, **options)


def test_connections_that_are_shared_are_no_run():
    with pytest.raises(
        ConnectionsShared, match="3 connections were asked for, but the server sees 2"
    ):
        _distinct([ONE] * 3, [Opened(None, 0.1, peer) for peer in ("a:1", "a:2", "a:1")])


def test_two_servers_may_see_the_same_port_at_our_end():
    opened = [Opened(None, 0.1, "a:1"), Opened(None, 0.1, "a:1")]

    assert opened == _distinct([ONE, Target("127.0.0.1:2")], opened)


def test_a_server_that_goes_while_connections_open_fails_the_run(own_server, monkeypatch):
    """The server answers, and is gone when the connections of the run are opened."""
    from kvstore.client import connections

    server = own_server()
    monkeypatch.setattr(connections, "CONNECT_S", 0.3)

    def end(*_: object) -> None:
        server.child.popen.kill()
        server.child.popen.wait()

    def dies_first(client, schedule, in_flight):
        end()
        bounded(client, schedule, in_flight)

    with pytest.raises(RunFailed) as failed:
        load.run(dies_first, server, SMALL, in_flight=2, connections=2, calls=10)
    assert isinstance(failed.value.__cause__, ServerNotReached) or "ended" in str(failed.value)
    assert 0 == failed.value.run.issued
