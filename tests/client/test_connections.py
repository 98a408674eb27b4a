"""connections.py: as many as requested, each separate, and the connection of each call."""

import asyncio
import gc
import socket
import time
from contextlib import AsyncExitStack, ExitStack

import numpy as np
import psutil
import pytest

from kvstore.client import channel, connections, load
from kvstore.client.channel import Target
from kvstore.client.connections import Opened, _distinct, aopen_all, open_all
from kvstore.client.errors import ConnectionsShared, ServerNotReached
from kvstore.client.strategies import bounded, futures, pipelined, tasks, threads
from kvstore.client.workload import Workload
from kvstore.measure import Run, audit
from kvstore.measure.audit import in_flight_steps

SMALL = Workload(value_bytes_mean=16)
ONE = Target("127.0.0.1:1")

LONG = {"duration_s": 1.0}  # long enough to be looked at on a busy machine: 400 calls were not
WAYS = [
    (tasks, 12, LONG),
    (threads, 8, LONG),
    (pipelined, 8, {"streams": 4, **LONG}),
    (futures, 1, {"calls": 400, "rate_per_s": 400.0}),  # has no limit in flight
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
    return int(in_flight_steps(calls["sent_s"], calls["done_s"])[1].max(initial=0))


@pytest.mark.parametrize(("strategy", "in_flight", "options"), WAYS)
def test_connections_are_apart_and_share_the_calls(strategy, in_flight, options, quick_server):
    seen = [0]

    def look(_: object) -> None:
        seen.append(established(quick_server.address) - before)

    before = when_at_rest(quick_server.address)
    run = load.run(
        strategy,
        quick_server,
        SMALL,
        in_flight=in_flight,
        connections=4,
        on_sample=look,
        sample_interval_s=0.02,
        **options,
    )
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


def test_connections_that_are_shared_are_no_run():
    with pytest.raises(
        ConnectionsShared, match="3 connections were requested, but the server sees 2"
    ):
        _distinct([ONE] * 3, [Opened(None, 0.1, peer) for peer in ("a:1", "a:2", "a:1")])
    opened = [Opened(None, 0.1, "a:1"), Opened(None, 0.1, "a:1")]  # by two servers
    assert opened == _distinct([ONE, Target("127.0.0.1:2")], opened)


@pytest.mark.parametrize("strategy", [bounded, tasks])
def test_connections_stand_where_the_first_calls_are_refused(strategy, own_server):
    """A server that does one call at a time refuses the others, and that is an answer."""
    server = own_server(max_concurrent_rpcs=1)
    run = load.run(strategy, server, SMALL, in_flight=4, connections=4, calls=8)

    assert 4 == len(run.connect_s)
    assert run.connections in (0, 4)  # unknown where the server refused to tell
    assert audit(run).holds


@pytest.mark.parametrize("opens", ["threads", "loop"])
def test_a_server_that_accepts_and_never_answers_is_not_reached(opens, monkeypatch):
    """The kernel accepts connections for a process that is stopped."""
    monkeypatch.setattr(connections, "CONNECT_S", 0.3)
    monkeypatch.setattr(channel, "HANDSHAKE_S", 0.3)  # of the check that follows

    def on_threads(targets: list[Target]) -> None:
        with ExitStack() as stack:
            open_all(targets, stack)

    async def on_a_loop(targets: list[Target]) -> None:
        async with AsyncExitStack() as stack:
            await aopen_all(targets, stack)

    ways = {"threads": on_threads, "loop": lambda targets: asyncio.run(on_a_loop(targets))}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = Target(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ServerNotReached, match=rf"{target.address} within 0\.3 s: is the"):
            ways[opens]([target, target])
